"""Writing down what the core decided: the circuit row, its transition, trip and outage, and the version that tells."""

from __future__ import annotations

import dataclasses
import json
import uuid
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
from controlplane.models import Circuit, Outage
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


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """One transition as it was written, and the episode that it belongs to, if any."""

    pk: int
    outage_id: int | None


def save(
    row: Circuit,
    after: core.Circuit,
    *,
    policy: CircuitPolicy,
    now: datetime,
    evidence: Mapping[str, Any] | None = None,
) -> Move | None:
    """Bring a row locked by the caller to what the core decided about it, one step at a time; its transition if any."""
    return save_all([Change(row, after, policy, evidence or {})], now=now)[0]


def save_all(changes: Sequence[Change], *, now: datetime) -> list[Move | None]:
    """The same for many rows, each another circuit's, in one statement; all of them or none."""
    if not changes:
        return []
    before = [core_of(each.row) for each in changes]
    for each, was in zip(changes, before, strict=True):
        if each.after.generation not in (was.generation, was.generation + 1):
            raise ValueError(
                f"circuit {each.row.pk} would skip from generation {was.generation} to {each.after.generation}"
            )
    made = _written([_record(*pair, now) for pair in zip(changes, before, strict=True)])
    for each, was in zip(changes, before, strict=True):
        if each.after.generation == was.generation and each.after.locked_out_at != was.locked_out_at:
            _note_lockout(each.row, each.after)
    return [made[each.row.pk] for each in changes]


_SAVE = """
WITH n AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS n(
        id bigint, held_from bigint, state text, mode text, mode_expires_at timestamptz, generation bigint, core jsonb,
        cause text, actor text, reason text, changed_at timestamptz, opened_at timestamptz, due_at timestamptz,
        sweep_at timestamptz, suspected_at timestamptz, locked_out_at timestamptz, acknowledged_at timestamptz,
        acknowledged_by text, moved boolean, leaves boolean, returns boolean, at timestamptz,
        from_state text, from_mode text, evidence jsonb)
),
mirrored AS (
    UPDATE controlplane_circuit c SET
        state = n.state, mode = n.mode, mode_expires_at = n.mode_expires_at, generation = n.generation, core = n.core,
        cause = n.cause, actor = n.actor, reason = n.reason, changed_at = n.changed_at, opened_at = n.opened_at,
        due_at = n.due_at, sweep_at = n.sweep_at, suspected_at = n.suspected_at, locked_out_at = n.locked_out_at,
        acknowledged_at = n.acknowledged_at, acknowledged_by = n.acknowledged_by
    FROM n WHERE c.id = n.id AND c.generation = n.held_from
    RETURNING c.id
),
begun AS (
    INSERT INTO controlplane_outage (circuit_id, started_at, cause)
    SELECT n.id, n.at, n.cause FROM n JOIN mirrored USING (id) WHERE n.leaves ORDER BY n.id
    RETURNING id, circuit_id
),
running AS (
    SELECT o.id, o.circuit_id FROM controlplane_outage o JOIN n ON n.id = o.circuit_id
    WHERE n.moved AND NOT n.leaves AND o.ended_at IS NULL
),
ended AS (
    UPDATE controlplane_outage o SET ended_at = n.at
    FROM n JOIN running ON running.circuit_id = n.id WHERE n.returns AND o.id = running.id
),
moved AS (
    INSERT INTO controlplane_transition (
        circuit_id, outage_id, at, generation, from_state, to_state, from_mode, to_mode, cause, actor, reason, evidence)
    SELECT n.id, o.id, n.at, n.generation, n.from_state, n.state, n.from_mode, n.mode, n.cause, n.actor, n.reason,
        n.evidence
    FROM n JOIN mirrored USING (id)
    LEFT JOIN (SELECT * FROM begun UNION ALL SELECT * FROM running) o ON o.circuit_id = n.id
    WHERE n.moved ORDER BY n.id
    RETURNING id, circuit_id, outage_id
)
SELECT mirrored.id, moved.id, moved.outage_id FROM mirrored LEFT JOIN moved ON moved.circuit_id = mirrored.id
"""
"""Rows by compare-and-set, outages begun and ended, transitions. Each circuit's row is locked already."""


def _written(records: Sequence[Mapping[str, Any]]) -> dict[int, Move | None]:
    with connection.cursor() as cursor:
        cursor.execute(_SAVE, [json.dumps(records, default=datetime.isoformat)])
        found = cursor.fetchall()
    if len(found) != len(records):
        raise RuntimeError(f"a circuit of {[each['id'] for each in records]} moved on under its lock")
    return {pk: Move(move, outage) if move is not None else None for pk, move, outage in found}


