"""Probe rounds and what time alone changes: granted, finished, expired, locked out; each verdict is the core's."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.db import connection, transaction
from recloser.core import circuit as core
from recloser.core.policy import CircuitPolicy
from recloser.core.types import Mode, State, Verdict

from controlplane import clock
from controlplane.models import Circuit, Environment, ProbeRound, ProbeVote
from controlplane.probe_spec import control
from controlplane.selectors import policies
from controlplane.services import probes, seats, transitions
from controlplane.services.transitions import Change, core_of

T = TypeVar("T")

HANDING_ON_S = 2.0
"""Of a lease, what is left beside the probe's time limit for taking the round and writing its verdict down."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What one round's probe came to; `asked` and `connected_at` are kept whatever the verdict leads to."""

    round_id: uuid.UUID
    verdict: Verdict
    operation: str | None = None
    retry_after_s: float | None = None
    answered: Mapping[str, Any] = field(default_factory=dict)
    asked: Mapping[str, Any] | None = None
    connected_at: datetime | None = None


@transaction.atomic
def claim_rounds(*, now: datetime, limit: int = 50, dependency_id: int | None = None) -> list[ProbeRound]:
    """Grant a round to every circuit that is due and has an enabled probe; two claimers never get the same one.

    The longest due come first. `dependency_id`: to its circuit alone.
    """
    due = Circuit.objects.filter(
        state=State.OPEN.value, mode=Mode.AUTO.value, due_at__lte=now, dependency__probe__enabled=True
    )
    due = due if dependency_id is None else due.filter(dependency=dependency_id)
    locked = due.select_for_update(skip_locked=True, no_key=True, of=("self",)).select_related(
        "dependency__probe", "dependency__environment"
    )
    rows = list(locked.order_by("due_at", "id")[:limit])
    granted = _together(_grant_all, rows, now)
    transitions.announce([each.circuit for each in granted])
    return granted


def _together(work: Callable[[list[Circuit], datetime], list[T]], rows: list[Circuit], now: datetime) -> list[T]:
    """All these locked rows in few statements; should that fail, one by one: what is wrong with one holds up no other.

    After a failure the rows are read anew: half-done work has left its traces on them.
    """
    if not rows:
        return []
    done = transitions.attempt(work, rows, now)
    if done is not None:
        return done
    fresh = (
        Circuit.objects.select_related("dependency__probe", "dependency__environment")
        .filter(pk__in=[row.pk for row in rows])
        .order_by("id")
    )
    return [made for row in fresh for made in transitions.attempt(work, [row], now) or []]


@transaction.atomic
def _grant_all(rows: list[Circuit], now: datetime) -> list[ProbeRound]:
    known = policies.circuit_policies(rows)
    grants = [(row, known[row.dependency_id], _grant(row, known[row.dependency_id], now)) for row in rows]
    given = [(row, policy, grant) for row, policy, grant in grants if grant is not None]
    made = [_round(row, grant.circuit, now) for row, _, grant in given]
    changes = [
        Change(row, grant.circuit, policy, {"round": str(each.pk)})
        for (row, policy, grant), each in zip(given, made, strict=True)
    ]
    transitions.save_all(changes, now=now)
    _forget_who_asked([row for row, _, _ in given])
    asked = [(each, row.dependency.probe, policy) for each, (row, policy, _) in zip(made, given, strict=True)]
    voting = seats.make(asked, now)
    ProbeRound.objects.bulk_create(made)
    ProbeVote.objects.bulk_create(voting)
    return made


def _grant(row: Circuit, policy: CircuitPolicy, now: datetime) -> core.Grant | None:
    bring_up_to_date(row, policy, now)
    answer = core.grant_round(core_of(row), _patient(row, policy), clock.seconds(now), str(uuid.uuid4()))
    return answer if answer.granted else None


def _patient(row: Circuit, policy: CircuitPolicy) -> CircuitPolicy:
    """With a lease that outlasts the probe's own time limit."""
    longest = row.dependency.probe.spec.get("time_limit_s", 0.0) + HANDING_ON_S
    longest += seats.room_s(row.dependency.probe)
    longest += control.LIMIT_S if probes.control_of(row.dependency.environment) else 0.0
    return replace(policy, probe_timeout_s=max(policy.probe_timeout_s, longest))


