"""When the scheduler has to look again, and whether anybody is there to hand work to."""

from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Max

from controlplane.models import ProcessBeat

WORKER_SILENT_AFTER = timedelta(seconds=6)

_NEXT = """
SELECT extract(epoch FROM least(
    (SELECT min(due_at) FROM controlplane_circuit WHERE due_at > %(now)s),
    (SELECT min(sweep_at) FROM controlplane_circuit WHERE sweep_at > %(now)s),
    (SELECT min(due_at) FROM controlplane_alertdelivery WHERE status = 'pending' AND due_at > %(now)s)
) - %(now)s)
"""


def next_due_s(now: datetime) -> float | None:
    """Seconds until the next deadline that is still to come; None without one."""
    with connection.cursor() as cursor:
        cursor.execute(_NEXT, {"now": now})
        (wait,) = cursor.fetchone()
    return None if wait is None else float(wait)


def celery_worker_lives(now: datetime) -> bool:
    """Whether any Celery worker has reported lately that it listens to the broker."""
    lately = ProcessBeat.objects.filter(kind="worker", beat_at__gt=now - WORKER_SILENT_AFTER)
    return lately.filter(detail__listening=True).exists()


def scheduler_heard_at() -> datetime | None:
    """When a scheduler that leads last reported that it lives; None if none is known. Who stands by does nothing."""
    leading = ProcessBeat.objects.filter(kind="scheduler", detail__leader=True)
    at: datetime | None = leading.aggregate(at=Max("beat_at"))["at"]
    return at
