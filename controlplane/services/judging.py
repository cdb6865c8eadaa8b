"""From a window to a decision about a closed circuit: suspected, withdrawn, opened, or only noted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from recloser.core import circuit as core
from recloser.core.circuit import Evidence, Judgement
from recloser.core.policy import CircuitPolicy
from recloser.core.types import Delivery, State

from controlplane import clock
from controlplane.delivery import publish, versions
from controlplane.evidence import live, recount, window
from controlplane.evidence.counters import Key
from controlplane.evidence.outcomes import FAILED
from controlplane.models import Circuit, Dependency, Worker
from controlplane.selectors import policies
from controlplane.services import transitions
from controlplane.services.transitions import core_of

LOOK_CLOSELY_S = 5.0
"""A worker that fails alone is looked for at most this often, in each process and for each circuit."""

FLUSH_SHARE = 0.4
"""Agents are asked to flush within this part of the time that a suspicion settles in."""


@dataclass(frozen=True, slots=True)
class Considered:
    """Where a circuit stands after its window was looked at."""

    dependency_id: int
    state: State
    generation: int
    opened: bool = False
    suspected: bool = False
    settles_at: datetime | None = None
    """Consider again at this moment; None: nothing is settling."""
    would_have_tripped: bool = False


def consider(*, dependency_id: int, now: datetime, bad_sample: bool = True, by_rows: bool = False) -> Considered:
    """Judge a circuit by its window, and write what follows. Any number of processes may do so at once.

    `bad_sample`: something failing or slow has just been counted; without, nothing new may open it. `by_rows`: ask
    Postgres, whatever the counters say.
    """
    row, policy = _found(dependency_id)
    before = core_of(row)
    if before.state is not State.CLOSED and not core.is_ramping(before):
        return _considered(dependency_id, before, policy)
    if _settling(before, policy, now):
        return _considered(dependency_id, before, policy)
    evidence = _evidence(row, before, policy, now, bad_sample=bad_sample, by_rows=by_rows)
    judgement = core.judge(before, evidence, policy, clock.seconds(now))
    _note_findings(row, evidence, judgement, policy, now)
    if judgement.circuit == before:
        return _considered(dependency_id, before, policy)
    return _decide(row.pk, before.generation, evidence, policy, now)


def settle_due(*, now: datetime, limit: int = 100, environment_id: int | None = None) -> list[int]:
    """Judge again the circuits whose suspicion has settled, for processes that died meanwhile; their dependencies."""
    rows = Circuit.objects.filter(suspected_at__isnull=False, sweep_at__lte=now).order_by("sweep_at")
    rows = rows if environment_id is None else rows.filter(environment=environment_id)
    due = list(rows.values_list("dependency_id", flat=True)[:limit])
    return [pk for pk in due if transitions.attempt(consider, dependency_id=pk, now=now) is not None]


_LATELY_FAILING = f"""
SELECT c.dependency_id FROM controlplane_circuit c
WHERE c.state <> 'open' AND EXISTS (
    SELECT FROM observation o
    WHERE o.dependency_id = c.dependency_id AND o.received_at >= %s AND o.counted AND o.generation = c.generation
      AND {FAILED} + o.slow > 0
)
ORDER BY c.dependency_id <= %s, c.dependency_id LIMIT %s
"""  # noqa: S608


_rechecked: dict[str, int] = {}


def recheck_lately_failing(*, now: datetime, since_s: float = 30.0, limit: int = 100) -> list[int]:
    """Judge closed circuits and ramps by the rows of the last moments: what a process stored and died before judging.

    Where there are more than the limit, the next call goes on where this one ends.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LATELY_FAILING, [now - timedelta(seconds=since_s), _rechecked.get("last", 0), limit])
        found = [pk for (pk,) in cursor.fetchall()]
    if found:
        _rechecked["last"] = found[-1]
    for dependency_id in found:
        transitions.attempt(consider, dependency_id=dependency_id, now=now, by_rows=True)
    return found


@transaction.atomic
def hear_wait(*, dependency_id: int, until: datetime, now: datetime) -> bool:
    """A server asked to wait until then: it may put an open circuit's deadline off. False if it changes nothing."""
    row = Circuit.objects.select_for_update(no_key=True).get(dependency_id=dependency_id)
    before = core_of(row)
    after = _lengthened(before, until, now)
    if after == before:
        return False
    policy = policies.circuit_policy(environment_id=row.environment_id, dependency_id=dependency_id)
    transitions.save(row, after, policy=policy, now=now)
    transitions.announce([row])
    return True


_COLUMNS = ", ".join(f"c.{field.column}" for field in Circuit._meta.concrete_fields)
_AT = ("at_epoch", "at_config", "at_circuits")
_WITH_VERSION = f"""
SELECT {_COLUMNS}, v.epoch AS at_epoch, v.config AS at_config, v.circuits AS at_circuits
FROM controlplane_circuit c JOIN controlplane_documentversion v ON v.environment_id = c.environment_id
WHERE c.dependency_id = %s
"""  # noqa: S608
_LOCKED = f"SELECT {_COLUMNS} FROM controlplane_circuit c WHERE c.id = %s FOR NO KEY UPDATE"  # noqa: S608


def _found(dependency_id: int) -> tuple[Circuit, CircuitPolicy]:
    """The circuit and its policy, in one statement where both are known already."""
    row = next(iter(Circuit.objects.raw(_WITH_VERSION, [dependency_id])), None)
    at = None if row is None else versions.Versions(*(getattr(row, name) for name in _AT))
    row = row or find(dependency_id)
    return row, policies.circuit_policy(environment_id=row.environment_id, dependency_id=dependency_id, at=at)


