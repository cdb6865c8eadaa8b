"""Trips and runs as their lists show them: plain values, so that equal lines look the same."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from recloser.core.types import Scope

from controlplane.models import Run, Trip


class TripLine(NamedTuple):
    """One trip. What JSON it holds stays text: it is read only by whoever has not seen this line yet."""

    pk: UUID
    at: datetime
    scope: str
    signal: str
    tool: str | None
    dependency: str | None
    worker: str | None
    workers_agent: str | None
    keys_agent: str | None
    run: UUID | None
    step: int | None
    delivery: str
    action: str
    false_trip_at: datetime | None
    false_trip_by: str
    stored_evidence: str
    stored_threshold: str

    @property
    def evidence(self) -> Any:
        """What was measured."""
        return json.loads(self.stored_evidence)

    @property
    def threshold(self) -> Any:
        """What it was held against."""
        return json.loads(self.stored_threshold)

    @property
    def agent(self) -> str:
        """Whose trip it is; where a whole fleet tripped, nobody's."""
        return "" if self.scope == Scope.FLEET else self.workers_agent or self.keys_agent or ""


class RunLine(NamedTuple):
    """One run."""

    pk: UUID
    agent: str
    task_kind: str
    status: str
    end_cause: str
    started_at: datetime
    ended_at: datetime | None
    degraded: bool
    disclosed: bool | None
    steps: int
    step_limit: int | None
    tool_seconds: float
    model_seconds: float
    tokens: int
    cost: float
    parent: UUID | None
    stored_missing: str
    child_degraded: bool = False

    @property
    def missing(self) -> Any:
        """What it went without."""
        return json.loads(self.stored_missing)


_TRIP: tuple[str | Cast, ...] = (
    *("pk", "at", "scope", "signal", "tool__name", "dependency__slug", "worker__instance", "worker__agent__slug"),
    *("key__agent__slug", "run", "step", "delivery", "action", "false_trip_at", "false_trip_by"),
    *(Cast(name, TextField()) for name in ("evidence", "threshold")),
)
_RUN: tuple[str | Cast, ...] = (
    *("pk", "agent__slug", "task_kind", "status", "end_cause", "started_at", "ended_at", "degraded", "disclosed"),
    *("steps", "step_limit", "tool_seconds", "model_seconds", "tokens", "cost", "parent"),
    Cast("missing", TextField()),
)


def of_trips(rows: QuerySet[Trip]) -> list[TripLine]:
    """The lines of these trips, in their order."""
    return [TripLine(*row) for row in rows.values_list(*_TRIP)]


def of_runs(rows: QuerySet[Run]) -> list[RunLine]:
    """The lines of these runs, in their order."""
    return [RunLine(*row) for row in rows.values_list(*_RUN)]
