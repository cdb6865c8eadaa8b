"""Writing down what the core decided: the circuit row, its transition, trip and outage, and the version that tells."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

import structlog
from django.db import InterfaceError, OperationalError, connection
from recloser.core import circuit as core
from recloser.core.circuit import Breach, Evidence
from recloser.core.policy import CircuitPolicy
from recloser.core.types import Delivery, Scope, Signal, State

from controlplane import clock
from controlplane.delivery import publish, versions
from controlplane.evidence import live, recount
from controlplane.evidence.outcomes import FAILED
from controlplane.models import AgentKey, Circuit, Outage, Transition, Trip, Worker
from controlplane.selectors.policies import digest
from controlplane.services import system

MIRRORED = (
    "state",
    "mode",
    "mode_expires_at",
    "generation",
    "core",
    "cause",
    "actor",
    "reason",
    "changed_at",
    "opened_at",
    "due_at",
    "sweep_at",
    "suspected_at",
    "locked_out_at",
    "acknowledged_at",
    "acknowledged_by",
)
NAMED_SHARES = 20

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger(__name__)


def attempt(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Do it for one circuit of many: what is wrong with one is told, and holds up no other. None if it failed."""
    try:
        return work(*args, **kwargs)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("a circuit was skipped", job=getattr(work, "__name__", "?"))
        return None


def core_of(row: Circuit) -> core.Circuit:
    """The circuit that a row holds."""
    return core.from_dict(row.core)


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """What the core decided about one row that the caller has locked."""

    row: Circuit
    after: core.Circuit
    policy: CircuitPolicy
    evidence: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def save(
    row: Circuit,
    after: core.Circuit,
    *,
    policy: CircuitPolicy,
    now: datetime,
    evidence: Mapping[str, Any] | None = None,
) -> Transition | None:
    """Bring a row locked by the caller to what the core decided about it, one step at a time; its transition if any."""
    return save_all([Change(row, after, policy, evidence or {})], now=now)[0]


def save_all(changes: Sequence[Change], *, now: datetime) -> list[Transition | None]:
    """The same for many rows, each another circuit's, in a few statements; all of them or none."""
    if not changes:
        return []
    before = [core_of(each.row) for each in changes]
    for each, was in zip(changes, before, strict=True):
        if each.after.generation not in (was.generation, was.generation + 1):
            raise ValueError(
                f"circuit {each.row.pk} would skip from generation {was.generation} to {each.after.generation}"
            )
    _mirror(changes)
    for each, was in zip(changes, before, strict=True):
        if each.after.generation == was.generation and each.after.locked_out_at != was.locked_out_at:
            _note_lockout(each.row, each.after)
    moved = [(each, was) for each, was in zip(changes, before, strict=True) if each.after.generation != was.generation]
    made = dict(zip((each.row.pk for each, _ in moved), _transitions(moved, now), strict=True))
    return [made.get(each.row.pk) for each in changes]


_Moved = Sequence[tuple[Change, core.Circuit]]


def _transitions(moved: _Moved, now: datetime) -> list[Transition]:
    outages = _outages(moved, now)
    rows = [_transition(each, was, outages.get(each.row.pk), now) for each, was in moved]
    return Transition.objects.bulk_create(rows)


def _transition(change: Change, before: core.Circuit, outage: Outage | None, now: datetime) -> Transition:
    after = change.after
    return Transition(
        circuit=change.row,
        outage=outage,
        at=clock.instant(after.changed_at) or now,
        generation=after.generation,
        from_state=before.state.value,
        to_state=after.state.value,
        from_mode=before.mode.value,
        to_mode=after.mode.value,
        cause=after.cause.value if after.cause else "",
        actor=after.actor or "",
        reason=after.reason or "",
        evidence=dict(change.evidence),
    )


