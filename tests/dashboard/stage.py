"""Scenes for the pages: an outage, a degraded run, a worker that fails alone, played by the fixed cast."""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from datetime import datetime, timedelta
from typing import Any

from recloser.core.circuit import Circuit as Core
from recloser.core.circuit import from_dict
from recloser.core.policy import CircuitPolicy
from recloser.core.types import Cause, Signal, State

from controlplane.models import (
    Agent,
    Circuit,
    Dependency,
    Observation,
    Outage,
    Probe,
    ProbeRound,
    Run,
    StepLog,
    Tool,
    Trip,
    Worker,
)
from controlplane.services import transitions

POLICY = CircuitPolicy()
_numbers = itertools.count(1)


def move(dependency: Dependency, at: datetime, *, evidence: dict[str, Any] | None = None, **changes: Any) -> Circuit:
    """One transition of a circuit, written as the services write it."""
    row = Circuit.objects.select_related("dependency", "environment").get(dependency=dependency)
    before = from_dict(row.core)
    fresh: dict[str, Any] = {
        "generation": before.generation + 1,
        "changed_at": at.timestamp(),
        "actor": None,
        "reason": None,
    }
    after: Core = dataclasses.replace(before, **(fresh | changes))
    transitions.save(row, after, policy=POLICY, now=at, evidence=evidence)
    return row


def opened(
    dependency: Dependency,
    at: datetime,
    *,
    signal: Signal = Signal.FAILURE_RATE,
    failures: int = 7,
    calls: int = 9,
    witnesses: int = 3,
    due_in_s: float = 30.0,
    **changes: Any,
) -> Circuit:
    """A circuit that the fleet's evidence opened."""
    value = failures / calls if signal is Signal.FAILURE_RATE else failures
    limit = 0.5 if signal is Signal.FAILURE_RATE else 5
    told = {signal.value: value, "calls": calls, "failures": failures, "slow": 0, "streak": failures,
            "witnesses": witnesses, "window_s": 60.0}  # fmt: skip
    row = move(
        dependency,
        at,
        evidence=told,
        state=State.OPEN,
        cause=Cause(signal.value),
        opened_at=at.timestamp(),
        due_at=at.timestamp() + due_in_s,
        tripped_by=signal,
        cooldown_s=30.0,
        **changes,
    )
    Trip.objects.create(
        environment=dependency.environment, scope="fleet", signal=signal.value, dependency=dependency,
        outage=Outage.objects.get(circuit=row, ended_at=None), delivery="enforce", evidence=told,
        threshold={signal.value: limit, "min_calls": 20, "min_workers": 2}, at=at, received_at=at,
    )  # fmt: skip
    return row


def probed(row: Circuit, at: datetime, verdict: str = "bad", *, status: int = 503, ms: float = 84.0) -> ProbeRound:
    """A probe round that has come to an end."""
    return ProbeRound.objects.create(
        id=uuid.uuid4(), circuit=row, generation=row.generation, due_at=at, granted_at=at,
        lease_expires_at=at + timedelta(seconds=10), finished_at=at, verdict=verdict, applied=True,
        operation="web_search", asked={"method": "GET", "url": "https://search.example.com/health"},
        answered={
            "status": status, "took_ms": ms, "cause": "passed" if verdict == "good" else "status",
            "conditions": [{"name": "status", "expected": "200-299", "seen": str(status), "held": verdict == "good"}],
        },
    )  # fmt: skip


def probe(dependency: Dependency, at: datetime, url: str = "https://search.example.com/health") -> Probe:
    """How its recovery is tested."""
    return Probe.objects.create(
        dependency=dependency, operation="web_search", updated_at=at, updated_by="ada",
        spec={"url": url, "method": "GET", "expected_status": "200-299", "time_limit_s": 5.0},
    )  # fmt: skip


def observed(worker: Worker, tool: Tool, at: datetime, **counts: int) -> Observation:
    """What one worker reported of one tool."""
    number = next(_numbers)
    given = dict.fromkeys(
        ("ok", "empty", "retryable_error", "timeout", "rate_limited", "semantic_error", "unknown_tool", "cancelled",
         "rejected", "slow", "slow_failures"), 0,
    ) | counts  # fmt: skip
    given.setdefault("attempts", min(sum(counts.values()), 2**31 - 1))
    return Observation.objects.create(
        id=number, received_at=at, environment_id=tool.environment_id, key_id=worker.key_id,
        agent_id=worker.agent_id, worker_id=worker.pk, session_id=uuid.uuid4(), seq=number,
        dependency_id=tool.dependencies.get().pk, tool_id=tool.pk, generation=0, operation=tool.name, at=at,
        span_s=2.0, latency_sum_ms=0, latency_max_ms=0, latency_hist=[], streak=0, counted=True, samples=[], **given,
    )  # fmt: skip


def run(agent: Agent, at: datetime, **given: Any) -> Run:
    """A run; degraded if it lacked something."""
    values: dict[str, Any] = {
        "environment": agent.environment, "revision": 1, "task_kind": "brief", "status": "finished", "started_at": at,
        "ended_at": at + timedelta(seconds=94), "reported_at": at + timedelta(seconds=94), "steps": 12,
        "step_limit": 20, "tools": ["web_search", "db_lookup"], "tool_seconds": 61.4, "model_seconds": 28.2,
        "tokens": 18_230, "cost": 0.41,
    }  # fmt: skip
    return Run.objects.create(id=uuid.uuid4(), agent=agent, **(values | given))


def lacking(tool: str, dependency: str, **more: Any) -> dict[str, Any]:
    """One entry of what a run lacked."""
    return {"tool": tool, "dependency": dependency, "cause": "failure_rate", "scope": "fleet", "step": 4,
            "replaced_by": None, "refused": 1} | more  # fmt: skip


def degraded(agent: Agent, at: datetime, **given: Any) -> Run:
    """A run that lacked web_search, with its step log."""
    made = run(agent, at, **({"degraded": True, "missing": [lacking("web_search", "search-api")]} | given))
    lines = [
        {"step": step, "call": 0, "tool": "web_search", "args": f"a{step:07d}", "result": "f00dfeed",
         "outcome": outcome, "attempts": 5, "ms": 31_000.0 if outcome == "timeout" else 12.0}
        for step, outcome in ((1, "ok"), (2, "timeout"), (3, "timeout"), (4, "rejected"), (5, "ok"))
    ]  # fmt: skip
    StepLog.objects.create(run=made, lines=lines)
    return made
