"""From a typed batch to the plain rows of the statement, and which of them may count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from recloser.core.circuit import LONGEST_WAIT_S

from controlplane.services.ingest import wire
from controlplane.services.ingest.caps import CallCap
from controlplane.services.ingest.names import Caller, Names

NOBODY = 0
"""The id of a name that is recorded without having been discovered."""

BUCKETS = 16

KEPT_CHARACTERS = {"task_kind": 100, "end_cause": 30, "disclosure": 1000}
"""A run is worth more than the end of a long text."""


@dataclass(slots=True)
class Claims:
    """A batch in plain rows, and what has to be said about it."""

    observations: list[dict[str, Any]] = field(default_factory=list)
    trips: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    step_logs: list[dict[str, Any]] = field(default_factory=list)
    dependencies: dict[str, int] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def claims_of(batch: wire.Batch, names: Names, caller: Caller, cap: CallCap) -> Claims:
    """The rows of a batch."""
    found = Claims()
    for observation in batch.observations:
        _observe(found, observation, names, caller, cap)
    found.trips = [_trip(trip, names) for trip in batch.trips]
    latest = _latest(batch.runs)
    found.runs = [_run(run) for run in latest]
    found.step_logs = [_step_log(run) for run in latest if run.step_log is not None]
    return found


def pairs(batch: wire.Batch) -> set[tuple[str, str]]:
    """The tools and dependencies that a batch names; what the model invented is not among them."""
    observed = {(each.tool, each.dependency) for each in batch.observations if not _invented(each)}
    return observed | {(each.tool, each.dependency) for each in batch.trips if each.tool and each.dependency}


def _invented(observation: wire.Observation) -> bool:
    return observation.counts.unknown_tool == observation.counts.total


def _observe(found: Claims, seen: wire.Observation, names: Names, caller: Caller, cap: CallCap) -> None:
    dependency, tool = names.dependencies.get(seen.dependency), names.tools.get(seen.tool)
    row = _observation(seen)
    row["dependency_id"] = dependency.id if dependency else NOBODY
    row["tool_id"] = tool.id if tool else NOBODY
    row["countable"] = False
    if dependency:
        found.dependencies[seen.dependency] = dependency.id
    if dependency is None or tool is None:
        _record_unknown(found, row, seen)
    elif seen.age_s <= dependency.window_s:
        row["countable"] = _within_cap(found, seen, caller, cap)
    found.observations.append(row)


def _record_unknown(found: Claims, row: dict[str, Any], seen: wire.Observation) -> None:
    row["samples"] = [{"tool": seen.tool, "dependency": seen.dependency}, *row["samples"]]
    if not _invented(seen):
        found.notes["discovery_capped"] = "the key has discovered too many names: recorded, not counted"


def _within_cap(found: Claims, seen: wire.Observation, caller: Caller, cap: CallCap) -> bool:
    if cap.admits(caller.key_id, seen.counts.total):
        return True
    found.notes["counts_capped"] = "more calls than one key may claim in that time: recorded, not counted"
    return False


def _observation(seen: wire.Observation) -> dict[str, Any]:
    wait = seen.retry_after_s
    return {
        "generation": seen.generation,
        "operation": seen.operation or "",
        "age_s": seen.age_s,
        "span_s": seen.span_s,
        **msgspec.structs.asdict(seen.counts),
        "attempts": seen.attempts,
        "slow": seen.slow,
        "slow_failures": seen.slow_failures,
        "latency_sum_ms": seen.latency_ms.sum,
        "latency_max_ms": seen.latency_ms.max,
        "latency_hist": [*seen.latency_ms.hist, *[0] * (BUCKETS - len(seen.latency_ms.hist))],
        "streak": seen.streak,
        "retry_after_s": None if wait is None else min(wait, LONGEST_WAIT_S),
        "samples": [msgspec.to_builtins(sample) for sample in seen.samples],
    }


def _trip(trip: wire.Trip, names: Names) -> dict[str, Any]:
    dependency = names.dependencies.get(trip.dependency or "")
    tool = names.tools.get(trip.tool or "")
    plain: dict[str, Any] = msgspec.to_builtins(trip)
    return {
        **plain,
        "dependency_id": dependency.id if dependency else None,
        "tool_id": tool.id if tool else None,
        "action": plain["action"] or "",
    }


def _latest(runs: list[wire.Run]) -> list[wire.Run]:
    """One report a run: the highest revision, and of equal ones the first."""
    latest: dict[Any, wire.Run] = {}
    for run in runs:
        if run.id not in latest or latest[run.id].revision < run.revision:
            latest[run.id] = run
    return list(latest.values())


def _run(run: wire.Run) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(run)
    del plain["step_log"]
    plain["handover"] = plain["handover"] or ""
    return {**plain, **{name: (plain[name] or "")[:longest] for name, longest in KEPT_CHARACTERS.items()}}


def _step_log(run: wire.Run) -> dict[str, Any]:
    return {"run_id": str(run.id), "lines": msgspec.to_builtins(run.step_log)}
