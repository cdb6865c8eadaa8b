"""The control plane's own processes: that they live, and how to wake the scheduler."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from controlplane import clock
from controlplane.models import ProcessBeat

DUE_CHANNEL = "recloser_due"
FORGET_AFTER = timedelta(days=1)


def beat(*, kind: str, name: str, detail: Mapping[str, Any], now: datetime | None = None) -> None:
    """Report that this process lives; its first report is its start."""
    now = now or clock.now()
    row = ProcessBeat(kind=kind, name=name, started_at=now, beat_at=now, detail=dict(detail))
    ProcessBeat.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=["kind", "name"], update_fields=["beat_at", "detail"]
    )


def end_beat(*, kind: str, name: str) -> None:
    """A process that ends on purpose takes its report with it."""
    ProcessBeat.objects.filter(kind=kind, name=name).delete()


def prune_beats(*, now: datetime) -> int:
    """Forget processes that have been silent for a day."""
    return ProcessBeat.objects.filter(beat_at__lt=now - FORGET_AFTER).delete()[0]


def wake_scheduler() -> None:
    """Once committed, the scheduler looks for due work at once instead of within a second."""
    with connection.cursor() as cursor:
        cursor.execute(f"NOTIFY {DUE_CHANNEL}")