def find(dependency_id: int) -> Circuit:
    """The dependency's circuit, made if this is the first that is heard of it."""
    row = Circuit.objects.filter(dependency_id=dependency_id).first()
    if row is not None:
        return row
    environment_id = Dependency.objects.values_list("environment_id", flat=True).get(pk=dependency_id)
    return Circuit.objects.get_or_create(dependency_id=dependency_id, defaults={"environment_id": environment_id})[0]


def _settling(circuit: core.Circuit, policy: CircuitPolicy, now: datetime) -> bool:
    """Nothing can be decided yet, so the window need not be read."""
    settles_at = _settles_at(circuit, policy)
    return settles_at is not None and now < settles_at


def _settles_at(circuit: core.Circuit, policy: CircuitPolicy) -> datetime | None:
    if circuit.suspected_at is None:
        return None
    return clock.instant(circuit.suspected_at + policy.settle_s)


def _considered(
    dependency_id: int, circuit: core.Circuit, policy: CircuitPolicy, judgement: Judgement | None = None
) -> Considered:
    return Considered(
        dependency_id=dependency_id,
        state=circuit.state,
        generation=circuit.generation,
        opened=judgement is not None and judgement.opened,
        suspected=circuit.suspected_at is not None,
        settles_at=_settles_at(circuit, policy),
        would_have_tripped=judgement is not None and judgement.would_have_tripped,
    )


def _evidence(
    row: Circuit, circuit: core.Circuit, policy: CircuitPolicy, now: datetime, *, bad_sample: bool, by_rows: bool
) -> Evidence:
    key = Key(row.environment_id, row.dependency_id, circuit.generation)
    begun_at = clock.instant(circuit.changed_at)
    closely = time.monotonic() - _looked.get(row.pk, float("-inf")) >= LOOK_CLOSELY_S
    return window.evidence(key, policy, now, begun_at=begun_at, closely=closely, bad_sample=bad_sample, by_rows=by_rows)


@transaction.atomic
def _decide(circuit_id: int, generation: int, evidence: Evidence, policy: CircuitPolicy, now: datetime) -> Considered:
    """Judge the locked row by evidence of its own generation; whoever comes second finds it moved on."""
    (row,) = Circuit.objects.raw(_LOCKED, [circuit_id])
    before = core_of(row)
    if before.generation != generation:
        return _considered(row.dependency_id, before, policy)
    judgement = core.judge(before, evidence, policy, clock.seconds(now))
    if judgement.circuit != before:
        _write(row, before, judgement, evidence, policy, now)
    return _considered(row.dependency_id, judgement.circuit, policy, judgement)


def _write(
    row: Circuit, before: core.Circuit, judgement: Judgement, evidence: Evidence, policy: CircuitPolicy, now: datetime
) -> None:
    breach = judgement.breach
    opens = judgement.opened or judgement.reopened
    told = transitions.told(breach, evidence, policy) if breach is not None and opens else None
    transition = transitions.save(row, judgement.circuit, policy=policy, now=now, evidence=told)
    if breach is not None and (judgement.opened or judgement.would_have_tripped):
        transitions.record_trip(
            row,
            breach,
            evidence,
            policy=policy,
            delivery=Delivery.ENFORCE if judgement.opened else Delivery.OBSERVE,
            generation=before.generation,
            outage_id=transition.outage_id if transition else None,
            now=now,
        )
    if judgement.suspected and not judgement.opened:
        within_ms = int(policy.settle_s * 1000 * FLUSH_SHARE)
        publish.flush_asked(row.environment_id, [row.dependency.slug], within_ms)
    if transition is not None:
        transitions.announce([row])


def _lengthened(circuit: core.Circuit, until: datetime, now: datetime) -> core.Circuit:
    return core.lengthen(circuit, (until - now).total_seconds(), clock.seconds(now))


_looked: dict[int, float] = {}


def _note_findings(
    row: Circuit, evidence: Evidence, judgement: Judgement, policy: CircuitPolicy, now: datetime
) -> None:
    """Keep on the row what the Board has to name: a worker that fails alone, a quorum out of reach."""
    changes: dict[str, object] = {}
    if judgement.quorum_out_of_reach != (row.quorum_short_at is not None):
        changes["quorum_short_at"] = now if judgement.quorum_out_of_reach else None
    if evidence.workers:
        _looked[row.pk] = time.monotonic()
        changes |= _fault(row, judgement.worker_fault, policy, now)
    if changes:
        Circuit.objects.filter(pk=row.pk).update(**changes)


def _fault(row: Circuit, instance: str | None, policy: CircuitPolicy, now: datetime) -> dict[str, object]:
    worker = None if instance is None else _worst_at(instance, row, policy, now)
    if worker is not None:
        return {"fault_worker_id": worker, "fault_seen_at": now}
    return {} if row.fault_seen_at is None else {"fault_worker_id": None, "fault_seen_at": None}


def _worst_at(instance: str, row: Circuit, policy: CircuitPolicy, now: datetime) -> int | None:
    """Of the workers at an instance the one with the most failures."""
    here = set(Worker.objects.filter(environment=row.environment_id, instance=instance).values_list("pk", flat=True))
    present = live.live(row.environment_id, now)
    failures: dict[int, int] = {}
    for part in recount.parts(row.dependency_id, row.generation, policy, now, present):
        if part.worker_id in here:
            failures[part.worker_id] = failures.get(part.worker_id, 0) + part.failures
    return max(failures, key=lambda worker: (failures[worker], -worker), default=None)
