"""A batch as docs/protocol.md describes it, in types: what does not fit names its field. All of it is untrusted."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct
from recloser.core.types import Action, Delivery, Outcome, Scope, Signal

from controlplane.evidence.outcomes import FAILURE_COLUMNS

YEAR_S = 366 * 86_400.0
PRINTABLE = r"\A[^\x00-\x1f\x7f]*\Z"
"""No control characters: Postgres refuses NUL, and no name needs any."""

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE)]
Text = Annotated[str, Meta(max_length=200, pattern=PRINTABLE)]
Word = Annotated[str, Meta(max_length=64, pattern=PRINTABLE)]
Prose = Annotated[str, Meta(max_length=20_000, pattern=r"\A[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*\Z")]
Age = Annotated[float, Meta(ge=0, le=YEAR_S)]
Number = Annotated[float, Meta(ge=0, le=1e15)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""Slices that waited for long merge, so a count may be large; how much of it counts is the caps' affair."""
MOST_CALLS = 10**9
"""In one slice, all outcomes together: thirty years of a call a second."""
Whole = Annotated[int, Meta(ge=0, le=2**53)]
Step = Count
Version = tuple[Annotated[str, Meta(max_length=40, pattern=PRINTABLE)], Whole]
Facts = Annotated[dict[Name, float | Text | None], Meta(max_length=20)]


class Counts(Struct, forbid_unknown_fields=True):
    """Calls by outcome; one field for each, so an unknown outcome is an error and not a new one."""

    ok: Count = 0
    empty: Count = 0
    retryable_error: Count = 0
    timeout: Count = 0
    rate_limited: Count = 0
    semantic_error: Count = 0
    unknown_tool: Count = 0
    cancelled: Count = 0
    rejected: Count = 0

    @property
    def failures(self) -> int:
        """Outcomes that speak against the dependency."""
        return sum(getattr(self, name) for name in FAILURE_COLUMNS)

    @property
    def total(self) -> int:
        """All calls."""
        return sum(getattr(self, name) for name in self.__struct_fields__)

    def __post_init__(self) -> None:
        if self.total > MOST_CALLS:
            raise ValueError(f"Expected at most {MOST_CALLS} calls in one slice")


class Latency(Struct, frozen=True):
    """Durations of a slice, in milliseconds."""

    sum: Number = 0.0
    max: Number = 0.0
    hist: Annotated[tuple[Count, ...], Meta(max_length=16)] = ()


class Sample(Struct):
    """One call as an example, never its arguments, result or error text."""

    outcome: Outcome
    error: Word | None = None
    status: Annotated[int, Meta(ge=0, le=999)] | None = None
    run: UUID | None = None
    step: Step | None = None
    age_s: Age = 0.0


class Observation(Struct):
    """What one (tool, dependency, generation) saw in one slice of time."""

    tool: Name
    dependency: Name
    generation: Whole
    age_s: Age
    counts: Counts
    operation: Text | None = None
    span_s: Age = 0.0
    attempts: Count = 0
    slow: Count = 0
    slow_failures: Count = 0
    latency_ms: Latency = Latency()
    streak: Count = 0
    retry_after_s: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    samples: Annotated[list[Sample], Meta(max_length=5)] = []

    def __post_init__(self) -> None:
        total = self.counts.total
        for name in ("slow", "slow_failures", "streak"):
            if getattr(self, name) > total:
                raise ValueError(f"Expected no more than all calls of the slice in field `{name}`")


class Trip(Struct):
    """One withdrawal inside an agent: in a run, or by a worker's own breaker."""

    id: UUID
    scope: Literal["run", "worker"]
    signal: Signal
    age_s: Age
    delivery: Delivery
    tool: Name | None = None
    dependency: Name | None = None
    run: UUID | None = None
    step: Step | None = None
    action: Action | None = None
    evidence: Facts = {}
    threshold: Facts = {}
    policy: Word = ""


