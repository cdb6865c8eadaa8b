"""Asking probes: a batch on one event loop, each with a time limit of its own, each written down as it ends."""

import time
from collections.abc import Callable
from concurrent.futures import as_completed
from datetime import datetime, timedelta

import structlog
from celery import shared_task
from recloser.core.probe import Fault

from controlplane import background, clock, egress
from controlplane.services import circuits, probes
from controlplane.services.probes import Job
from workers import database
from workers.egress import GuardedBackend
from workers.probers import http
from workers.probers.answer import Findings

LEASE_MARGIN_S = 0.5
"""What is left of a lease for writing the verdict down."""

log = structlog.get_logger(__name__)


@shared_task(ignore_result=True)
def run_rounds(ids: list[str]) -> None:
    """Ask these rounds. One that is over, or that somebody else has taken, is left out; so redelivery is harmless."""
    jobs = probes.take_rounds(ids=ids, now=clock.now())
    _ask_all(jobs, _finish_round)


@shared_task(ignore_result=True)
def run_tests(ids: list[str]) -> None:
    """Ask for the editor; no circuit is touched."""
    jobs = probes.take_tests(ids=ids, now=clock.now())
    _ask_all(jobs, _finish_test)


Finish = Callable[[Job, Findings, datetime | None], None]


def _ask_all(jobs: list[Job], finish: Finish) -> None:
    """Start all at once; while they wait for the network nobody's database connection is held."""
    if not jobs:
        return
    networks, started_at, started = egress.allowed_networks(), clock.now(), time.monotonic()
    waiting = {background.submit(_ask(job, networks)): job for job in jobs}
    database.release()
    for answer in as_completed(waiting):
        found = answer.result()
        at = found.connected_at
        connected_at = None if at is None else started_at + timedelta(seconds=at - started)
        _finish_safely(finish, waiting[answer], found, connected_at)
        database.release()


async def _ask(job: Job, networks: tuple[egress.Network, ...]) -> Findings:
    if job.spec is None:
        return Findings(fault=Fault.SPEC, detail=job.problem[:200])
    limit = min(job.spec.time_limit_s, job.lease_s - LEASE_MARGIN_S)
    if limit <= 0:
        return Findings(fault=Fault.GATE, detail="the lease had run out before the probe was sent")
    return await http.ask(job.spec, job.secrets, GuardedBackend(networks), time_limit_s=limit)


def _finish_safely(finish: Finish, job: Job, found: Findings, connected_at: datetime | None) -> None:
    """One verdict that cannot be written down does not cost the others theirs; its own lease runs out."""
    try:
        finish(job, found, connected_at)
    except Exception:
        log.exception("a probe's verdict was not written down", probe=str(job.id))


def _finish_round(job: Job, found: Findings, connected_at: datetime | None) -> None:
    judged = found.ruling()
    probes.note_asked(round_id=job.id, asked=found.asked, connected_at=connected_at)
    applied = circuits.finish_round(
        round_id=job.id,
        verdict=judged.verdict,
        operation=job.operation or None,
        retry_after_s=found.retry_after_s,
        answered=found.answered(),
        now=clock.now(),
    )
    log.info("probed", round=str(job.id), verdict=str(judged.verdict), cause=judged.cause, applied=applied)


def _finish_test(job: Job, found: Findings, connected_at: datetime | None) -> None:
    result = {"asked": found.asked, "answered": found.answered(), "verdict": str(found.ruling().verdict)}
    probes.finish_test(test_id=job.id, result=result, now=clock.now())
