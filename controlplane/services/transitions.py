"""Writing down what the core decided: the circuit row, its transition, trip and outage, and the version that tells."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
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


def save(
    row: Circuit,
    after: core.Circuit,
    *,
    policy: CircuitPolicy,
    now: datetime,
    evidence: Mapping[str, Any] | None = None,
) -> Transition | None:
    """Bring a row locked by the caller to what the core decided about it, one step at a time; its transition if any."""
    before = core_of(row)
    if after.generation not in (before.generation, before.generation + 1):
        raise ValueError(f"circuit {row.pk} would skip from generation {before.generation} to {after.generation}")
    _mirror(row, after, policy)
    if after.generation == before.generation:
        if after.locked_out_at != before.locked_out_at:
            _note_lockout(row, after)
        return None
    outage = _outage(row, before, after, now)
    return Transition.objects.create(
        circuit=row,
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
        evidence=dict(evidence or {}),
    )


def _mirror(row: Circuit, after: core.Circuit, policy: CircuitPolicy) -> None:
    """The core's circuit is the truth; the columns are for queries. `sweep_at` is ours."""
    held_from = row.generation
    row.core = core.to_dict(after)
    row.state, row.mode, row.generation = after.state.value, after.mode.value, after.generation
    row.cause = after.cause.value if after.cause else ""
    row.actor, row.reason = after.actor or "", after.reason or ""
    for name in ("mode_expires_at", "changed_at", "opened_at", "due_at", "suspected_at", "locked_out_at"):
        setattr(row, name, clock.instant(getattr(after, name)))
    row.sweep_at = sweep_at(after, policy)
    also = _acknowledged_no_more(row, after)
    changed = Circuit.objects.filter(pk=row.pk, generation=held_from).update(
        **{name: getattr(row, name) for name in (*MIRRORED, *also)}
    )
    if not changed:
        raise RuntimeError(f"circuit {row.pk} moved on under its lock")


def _acknowledged_no_more(row: Circuit, after: core.Circuit) -> tuple[str, ...]:
    if after.state is not State.CLOSED or row.acknowledged_at is None:
        return ()
    row.acknowledged_at, row.acknowledged_by = None, ""
    return ("acknowledged_at", "acknowledged_by")


def sweep_at(circuit: core.Circuit, policy: CircuitPolicy) -> datetime | None:
    """When time alone will change it; being due for a probe is not among that."""
    return clock.instant(core.next_change_at(dataclasses.replace(circuit, due_at=None), policy))


def _note_lockout(row: Circuit, after: core.Circuit) -> None:
    Outage.objects.filter(circuit=row, ended_at=None).update(locked_out_at=clock.instant(after.locked_out_at))


def _outage(row: Circuit, before: core.Circuit, after: core.Circuit, now: datetime) -> Outage | None:
    """The episode that this change belongs to: begun by leaving `closed`, ended by returning."""
    at = clock.instant(after.changed_at) or now
    if before.state is State.CLOSED and after.state is not State.CLOSED:
        return Outage.objects.create(circuit=row, started_at=at, cause=after.cause.value if after.cause else "")
    outage = Outage.objects.filter(circuit=row, ended_at=None).first()
    if outage is not None and after.state is State.CLOSED:
        outage.ended_at = at
        outage.save(update_fields=["ended_at"])
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