def _record(change: Change, before: core.Circuit, now: datetime) -> dict[str, Any]:
    """The core's circuit is the truth; the columns are for queries. `sweep_at` is ours."""
    row, after, held_from = change.row, change.after, change.row.generation
    _put(row, after, change.policy)
    leaves = before.state is State.CLOSED and after.state is not State.CLOSED
    return {
        **{name: getattr(row, name) for name in MIRRORED},
        "id": row.pk,
        "held_from": held_from,
        "moved": after.generation != before.generation,
        "leaves": leaves and after.generation != before.generation,
        "returns": after.state is State.CLOSED,
        "at": clock.instant(after.changed_at) or now,
        "from_state": before.state.value,
        "from_mode": before.mode.value,
        "evidence": dict(change.evidence),
    }


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


def announce(rows: Iterable[Circuit]) -> None:
    """Raise the circuits version of every environment concerned, as the last lock; on commit, publish and wake."""
    by_environment: dict[int, list[Circuit]] = {}
    for row in rows:
        by_environment.setdefault(row.environment_id, []).append(row)
    for environment_id in sorted(by_environment):
        changed = by_environment[environment_id]
        version = versions.bump_circuits(environment_id, carried=[row.pk for row in changed])
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


_TRIP = f"""
WITH completing AS (
    SELECT tool_id, operation, key_id, worker_id, samples -> -1 AS sample
    FROM observation
    WHERE dependency_id = %(dependency)s AND generation = %(generation)s AND counted
      AND received_at >= %(at)s - make_interval(secs => %(window_s)s)
      AND (%(slow)s AND slow > 0 OR NOT %(slow)s AND {FAILED} > 0)
    ORDER BY received_at DESC, id DESC LIMIT 1
)
INSERT INTO controlplane_trip (
    id, environment_id, scope, signal, dependency_id, outage_id, delivery, threshold, shares, policy, at, received_at,
    action, false_trip_by, tool_id, key_id, worker_id, run, step, evidence)
SELECT %(id)s, %(environment)s, %(scope)s, %(signal)s, %(dependency)s, %(outage)s, %(delivery)s, %(threshold)s::jsonb,
    %(shares)s::jsonb, %(policy)s, %(at)s, %(at)s, '', '', c.tool_id, c.key_id, c.worker_id,
    (c.sample ->> 'run')::uuid, (c.sample ->> 'step')::int,
    %(evidence)s::jsonb || jsonb_build_object('operation', nullif(c.operation, ''))
FROM (SELECT) one LEFT JOIN completing c ON true
"""  # noqa: S608
"""The newest failing (or slow) row says tool, operation, key and worker; its last sample, run and step."""


def record_trip(
    row: Circuit,
    breach: Breach,
    evidence: Evidence,
    *,
    policy: CircuitPolicy,
    delivery: Delivery,
    generation: int,
    outage_id: int | None,
    now: datetime,
) -> None:
    """One opening for the fleet, or what would have been one, with the call that completed it."""
    signal = breach.signal
    threshold = {signal.value: breach.threshold, "min_calls": policy.min_calls, "min_workers": policy.min_workers}
    values: dict[str, Any] = {
        "id": uuid.uuid4(),
        "environment": row.environment_id,
        "scope": Scope.FLEET.value,
        "signal": signal.value,
        "dependency": row.dependency_id,
        "generation": generation,
        "outage": outage_id,
        "delivery": delivery.value,
        "slow": signal is Signal.SLOW_CALL_RATE,
        "window_s": policy.window_s,
        "evidence": json.dumps(told(breach, evidence, policy)),
        "threshold": json.dumps(threshold),
        "shares": json.dumps(_shares(row, signal, generation, policy, now)),
        "policy": digest(policy),
        "at": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(_TRIP, values)


def _shares(
    row: Circuit, signal: Signal, generation: int, policy: CircuitPolicy, now: datetime
) -> dict[str, dict[str, float]]:
    """The part of the failures (or slow calls) that each key and each worker reported, the greatest first."""
    present = live.live(row.environment_id, now)
    by_key, by_worker = Counter[str](), Counter[str]()
    for part in recount.parts(row.dependency_id, generation, policy, now, present):
        bad = part.slow if signal is Signal.SLOW_CALL_RATE else part.failures
        by_key[part.key] += bad
        by_worker[part.worker] += bad
    return {"keys": _parts(by_key), "workers": _parts(by_worker)}


def _parts(counts: Mapping[str, int]) -> dict[str, float]:
    total = sum(counts.values())
    told = {name: count for name, count in counts.items() if count}
    greatest = sorted(told.items(), key=lambda item: (-item[1], item[0]))[:NAMED_SHARES]
    return {name: round(count / total, 4) for name, count in greatest}
