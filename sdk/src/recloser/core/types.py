"""The words of the domain. One spelling for code, API, UI and documents; values are what goes over the wire."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """What the evidence and the probes say of a dependency."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Mode(StrEnum):
    """Who decides: the evidence, or an operator's override."""

    AUTO = "auto"
    FORCED_OPEN = "forced_open"
    FORCED_CLOSED = "forced_closed"


class Outcome(StrEnum):
    """How one tool call ended, after the transport's own retries are exhausted."""

    OK = "ok"
    EMPTY = "empty"
    RETRYABLE_ERROR = "retryable_error"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    SEMANTIC_ERROR = "semantic_error"
    UNKNOWN_TOOL = "unknown_tool"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


FAILURES = frozenset({Outcome.RETRYABLE_ERROR, Outcome.TIMEOUT, Outcome.RATE_LIMITED})
"""Outcomes that count against a dependency's health."""

SUCCESSES = frozenset({Outcome.OK, Outcome.EMPTY})
"""Outcomes that count for a dependency's health; `empty` worked, it was only useless."""


class Signal(StrEnum):
    """What trips. Each has its own counter and its own threshold; they are never folded into one."""

    CONSECUTIVE_FAILURES = "consecutive_failures"
    FAILURE_RATE = "failure_rate"
    SLOW_CALL_RATE = "slow_call_rate"
    SEMANTIC_FAILURES = "semantic_failures"
    IDENTICAL_CALLS = "identical_calls"
    OSCILLATION = "oscillation"
    NO_PROGRESS = "no_progress"
    BUDGET_BURN = "budget_burn"
    UNKNOWN_TOOL = "unknown_tool"
    RUN_FAILURE_RATE = "run_failure_rate"
    STEP_LIMIT = "step_limit"
    TOKEN_BUDGET = "token_budget"  # noqa: S105
    COST_BUDGET = "cost_budget"
    WALL_CLOCK = "wall_clock"


class Cause(StrEnum):
    """Why a circuit last changed its state or mode."""

    CONSECUTIVE_FAILURES = "consecutive_failures"
    FAILURE_RATE = "failure_rate"
    SLOW_CALL_RATE = "slow_call_rate"
    PROBE_STARTED = "probe_started"
    PROBE_PASSED = "probe_passed"
    PROBE_FAILED = "probe_failed"
    PROBE_INCONCLUSIVE = "probe_inconclusive"
    RAMP_STARTED = "ramp_started"
    RAMP_PASSED = "ramp_passed"
    RAMP_FAILED = "ramp_failed"
    OPERATOR = "operator"
    OVERRIDE_EXPIRED = "override_expired"


class Scope(StrEnum):
    """Where the evidence may come from, and whom a trip concerns."""

    RUN = "run"
    WORKER = "worker"
    FLEET = "fleet"


class SideEffectClass(StrEnum):
    """What a call does to the world; `unknown` is handled as a possible side effect until confirmed."""

    READ_ONLY = "read_only"
    IDEMPOTENT_WRITE = "idempotent_write"
    SIDE_EFFECT = "side_effect"
    DESTRUCTIVE = "destructive"
    UNKNOWN = "unknown"


class Delivery(StrEnum):
    """How a policy is delivered: acted upon, only computed and recorded, or not at all."""

    ENFORCE = "enforce"
    OBSERVE = "observe"
    OFF = "off"


class Action(StrEnum):
    """What a run's breaker does when a signal trips."""

    ADVISE = "advise"
    BLOCK_CALL = "block_call"
    REMOVE_TOOL = "remove_tool"
    END_RUN = "end_run"
    ESCALATE = "escalate"


class Verdict(StrEnum):
    """What one probe round says; `inconclusive` neither closes nor re-opens."""

    GOOD = "good"
    BAD = "bad"
    INCONCLUSIVE = "inconclusive"


class DegradedBehaviour(StrEnum):
    """What a run does without the tool, decided by the product owner in advance."""

    UNDECIDED = "undecided"
    FALLBACK = "fallback"
    PARTIAL_ANSWER = "partial_answer"
    ASK_USER = "ask_user"
    ESCALATE = "escalate"
    END_RUN = "end_run"
