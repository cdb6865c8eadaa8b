"""When the scheduler has to look again, and whether anybody is there to hand work to."""

from datetime import datetime

from django.db import connection

from controlplane.selectors import processes

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
    """Whether a Celery worker that takes any work has reported lately that it listens to the broker."""
    return processes.heard("worker", now).at_large > 0


def scheduler_heard_at() -> datetime | None:
    """When a scheduler that leads last reported that it lives; None if none is known."""
    return processes.last_at_work("scheduler")
