"""What is done now and then, away from the scheduler's loop: sums, retention, partitions."""

from collections.abc import Callable
from datetime import datetime

import structlog
from celery import shared_task

from controlplane import clock
from controlplane.services import (
    agent_probes,
    alert_causes,
    alerts,
    baselines,
    circuits,
    overrides,
    partitions,
    probes,
    rollups,
    runs,
    system,
)
from workers import database

log = structlog.get_logger(__name__)


PRUNES = (
    system.prune_beats,
    probes.prune_probes,
    agent_probes.forget_idle,
    alerts.prune_deliveries,
    alert_causes.prune_causes,
    overrides.prune_tokens,
    runs.prune_runs,
    baselines.prune,
    runs.prune_step_logs,
)


def _prune(now: datetime) -> None:
    for prune in PRUNES:
        prune(now=now)


CHORES: dict[str, Callable[[datetime], object]] = {
    "judge by rows": lambda now: circuits.recheck_lately_failing(now=now),
    "roll up": lambda now: rollups.roll_up(),
    "add up runs": lambda now: runs.add_up_hours(now=now),
    "drop partitions": lambda now: partitions.drop_old(now=now),
    "baselines": lambda now: baselines.refresh(now=now),
    "prune": _prune,
}


@shared_task(ignore_result=True)
def run_chores(names: list[str]) -> None:
    """Do these once each. One that fails is told and holds up no other; whoever comes second finds nothing to do."""
    for name in names:
        try:
            CHORES[name](clock.now())
        except Exception:
            log.exception("a chore failed", chore=name)
        finally:
            database.release()