def _round(row: Circuit, after: core.Circuit, now: datetime) -> ProbeRound:
    """Before the row is changed: it still says since when it was due."""
    assert after.round is not None
    return ProbeRound(
        id=uuid.UUID(after.round.id),
        circuit=row,
        generation=after.generation,
        requested_by=row.probe_requested_by,
        due_at=row.due_at or now,
        granted_at=now,
        lease_expires_at=datetime.fromtimestamp(after.round.lease_expires_at, UTC),
        operation=row.dependency.probe.operation,
    )


def _forget_who_asked(rows: list[Circuit]) -> None:
    asked = [row for row in rows if row.probe_requested_by]
    if asked:
        Circuit.objects.filter(pk__in=[row.pk for row in asked]).update(probe_requested_by="")
    for row in asked:
        row.probe_requested_by = ""


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
    one = Answered(uuid.UUID(str(round_id)), Verdict(verdict), operation, retry_after_s, dict(answered or {}))
    return finish_rounds([one], now=now)[one.round_id]


def finish_rounds(answers: Iterable[Answered], *, now: datetime) -> dict[uuid.UUID, bool]:
    """The same for many, in few statements; by round, whether its verdict was applied."""
    applied: dict[uuid.UUID, bool] = {}
    left = list(answers)
    while left:
        circuits = dict(ProbeRound.objects.filter(pk__in=[each.round_id for each in left]).values_list("pk", "circuit"))
        turn = {circuits[each.round_id]: each for each in reversed(left) if each.round_id in circuits}
        applied |= dict.fromkeys((each.round_id for each in left if each.round_id not in circuits), False)
        done = _finish_turn(turn, now)
        applied |= {each.round_id: done.get(each.round_id, False) for each in turn.values()}
        left = [each for each in left if each.round_id not in applied]
    return applied


@transaction.atomic
def _finish_turn(turn: Mapping[int, Answered], now: datetime) -> dict[uuid.UUID, bool]:
    """One answer of each of these circuits."""
    rows = list(Circuit.objects.select_for_update(no_key=True).filter(pk__in=turn).order_by("id"))
    ended = _together(lambda some, at: _finish_all(some, turn, at), rows, now)
    transitions.announce([row for row, _, changed in ended if changed])
    return {turn[row.pk].round_id: applied for row, applied, _ in ended}


@transaction.atomic
def _finish_all(rows: list[Circuit], turn: Mapping[int, Answered], now: datetime) -> list[tuple[Circuit, bool, bool]]:
    """Row, whether the verdict was applied, whether the row changed at all."""
    known = policies.circuit_policies(rows)
    moved = {row.pk: bring_up_to_date(row, known[row.dependency_id], now) for row in rows}
    wanted = [turn[row.pk].round_id for row in rows]
    kept = {each.circuit_id: each for each in ProbeRound.objects.select_for_update(no_key=True).filter(pk__in=wanted)}
    ends = [
        (row, kept[row.pk], turn[row.pk], _finish(row, turn[row.pk], known[row.dependency_id], now)) for row in rows
    ]
    changes = [
        Change(row, finish.circuit, known[row.dependency_id], _told(each, finish, answer.answered))
        for row, each, answer, finish in ends
        if finish.applied
    ]
    transitions.save_all(changes, now=now)
    _keep_answers([(each, answer, finish) for _, each, answer, finish in ends], now)
    return [(row, finish.applied, finish.applied or moved[row.pk]) for row, _, _, finish in ends]


def _finish(row: Circuit, answer: Answered, policy: CircuitPolicy, now: datetime) -> core.Finish:
    return core.finish_round(
        core_of(row),
        str(answer.round_id),
        answer.verdict,
        policy,
        clock.seconds(now),
        jitter=random.uniform(-1.0, 1.0),  # noqa: S311
        operation=answer.operation or None,
        retry_after_s=answer.retry_after_s,
    )


def _told(kept: ProbeRound, finish: core.Finish, answered: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "round": str(kept.pk),
        "verdict": str(finish.verdict),
        "reason": finish.reason,
        "good_rounds": finish.circuit.good_rounds,
        "failed_rounds": finish.circuit.failed_rounds,
        "cooldown_s": finish.circuit.cooldown_s,
        "cause": answered.get("cause"),
    }