class Missing(Struct):
    """A declared tool that a step lacked, and why."""

    tool: Name
    dependency: Name | None = None
    cause: Word | None = None
    scope: Scope | None = None
    step: Step | None = None
    replaced_by: Name | None = None
    refused: Count = 0
    run: UUID | None = None
    """The child that lacked it; None: the run itself."""


class Call(Struct):
    """One line of a step log; hashes are salted per run."""

    step: Step
    tool: Name
    outcome: Outcome
    call: Step = 0
    args: Word | None = None
    result: Word | None = None
    attempts: Count = 0
    ms: Number = 0.0


class Run(Struct):
    """A run as its agent last saw it; the highest revision wins."""

    id: UUID
    revision: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    status: Literal["running", "finished", "ended"]
    started_age_s: Age
    parent: UUID | None = None
    task_kind: Text | None = None
    ended_age_s: Age | None = None
    steps: Step = 0
    step_limit: Step | None = None
    degraded: bool = False
    disclosed: bool | None = None
    end_cause: Text | None = None
    tools: Annotated[list[Name], Meta(max_length=500)] = []
    missing: Annotated[list[Missing], Meta(max_length=500)] = []
    disclosure: Prose | None = None
    handover: Literal["question", "escalation"] | None = None
    tool_seconds: Number = 0.0
    model_seconds: Number = 0.0
    tokens: Whole = 0
    cost: Number = 0.0
    step_log: Annotated[list[Call], Meta(max_length=500)] | None = None


class Override(Struct):
    """A forced mode of the process's break-glass file."""

    id: UUID
    mode: Literal["forced_open", "forced_closed"]
    age_s: Age
    expires_in_s: Annotated[float, Meta(ge=-YEAR_S, le=YEAR_S)]
    tool: Name | None = None
    dependency: Name | None = None
    reason: Prose = ""
    who: Text = ""

    def __post_init__(self) -> None:
        if (self.tool is None) == (self.dependency is None):
            raise ValueError("Expected exactly one of tool and dependency in field `tool`")


class Hints(Struct, rename={
    "read_only": "readOnlyHint", "destructive": "destructiveHint", "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}):  # fmt: skip
    """What a tool says of itself by MCP's annotations; None: it says nothing of that."""

    tool: Name
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class ProbeReport(Struct):
    """What came of a probe that the process was offered: facts only, the verdict is the control plane's."""

    id: UUID
    generation: Whole
    took_ms: Annotated[float, Meta(ge=0, le=600_000)]
    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    fault: Literal["timeout", "connect", "resolve", "certificate", "broken_answer", "gate", "spec"] | None = None
    retry_after_s: Annotated[float, Meta(ge=0, le=1e9)] | None = None


class Batch(Struct):
    """What a session sends, numbered."""

    format: Literal[1]
    session: UUID
    seq: Annotated[int, Meta(ge=1, le=2**53)]
    instance: Name
    environment: Name | None = None
    agent: Name | None = None
    sdk: Annotated[str, Meta(max_length=60, pattern=PRINTABLE)] = ""
    pid: Step | None = None
    feed: Annotated[str, Meta(max_length=10, pattern=PRINTABLE)] = ""
    config: Version | None = None
    circuits: Version | None = None
    stale_s: Annotated[float, Meta(ge=0, le=YEAR_S)] | None = None
    observations: Annotated[list[Observation], Meta(max_length=500)] = []
    trips: Annotated[list[Trip], Meta(max_length=200)] = []
    runs: Annotated[list[Run], Meta(max_length=200)] = []
    overrides: Annotated[list[Override], Meta(max_length=200)] = []
    hints: Annotated[list[Hints], Meta(max_length=200)] = []
    probe_hosts: Annotated[list[Name], Meta(max_length=50)] = []
    """`host:port` that the process's own code lets it probe; empty: it is not willing now."""
    probes: Annotated[list[ProbeReport], Meta(max_length=20)] = []
