"""What a run's breaker is told about a tool, and what it answers with."""

from __future__ import annotations

from dataclasses import dataclass, field

from recloser.core.schema import RunPolicy
from recloser.core.types import Action, Delivery, Scope, Signal


@dataclass(frozen=True, slots=True)
class ToolRules:
    """One tool as a run knows it: its policy and the dependencies behind it."""

    policy: RunPolicy = field(default_factory=RunPolicy)
    dependencies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunDecision:
    """What a signal led to, with its evidence against its threshold."""

    action: Action
    signal: Signal | None
    """None where an operator holds the tool's circuit open."""
    evidence: float
    threshold: float
    tool: str
    step: int | None = None
    tools: tuple[str, ...] = ()
    """The tools withdrawn by it."""
    dependency: str | None = None
    scope: Scope = Scope.RUN
    enforced: bool = True
    """False: the policy only watches, and this is what would have happened."""
    ambiguous: bool = False
    """The call that it blocks may have happened already."""


NOTHING: tuple[RunDecision, ...] = ()


def block(tool: str, step: int | None, *, ambiguous: bool = False) -> RunDecision:
    """A repetition stopped at once: the second call is one too many."""
    return RunDecision(Action.BLOCK_CALL, Signal.IDENTICAL_CALLS, 2, 2, tool, step, ambiguous=ambiguous)


def is_enforced(policy: RunPolicy) -> bool:
    """Whether the policy acts on what it finds."""
    return policy.delivery is Delivery.ENFORCE


def is_of_a_step_before(ended: RunDecision, step: int | None) -> bool:
    """The healthy calls of the step that ended the run are still executed."""
    return step is not None and ended.step is not None and step <= ended.step