_MIRROR = """
UPDATE controlplane_circuit c SET
    state = n.state, mode = n.mode, mode_expires_at = n.mode_expires_at, generation = n.generation, core = n.core,
    cause = n.cause, actor = n.actor, reason = n.reason, changed_at = n.changed_at, opened_at = n.opened_at,
    due_at = n.due_at, sweep_at = n.sweep_at, suspected_at = n.suspected_at, locked_out_at = n.locked_out_at,
    acknowledged_at = n.acknowledged_at, acknowledged_by = n.acknowledged_by
FROM jsonb_to_recordset(%s::jsonb) AS n(
    id bigint, held_from bigint, state text, mode text, mode_expires_at timestamptz, generation bigint, core jsonb,
    cause text, actor text, reason text, changed_at timestamptz, opened_at timestamptz, due_at timestamptz,
    sweep_at timestamptz, suspected_at timestamptz, locked_out_at timestamptz, acknowledged_at timestamptz,
    acknowledged_by text)
WHERE c.id = n.id AND c.generation = n.held_from
"""


def _mirror(changes: Sequence[Change]) -> None:
    """The core's circuit is the truth; the columns are for queries. `sweep_at` is ours."""
    rows = []
    for each in changes:
        held_from = each.row.generation
        _put(each.row, each.after, each.policy)
        columns = {name: getattr(each.row, name) for name in MIRRORED}
        rows.append({"id": each.row.pk, "held_from": held_from, **columns})
    with connection.cursor() as cursor:
        cursor.execute(_MIRROR, [json.dumps(rows, default=datetime.isoformat)])
        if cursor.rowcount != len(rows):
            raise RuntimeError(f"a circuit of {[row['id'] for row in rows]} moved on under its lock")


def _put(row: Circuit, after: core.Circuit, policy: CircuitPolicy) -> None:
    row.core = core.to_dict(after)
    row.state, row.mode, row.generation = after.state.value, after.mode.value, after.generation
    row.cause = after.cause.value if after.cause else ""
    row.actor, row.reason = after.actor or "", after.reason or ""
    for name in ("mode_expires_at", "changed_at", "opened_at", "due_at", "suspected_at", "locked_out_at"):
        setattr(row, name, clock.instant(getattr(after, name)))
    row.sweep_at = sweep_at(after, policy)
    if after.state is State.CLOSED:
        row.acknowledged_at, row.acknowledged_by = None, ""


def sweep_at(circuit: core.Circuit, policy: CircuitPolicy) -> datetime | None:
    """When time alone will change it; being due for a probe is not among that."""
    return clock.instant(core.next_change_at(dataclasses.replace(circuit, due_at=None), policy))


def _note_lockout(row: Circuit, after: core.Circuit) -> None:
    Outage.objects.filter(circuit=row, ended_at=None).update(locked_out_at=clock.instant(after.locked_out_at))


def _outages(moved: _Moved, now: datetime) -> dict[int, Outage]:
    """By circuit, the episode that its change belongs to: begun by leaving `closed`, ended by returning."""
    begun = [_begun(each, now) for each, was in moved if _leaves(each, was)]
    running = _running([each.row.pk for each, was in moved if not _leaves(each, was)])
    ended = [
        _ended(running[each.row.pk], each, now)
        for each, _ in moved
        if each.row.pk in running and each.after.state is State.CLOSED
    ]
    if ended:
        Outage.objects.bulk_update(ended, ["ended_at"])
    return running | {outage.circuit_id: outage for outage in (Outage.objects.bulk_create(begun) if begun else [])}


def _leaves(change: Change, before: core.Circuit) -> bool:
    return before.state is State.CLOSED and change.after.state is not State.CLOSED


def _running(circuits: list[int]) -> dict[int, Outage]:
    if not circuits:
        return {}
    return {row.circuit_id: row for row in Outage.objects.filter(circuit__in=circuits, ended_at=None)}


def _begun(change: Change, now: datetime) -> Outage:
    after = change.after
    return Outage(
        circuit=change.row,
        started_at=clock.instant(after.changed_at) or now,
        cause=after.cause.value if after.cause else "",
    )


def _ended(outage: Outage, change: Change, now: datetime) -> Outage:
    outage.ended_at = clock.instant(change.after.changed_at) or now
    return outage


def announce(rows: Iterable[Circuit]) -> None:
    """Raise the circuits version of every environment concerned, as the last lock; on commit, publish and wake."""
    by_environment: dict[int, list[Circuit]] = {}
    for row in rows:
        by_environment.setdefault(row.environment_id, []).append(row)
    for environment_id in sorted(by_environment):
        version = versions.bump_circuits(environment_id)
        changed = by_environment[environment_id]
        Circuit.objects.filter(pk__in=[row.pk for row in changed]).update(version=version)
        for row in changed:
            row.version = version
        publish.circuits_changed(environment_id)
    if by_environment:
        system.wake_scheduler()


