"""Probe rounds and what time alone changes: granted, finished, expired, locked out; each verdict is the core's."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from recloser.core import circuit as core
from recloser.core.policy import CircuitPolicy
from recloser.core.types import Mode, State, Verdict

from controlplane import clock
from controlplane.models import Circuit, Environment, ProbeRound
from controlplane.selectors import policies
from controlplane.services import transitions
from controlplane.services.transitions import core_of


@transaction.atomic
def claim_rounds(*, now: datetime, limit: int = 50, dependency_id: int | None = None) -> list[ProbeRound]:
    """Grant a round to every circuit that is due and has an enabled probe; two claimers never get the same one.

    `dependency_id`: to its circuit alone.
    """
    due = Circuit.objects.filter(
        state=State.OPEN.value, mode=Mode.AUTO.value, due_at__lte=now, dependency__probe__enabled=True
    )
    due = due if dependency_id is None else due.filter(dependency=dependency_id)
    locked = due.select_for_update(skip_locked=True, no_key=True, of=("self",)).select_related("dependency__probe")
    rows = list(locked.order_by("id")[:limit])
    granted = [made for row in rows if (made := transitions.attempt(_grant, row, now)) is not None]
    transitions.announce([each.circuit for each in granted])
    return granted


@transaction.atomic
def _grant(row: Circuit, now: datetime) -> ProbeRound | None:
    policy = _policy(row)
    bring_up_to_date(row, policy, now)
    round_id = uuid.uuid4()
    due_at = row.due_at or now
    answer = core.grant_round(core_of(row), policy, clock.seconds(now), str(round_id))
    if not answer.granted or answer.circuit.round is None:
        return None
    asked_by, row.probe_requested_by = row.probe_requested_by, ""
    transitions.save(row, answer.circuit, policy=policy, now=now, evidence={"round": str(round_id)})
    if asked_by:
        row.save(update_fields=["probe_requested_by"])
    return ProbeRound.objects.create(
        id=round_id,
        circuit=row,
        generation=answer.circuit.generation,
        requested_by=asked_by,
        due_at=due_at,
        granted_at=now,
        lease_expires_at=datetime.fromtimestamp(answer.circuit.round.lease_expires_at, UTC),
        operation=row.dependency.probe.operation,
    )


@transaction.atomic
def finish_round(
    *,
    round_id: uuid.UUID | str,
    verdict: Verdict | str,
    operation: str | None = None,
    retry_after_s: float | None = None,
    answered: Mapping[str, Any] | None = None,
    now: datetime,
) -> bool:
    """Apply a round's verdict; False, and no circuit changed, if it came late, twice, or to a circuit that moved on."""
    circuit_id = ProbeRound.objects.filter(pk=round_id).values_list("circuit_id", flat=True).first()
    if circuit_id is None:
        return False
    row = Circuit.objects.select_for_update(no_key=True).get(pk=circuit_id)
    policy = _policy(row)
    moved = bring_up_to_date(row, policy, now)
    kept = ProbeRound.objects.select_for_update(no_key=True).get(pk=round_id)
    finish = core.finish_round(
        core_of(row),
        str(kept.pk),
        Verdict(verdict),
        policy,
        clock.seconds(now),
        jitter=random.uniform(-1.0, 1.0),  # noqa: S311
        operation=operation or None,
        retry_after_s=retry_after_s,
    )
    if finish.applied:
        transitions.save(row, finish.circuit, policy=policy, now=now, evidence=_told(kept, finish, answered))
    _keep_answer(kept, finish, verdict, answered, now)
    if finish.applied or moved:
        transitions.announce([row])
    return finish.applied


def _told(kept: ProbeRound, finish: core.Finish, answered: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "round": str(kept.pk),
        "verdict": str(finish.verdict),
        "reason": finish.reason,
        "good_rounds": finish.circuit.good_rounds,
        "failed_rounds": finish.circuit.failed_rounds,
        "cooldown_s": finish.circuit.cooldown_s,
        "cause": (answered or {}).get("cause"),
    }


