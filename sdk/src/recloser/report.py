"""What the control plane is told of trips and runs, as the wire has it. Instants are monotonic until written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recloser.core.types import Action, Delivery, Scope, Signal
from recloser.outbox import age

MAX_STEP_LINES = 500
_PARTS = frozenset({"step_log", "missing", "tools"})


@dataclass(frozen=True, slots=True)
class TripReport:
    """One opening, or one withdrawal of a tool in a run, with what completed it."""

    id: str
    scope: Scope
    signal: Signal
    tool: str | None
    dependency: str | None
    run: str | None
    step: int | None
    action: Action | None
    delivery: Delivery
    evidence: Mapping[str, float]
    threshold: Mapping[str, float]
    policy: str
    at: float

    def to_wire(self, now: float) -> dict[str, Any]:
        """As one entry of a batch's `trips`."""
        return {
            "id": self.id,
            "scope": self.scope.value,
            "signal": self.signal.value,
            "tool": self.tool,
            "dependency": self.dependency,
            "run": self.run,
            "step": self.step,
            "action": None if self.action is None else self.action.value,
            "delivery": self.delivery.value,
            "evidence": dict(self.evidence),
            "threshold": dict(self.threshold),
            "policy": self.policy,
            "age_s": age(self.at, now),
        }


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run as of one revision."""

    id: str
    revision: int
    parent: str | None
    task_kind: str | None
    status: str
    started_at: float
    ended_at: float | None
    steps: int
    step_limit: int | None
    degraded: bool
    disclosed: bool | None
    end_cause: str | None
    tools: tuple[str, ...]
    missing: tuple[Mapping[str, Any], ...]
    disclosure: str | None
    tool_seconds: float
    model_seconds: float
    tokens: int
    cost: float
    handover: str | None = None
    step_log: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def step_lines(self) -> int:
        """How much of the memory it takes, in lines."""
        return len(self.step_log)

    def without_step_log(self) -> RunReport:
        """The same without its longest part."""
        return dataclasses.replace(self, step_log=())

    def without(self, part: str) -> RunReport | None:
        """The same without a list that was refused; None where there is nothing to leave out."""
        if part not in _PARTS or not getattr(self, part):
            return None
        changes: dict[str, Any] = {part: ()}
        return dataclasses.replace(self, **changes)

    def to_wire(self, now: float) -> dict[str, Any]:
        """As one entry of a batch's `runs`."""
        return {
            "id": self.id,
            "revision": self.revision,
            "parent": self.parent,
            "task_kind": self.task_kind,
            "status": self.status,
            "started_age_s": age(self.started_at, now),
            "ended_age_s": None if self.ended_at is None else age(self.ended_at, now),
            "steps": self.steps,
            "step_limit": self.step_limit,
            "degraded": self.degraded,
            "disclosed": self.disclosed,
            "end_cause": self.end_cause,
            "tools": list(self.tools),
            "missing": [dict(entry) for entry in self.missing],
            "disclosure": self.disclosure,
            "handover": self.handover,
            "tool_seconds": round(self.tool_seconds, 3),
            "model_seconds": round(self.model_seconds, 3),
            "tokens": self.tokens,
            "cost": self.cost,
            "step_log": [dict(line) for line in self.step_log[:MAX_STEP_LINES]],
        }