def told(breach: Breach, evidence: Evidence, policy: CircuitPolicy) -> dict[str, Any]:
    """The evidence as trips and transitions keep it."""
    return {
        breach.signal.value: breach.value,
        "calls": breach.calls,
        "failures": breach.failures,
        "slow": breach.slow,
        "streak": evidence.streak,
        "witnesses": len(breach.witnesses),
        "window_s": policy.window_s,
    }


def record_trip(
    row: Circuit,
    breach: Breach,
    evidence: Evidence,
    *,
    policy: CircuitPolicy,
    delivery: Delivery,
    generation: int,
    outage: Outage | None,
    now: datetime,
) -> Trip:
    """One opening for the fleet, or what would have been one, with the call that completed it."""
    completing = _completing_sample(row, breach, generation, policy, now)
    return Trip.objects.create(
        environment_id=row.environment_id,
        scope=Scope.FLEET.value,
        signal=breach.signal.value,
        dependency_id=row.dependency_id,
        outage=outage,
        delivery=delivery.value,
        evidence=told(breach, evidence, policy) | {"operation": completing.pop("operation", None)},
        threshold={
            breach.signal.value: breach.threshold,
            "min_calls": policy.min_calls,
            "min_workers": policy.min_workers,
        },
        shares=_shares(row, breach.signal, generation, policy, now),
        policy=digest(policy),
        at=now,
        received_at=now,
        **completing,
    )


_COMPLETING = f"""
SELECT tool_id, operation, key_id, worker_id, samples -> -1
FROM observation
WHERE dependency_id = %s AND generation = %s AND counted AND received_at >= %s - make_interval(secs => %s)
  AND (%s AND slow > 0 OR NOT %s AND {FAILED} > 0)
ORDER BY received_at DESC, id DESC LIMIT 1
"""  # noqa: S608


def _completing_sample(
    row: Circuit, breach: Breach, generation: int, policy: CircuitPolicy, now: datetime
) -> dict[str, Any]:
    """The newest failing (or slow) row: tool, operation, key and worker, and the run and step of its last sample."""
    slow = breach.signal is Signal.SLOW_CALL_RATE
    with connection.cursor() as cursor:
        cursor.execute(_COMPLETING, [row.dependency_id, generation, now, policy.window_s, slow, slow])
        found = cursor.fetchone()
    if found is None:
        return {}
    tool, operation, key, worker, sample = found
    known = _decoded(sample)
    return {
        "tool_id": tool,
        "operation": operation or None,
        "key_id": key,
        "worker_id": worker,
        "run": known.get("run"),
        "step": known.get("step"),
    }


def _decoded(sample: Any) -> Mapping[str, Any]:
    value = json.loads(sample) if isinstance(sample, str) else sample
    return value if isinstance(value, dict) else {}


def _shares(
    row: Circuit, signal: Signal, generation: int, policy: CircuitPolicy, now: datetime
) -> dict[str, dict[str, float]]:
    """The part of the failures (or slow calls) that each key and each worker reported, the greatest first."""
    present = live.live(row.environment_id, now)
    by_key, by_worker = Counter[int](), Counter[int]()
    for part in recount.parts(row.dependency_id, generation, policy, now, present):
        bad = part.slow if signal is Signal.SLOW_CALL_RATE else part.failures
        by_key[part.key_id] += bad
        by_worker[part.worker_id] += bad
    keys = {key.pk: key.prefix for key in AgentKey.objects.filter(pk__in=by_key)}
    workers = {worker.pk: f"{worker.agent.slug}/{worker.instance}" for worker in _workers(by_worker)}
    return {"keys": _parts(by_key, keys), "workers": _parts(by_worker, workers)}


def _workers(ids: Iterable[int]) -> Iterable[Worker]:
    return Worker.objects.filter(pk__in=ids).select_related("agent")


def _parts(counts: Mapping[int, int], names: Mapping[int, str]) -> dict[str, float]:
    total = sum(counts.values())
    told = {names.get(pk, "?"): count for pk, count in counts.items() if count}
    greatest = sorted(told.items(), key=lambda item: (-item[1], item[0]))[:NAMED_SHARES]
    return {name: round(count / total, 4) for name, count in greatest}
