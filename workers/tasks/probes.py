"""Asking probes: a batch on one event loop, each with a time limit of its own, each written down as it ends."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from celery import shared_task
from recloser.core.probe import Fault
from recloser.core.types import Verdict

from controlplane import background, clock, egress
from controlplane.selectors.networks import allowed_networks
from controlplane.services import certificates, circuits, probes, votes
from controlplane.services.probes import Job
from workers import database, probers
from workers.controls import Controls
from workers.probers.answer import Findings
from workers.way_out import way_out

LEASE_MARGIN_S = 0.5
"""What is left of a lease for writing the verdict down."""

STARVED_S = 0.5
"""A time limit that is noticed so late says that this process had no time, not that the vendor took it."""
GATHER_S = 0.02
"""How long the first verdict of several waits for more."""

log = structlog.get_logger(__name__)


@shared_task(ignore_result=True)
def run_rounds(ids: list[str]) -> None:
    """Ask these rounds. One that is over, or that somebody else has taken, is left out; so redelivery is harmless."""
    jobs = probes.take_rounds(ids=ids, now=clock.now())
    _ask_all(jobs, _finish_rounds)


@shared_task(ignore_result=True)
def run_votes(ids: list[str]) -> None:
    """Ask from this Celery worker's own place, as one of several; like `run_rounds`, redelivery is harmless."""
    jobs = votes.take_votes(ids=ids, now=clock.now())
    _ask_all(jobs, _finish_votes)


@shared_task(ignore_result=True)
def run_tests(ids: list[str]) -> None:
    """Ask for the editor; no circuit is touched."""
    jobs = probes.take_tests(ids=ids, now=clock.now())
    _ask_all(jobs, _finish_tests)


@dataclass(frozen=True, slots=True)
class Heard:
    """One job's answer, and when its connection stood."""

    job: Job
    found: Findings
    connected_at: datetime | None


Finish = Callable[[list[Heard]], None]


def _ask_all(jobs: list[Job], finish: Finish) -> None:
    """Start all at once; while they wait for the network nobody's database connection is held."""
    if not jobs:
        return
    networks, started_at, started = allowed_networks(), clock.now(), time.monotonic()
    controls = Controls(networks)
    waiting = {background.submit(_ask(job, networks, controls)): job for job in jobs}
    database.release()
    while waiting:
        ended = _ended(waiting)
        heard = [_heard(waiting.pop(answer), answer.result(), started_at, started) for answer in ended]
        _finish_safely(finish, heard)
        database.release()


def _ended(waiting: Iterable[Future[Findings]]) -> set[Future[Findings]]:
    """Those that have ended a moment after the first has: many verdicts cost little more than one."""
    first = wait(waiting, return_when=FIRST_COMPLETED).done
    return first | wait(waiting, timeout=GATHER_S).done


def _heard(job: Job, found: Findings, started_at: datetime, started: float) -> Heard:
    at = found.connected_at
    return Heard(job, found, None if at is None else started_at + timedelta(seconds=at - started))


async def _ask(job: Job, networks: tuple[egress.Network, ...], controls: Controls) -> Findings:
    """The dependency, and after a bad answer the control address, too."""
    found = await _ask_dependency(job, networks)
    if job.control is not None and found.ruling().verdict is Verdict.BAD:
        await controls.consult(job.control, found)
    return found


async def _ask_dependency(job: Job, networks: tuple[egress.Network, ...]) -> Findings:
    if job.spec is None:
        return Findings(fault=job.fault, detail=job.problem[:200])
    kept_back = LEASE_MARGIN_S + (job.control.time_limit_s if job.control else 0.0)
    limit = min(job.spec.time_limit_s, job.lease_s - kept_back)
    if limit <= 0:
        return Findings(fault=Fault.GATE, detail="the lease had run out before the probe was sent")
    found = await probers.ask(job.spec, job.secrets, way_out(networks), time_limit_s=limit)
    if found.fault is Fault.TIMEOUT and limit < job.spec.time_limit_s:
        found.fault, found.detail = Fault.GATE, "too little was left of the lease to wait as long as the probe may take"
    elif found.fault is Fault.TIMEOUT and (found.took_ms or 0.0) > (limit + STARVED_S) * 1000:
        found.fault, found.detail = Fault.GATE, "this Celery worker was too busy to say whose fault the silence was"
    return found


def _finish_safely(finish: Finish, heard: list[Heard]) -> None:
    """Verdicts that cannot be written down do not cost the others theirs; their own leases run out."""
    try:
        finish(heard)
    except Exception:
        log.exception("verdicts were not written down", probes=[str(each.job.id) for each in heard])


def _finish_rounds(heard: list[Heard]) -> None:
    applied = circuits.finish_rounds([_answered(each) for each in heard], now=clock.now())
    certificates.note_certificates(_met(heard), now=clock.now())
    for each in heard:
        judged = each.found.ruling()
        log.info(
            "probed",
            round=str(each.job.id),
            verdict=str(judged.verdict),
            cause=judged.cause,
            applied=applied[each.job.id],
        )


def _finish_votes(heard: list[Heard]) -> None:
    cast = [
        votes.Cast(each.job.id, each.found.ruling().verdict, each.found.answered(), each.found.asked, each.connected_at)
        for each in heard
    ]
    kept = votes.cast(votes=cast, now=clock.now())
    certificates.note_certificates(_met(heard), now=clock.now())
    for each in cast:
        log.info("voted", vote=str(each.vote_id), verdict=str(each.verdict), kept=kept[each.vote_id])


def _met(heard: list[Heard]) -> dict[int, float]:
    """By dependency, when the certificate of its probe's answer expires."""
    return {
        each.job.dependency_id: each.found.certificate_until
        for each in heard
        if each.job.dependency_id is not None and each.found.certificate_until is not None
    }


def _answered(heard: Heard) -> circuits.Answered:
    found = heard.found
    return circuits.Answered(
        round_id=heard.job.id,
        verdict=found.ruling().verdict,
        operation=heard.job.operation or None,
        retry_after_s=found.retry_after_s,
        answered=found.answered(),
        asked=found.asked,
        connected_at=heard.connected_at,
    )


def _finish_tests(heard: list[Heard]) -> None:
    for each in heard:
        found = each.found
        result = {"asked": found.asked, "answered": found.answered(), "verdict": str(found.ruling().verdict)}
        probes.finish_test(test_id=each.job.id, result=result, now=clock.now())
    certificates.note_certificates(_met(heard), now=clock.now())
