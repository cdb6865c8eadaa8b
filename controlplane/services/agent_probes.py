"""Probes that agent processes send, for what only they can reach: offered on lease, told once, judged here.

A process says which hosts its own code lists, and hears only of probes to those. What it tells is a claim: it counts
as that worker's vote, and a quarantined key or worker has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from recloser.core.outcomes import LONGEST_WAIT_S
from recloser.core.probe import Answer, Fault, Ruling, ruling

from controlplane import clock, probe_spec, secrets
from controlplane.models import AgentKey, AgentProber, Probe, ProbeVote, Worker
from controlplane.probe_spec import BadSpec, Spec, agents
from controlplane.probe_spec.conditions import Met, Seen, judged
from controlplane.services import seats, votes
from controlplane.services.ingest.names import Caller
from controlplane.services.ingest.wire import Batch, ProbeReport

MOST_AT_ONCE = 1
REFRESHED_AFTER = timedelta(seconds=5)
KEPT_FOR = timedelta(hours=1)


def attend(caller: Caller, worker_id: int, batch: Batch) -> list[dict[str, Any]]:
    """Take what a process tells of its probes, remember that it is willing, and offer it the next."""
    now = clock.now()
    if not _trusted(caller, worker_id):
        return []
    votes.cast(votes=[cast for each in batch.probes if (cast := _cast(batch.session, each, now))], now=now)
    if not batch.probe_hosts:
        return []
    hosts = sorted({host.casefold() for host in batch.probe_hosts})
    _remember(caller, worker_id, batch.session, hosts, now)
    return _offer(caller, worker_id, batch, hosts, now)


def forget_idle(*, now: datetime) -> int:
    """Drop processes that have not been willing for long."""
    return AgentProber.objects.filter(heard_at__lt=now - KEPT_FOR).delete()[0]


def _trusted(caller: Caller, worker_id: int) -> bool:
    quarantined = Q(quarantined_at__isnull=False)
    if AgentKey.objects.filter(quarantined, pk=caller.key_id).exists():
        return False
    return not Worker.objects.filter(quarantined, pk=worker_id).exists()


def _remember(caller: Caller, worker_id: int, session: UUID, hosts: list[str], now: datetime) -> None:
    fresh = AgentProber.objects.filter(session=session, hosts=hosts, heard_at__gt=now - REFRESHED_AFTER)
    if not fresh.exists():
        AgentProber.objects.update_or_create(
            session=session,
            defaults={
                "worker_id": worker_id,
                "key_id": caller.key_id,
                "environment_id": caller.environment_id,
                "hosts": hosts,
                "heard_at": now,
            },
        )


@transaction.atomic
def _offer(caller: Caller, worker_id: int, batch: Batch, hosts: list[str], now: datetime) -> list[dict[str, Any]]:
    """Seats that this process may take, or has taken and may not have heard of; one of a worker's in each round."""
    free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=now) | Q(session=batch.session)
    rows = ProbeVote.objects.filter(
        free, by_agent=True, voted_at=None, round__finished_at=None, round__lease_expires_at__gt=now,
        round__circuit__environment=caller.environment_id,
    ).select_for_update(skip_locked=True, no_key=True, of=("self",))  # fmt: skip
    offers: list[dict[str, Any]] = []
    for seat in rows.select_related("round__circuit__dependency__probe").order_by("round__due_at")[:50]:
        if len(offers) < MOST_AT_ONCE and (spec := _spec(seat, hosts)) and not _votes_already(seat, worker_id):
            offers.append(_leased(seat, spec, caller, worker_id, batch, now))
    return offers


def _votes_already(seat: ProbeVote, worker_id: int) -> bool:
    return ProbeVote.objects.filter(round=seat.round_id, worker=worker_id).exclude(pk=seat.pk).exists()


def _spec(seat: ProbeVote, hosts: Sequence[str]) -> Spec | None:
    """The probe behind a seat, if this process lists its host and it is still one for agents."""
    probe: Probe | None = getattr(seat.round.circuit.dependency, "probe", None)
    if probe is None:
        return None
    try:
        spec: Spec = probe_spec.read(probe.spec, probe.kind)
        unfit = agents.unfit(spec, secrets.unseal_values(probe.secrets))
    except (BadSpec, secrets.Unreadable):
        return None
    return spec if not unfit and agents.host_and_port(spec) in hosts else None


def _leased(seat: ProbeVote, spec: Spec, caller: Caller, worker_id: int, batch: Batch, now: datetime) -> dict[str, Any]:
    if seat.session != batch.session or seat.lease_expires_at is None or seat.lease_expires_at <= now:
        lease = timedelta(seconds=spec.time_limit_s + seats.RETURN_S)
        seat.lease_expires_at = min(now + lease, seat.round.lease_expires_at)
        seat.session, seat.worker_id, seat.taken_at = batch.session, worker_id, now
        seat.place = f"{caller.agent}/{batch.instance}"[:300]
        seat.save(update_fields=["lease_expires_at", "session", "worker", "taken_at", "place"])
    return {
        "id": str(seat.pk),
        "dependency": seat.round.circuit.dependency.slug,
        "generation": seat.round.generation,
        "lease_s": round((seat.lease_expires_at - now).total_seconds(), 3),
        **agents.told(spec),
    }


def _cast(session: UUID, report: ProbeReport, now: datetime) -> votes.Cast | None:
    """The vote that a report comes to; None where the seat is another's, the lease is over or the circuit moved on."""
    seat = (
        ProbeVote.objects.filter(
            pk=report.id, session=session, by_agent=True, voted_at=None, lease_expires_at__gt=now,
            round__generation=report.generation, round__finished_at=None,
        ).select_related("round__circuit__dependency__probe").first()
    )  # fmt: skip
    probe: Probe | None = getattr(seat.round.circuit.dependency, "probe", None) if seat else None
    if seat is None or probe is None or not _current(seat):
        return None
    try:
        spec: Spec = probe_spec.read(probe.spec, probe.kind)
    except BadSpec:
        return None
    ruled, met = _ruled(spec, report)
    asked = {"method": getattr(spec, "method", "TCP connect"), "address": spec.shown_address, "from": seat.place}
    return votes.Cast(seat.pk, ruled.verdict, _answered(report, ruled, met), asked)


def _current(seat: ProbeVote) -> bool:
    return seat.round.generation == seat.round.circuit.generation


def _ruled(spec: Spec, report: ProbeReport) -> tuple[Ruling, list[Met]]:
    """The same conditions and the same rule as for our own probers, held against what the agent tells."""
    if report.fault is not None:
        return ruling(Answer(fault=Fault(report.fault))), []
    met = list(judged(spec, Seen(status=report.status, took_ms=report.took_ms)))
    return ruling(Answer(report.status, {each.name: each.held for each in met})), met


def _answered(report: ProbeReport, ruled: Ruling, met: list[Met]) -> dict[str, Any]:
    wait = report.retry_after_s
    return {
        "status": report.status,
        "took_ms": report.took_ms,
        "conditions": [each._asdict() for each in met],
        "cause": ruled.cause,
        "misconfigured": ruled.misconfigured,
        "retry_after_s": None if wait is None else min(wait, LONGEST_WAIT_S),
    }
