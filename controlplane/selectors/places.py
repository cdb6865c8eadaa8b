"""The places that a probe can be asked from just now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from controlplane.models import AgentProber, ProcessBeat
from controlplane.selectors.processes import SILENT_AFTER

HERE = "here"
"""The Celery workers without a vantage of their own."""
WILLING_WITHIN = timedelta(seconds=90)
"""An idle agent process is heard once a minute."""


def vantages(now: datetime) -> list[str]:
    """The control plane's own places that are alive, by name; the one without a name first."""
    beats = ProcessBeat.objects.filter(kind="worker", beat_at__gt=now - SILENT_AFTER["worker"])
    named = {beat.detail.get("vantage") for beat in beats if beat.detail.get("listening") is True}
    return [HERE, *sorted(name for name in named if name)]


def trusted_probers(environment_ids: Iterable[int], now: datetime) -> list[AgentProber]:
    """Agent processes that are willing and alive, without those whose key or worker is quarantined or revoked."""
    rows = AgentProber.objects.filter(environment__in=list(environment_ids), heard_at__gt=now - WILLING_WITHIN)
    return list(
        rows.filter(worker__quarantined_at__isnull=True, key__quarantined_at__isnull=True, key__revoked_at__isnull=True)
    )


def willing(probers: Iterable[AgentProber], environment_id: int, host: str) -> int:
    """How many different workers among them reach this host."""
    able = (each for each in probers if each.environment_id == environment_id and host in each.hosts)
    return len({each.worker_id for each in able})