_KEEP_ANSWERS = """
UPDATE controlplane_proberound r SET
    asked = coalesce(n.asked, r.asked),
    connected_at = coalesce(n.connected_at, r.connected_at),
    finished_at = coalesce(r.finished_at, %s),
    verdict = CASE WHEN r.finished_at IS NULL THEN n.verdict ELSE r.verdict END,
    applied = CASE WHEN r.finished_at IS NULL THEN n.applied ELSE r.applied END,
    answered = CASE WHEN r.finished_at IS NULL THEN n.answered ELSE r.answered END
FROM jsonb_to_recordset(%s::jsonb) AS n(
    id uuid, asked jsonb, connected_at timestamptz, verdict text, applied boolean, answered jsonb)
WHERE r.id = n.id
"""


def _keep_answers(ends: list[tuple[ProbeRound, Answered, core.Finish]], now: datetime) -> None:
    """The first answer of a round stays, applied or not; a repeated one changes nothing."""
    rows = [
        {
            "id": str(kept.pk),
            "asked": answer.asked,
            "connected_at": answer.connected_at and answer.connected_at.isoformat(),
            "verdict": str(finish.verdict or answer.verdict),
            "applied": finish.applied,
            "answered": {**answer.answered, "reason": finish.reason},
        }
        for kept, answer, finish in ends
    ]
    with connection.cursor() as cursor:
        cursor.execute(_KEEP_ANSWERS, [now, json.dumps(rows)])


@transaction.atomic
def sweep_due(*, now: datetime, limit: int = 100, environment_id: int | None = None) -> int:
    """Write down what time alone has changed: leases and overrides run out, lockouts reached; how many circuits."""
    waiting = Circuit.objects.filter(sweep_at__lte=now, suspected_at=None).order_by("sweep_at", "id")
    waiting = waiting if environment_id is None else waiting.filter(environment=environment_id)
    rows = list(waiting.select_for_update(skip_locked=True, no_key=True)[:limit])
    changed = _together(_sweep_all, rows, now)
    transitions.announce(changed)
    return len(changed)


@transaction.atomic
def _sweep_all(rows: list[Circuit], now: datetime) -> list[Circuit]:
    """Those that changed; for the others the moment is set anew, so that they are not looked at again and again."""
    known = policies.circuit_policies(rows)
    changed = _bring_all_up_to_date(rows, known, now)
    for row in rows:
        if row not in changed:
            sweep_at = transitions.sweep_at(core_of(row), known[row.dependency_id])
            Circuit.objects.filter(pk=row.pk).update(sweep_at=sweep_at)
    return changed


def bring_up_to_date(row: Circuit, policy: CircuitPolicy, now: datetime) -> bool:
    """Bring a locked row to where the clock has already brought it; True if that changed it."""
    return bool(_bring_all_up_to_date([row], {row.dependency_id: policy}, now))


def _bring_all_up_to_date(rows: list[Circuit], known: Mapping[int, CircuitPolicy], now: datetime) -> list[Circuit]:
    """The same for many; those that it changed."""
    before = {row.pk: core_of(row) for row in rows}
    swept = [(row, core.sweep(before[row.pk], known[row.dependency_id], clock.seconds(now))) for row in rows]
    changes = [Change(row, after, known[row.dependency_id]) for row, after in swept if after != before[row.pk]]
    if not changes:
        return []
    transitions.save_all(changes, now=now)
    expired = [was.id for each in changes if each.after.round is None and (was := before[each.row.pk].round)]
    if expired:
        _close_expired(expired, now)
    return [each.row for each in changes]


def _close_expired(round_ids: list[str], now: datetime) -> None:
    ProbeRound.objects.filter(pk__in=round_ids, finished_at=None).update(
        finished_at=now, verdict=Verdict.INCONCLUSIVE.value, answered={"cause": "no verdict before the lease ran out"}
    )


def shift_deadlines(*, by_s: float) -> int:
    """Follow a step of the database's clock: every deadline, lease and duration stays as long as it was."""
    return sum(_shift_environment(pk, by_s) for pk in Environment.objects.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _shift_environment(environment_id: int, by_s: float) -> int:
    rows = list(Circuit.objects.select_for_update(no_key=True).filter(environment=environment_id).order_by("id"))
    moved = [row for row in rows if row.core]
    known = policies.circuit_policies(moved)
    changes = [Change(row, core.shift(core_of(row), by_s), known[row.dependency_id]) for row in moved]
    transitions.save_all(changes, now=clock.now())
    step = timedelta(seconds=by_s)
    for kept in ProbeRound.objects.filter(circuit__in=moved, finished_at=None):
        kept.lease_expires_at += step
        kept.granted_at += step
        kept.save(update_fields=["lease_expires_at", "granted_at"])
    transitions.announce(moved)
    return len(moved)