def _keep_answer(
    kept: ProbeRound, finish: core.Finish, verdict: Verdict | str, answered: Mapping[str, Any] | None, now: datetime
) -> None:
    """The first answer of a round stays, applied or not; a repeated one changes nothing."""
    if kept.finished_at is not None:
        return
    kept.finished_at = now
    kept.verdict = str(finish.verdict or Verdict(verdict))
    kept.applied = finish.applied
    kept.answered = dict(answered or {}) | {"reason": finish.reason}
    kept.save(update_fields=["finished_at", "verdict", "applied", "answered"])


def sweep_due(*, now: datetime, limit: int = 100) -> int:
    """Write down what time alone has changed: leases and overrides run out, lockouts reached; how many circuits."""
    waiting = Circuit.objects.filter(sweep_at__lte=now, suspected_at=None).order_by("sweep_at")
    return sum(bool(transitions.attempt(_sweep, pk, now)) for pk in waiting.values_list("pk", flat=True)[:limit])


@transaction.atomic
def _sweep(circuit_id: int, now: datetime) -> bool:
    rows = Circuit.objects.select_for_update(skip_locked=True, no_key=True)
    row = rows.filter(pk=circuit_id, sweep_at__lte=now).first()
    if row is None:
        return False
    policy = _policy(row)
    if bring_up_to_date(row, policy, now):
        transitions.announce([row])
        return True
    Circuit.objects.filter(pk=row.pk).update(sweep_at=transitions.sweep_at(core_of(row), policy))
    return False


def bring_up_to_date(row: Circuit, policy: CircuitPolicy, now: datetime) -> bool:
    """Bring a locked row to where the clock has already brought it; True if that changed it."""
    before = core_of(row)
    after = core.sweep(before, policy, clock.seconds(now))
    if after == before:
        return False
    transitions.save(row, after, policy=policy, now=now)
    if before.round is not None and after.round is None:
        _close_expired(before.round.id, now)
    return True


def _close_expired(round_id: str, now: datetime) -> None:
    ProbeRound.objects.filter(pk=round_id, finished_at=None).update(
        finished_at=now, verdict=Verdict.INCONCLUSIVE.value, answered={"cause": "no verdict before the lease ran out"}
    )


def next_due_at() -> datetime | None:
    """The earliest moment at which a sweep, a settling or a claim has something to do."""
    due = Circuit.objects.filter(state=State.OPEN.value, mode=Mode.AUTO.value, dependency__probe__enabled=True)
    moments = [
        Circuit.objects.exclude(sweep_at=None).order_by("sweep_at").values_list("sweep_at", flat=True).first(),
        due.exclude(due_at=None).order_by("due_at").values_list("due_at", flat=True).first(),
    ]
    return min((at for at in moments if at is not None), default=None)


def shift_deadlines(*, by_s: float) -> int:
    """Follow a step of the database's clock: every deadline, lease and duration stays as long as it was."""
    return sum(_shift_environment(pk, by_s) for pk in Environment.objects.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _shift_environment(environment_id: int, by_s: float) -> int:
    rows = list(Circuit.objects.select_for_update(no_key=True).filter(environment=environment_id).order_by("id"))
    moved = [row for row in rows if row.core]
    for row in moved:
        after = core.shift(core_of(row), by_s)
        transitions.save(row, after, policy=_policy(row), now=clock.instant(after.changed_at) or clock.now())
    step = timedelta(seconds=by_s)
    for kept in ProbeRound.objects.filter(circuit__in=moved, finished_at=None):
        kept.lease_expires_at += step
        kept.granted_at += step
        kept.save(update_fields=["lease_expires_at", "granted_at"])
    transitions.announce(moved)
    return len(moved)


def _policy(row: Circuit) -> CircuitPolicy:
    return policies.circuit_policy(environment_id=row.environment_id, dependency_id=row.dependency_id)
