"""Circuits whose last probe said more about the prober than about the dependency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from recloser.core.probe import Fault
from recloser.core.types import State

from controlplane.models import ProbeRound


def since_by_environment() -> Mapping[int, datetime]:
    """By environment, since when the control address has not answered its probers either."""
    found: dict[int, datetime] = {}
    for each in _last_rounds():
        if is_suspect(each) and each.finished_at is not None:
            known = found.setdefault(each.circuit.environment_id, each.finished_at)
            found[each.circuit.environment_id] = min(known, each.finished_at)
    return found


def is_suspect(last: ProbeRound | None) -> bool:
    """Whether this round fell to the prober's own fault."""
    return last is not None and last.answered.get("cause") == Fault.PROBER_SUSPECT.value


def _last_rounds() -> Iterable[ProbeRound]:
    """The last finished round of each circuit out of service."""
    rows = ProbeRound.objects.filter(finished_at__isnull=False).exclude(circuit__state=State.CLOSED.value)
    return rows.order_by("circuit_id", "-granted_at").distinct("circuit_id").select_related("circuit")
