"""When a run has no way on, and whom that concerns: told by what it lost and by what the policies say to do then."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from recloser.core.run import RunDecision
from recloser.core.schema import RunPolicy
from recloser.core.types import Action, DegradedBehaviour

NO_VIABLE_PATH = "no_viable_path"
"""The cause of a run that ended on purpose, because what it lost left nothing to do."""


class Handover(StrEnum):
    """What is passed on to people: a question of a run that stopped, or work that somebody has to take over."""

    QUESTION = "question"
    ESCALATION = "escalation"


@dataclass(frozen=True, slots=True)
class Lost:
    """One tool of the run's own array that is gone."""

    decision: RunDecision
    policy: RunPolicy
    replaced: bool = False
    """Its fallback can be called."""

    @property
    def handover(self) -> Handover | None:
        """What its policy, or the signal that took it, passes on to people."""
        behaviour = self.policy.degraded_behaviour
        if self.decision.action is Action.ESCALATE or behaviour is DegradedBehaviour.ESCALATE:
            return Handover.ESCALATION
        return Handover.QUESTION if behaviour is DegradedBehaviour.ASK_USER else None


def dead_end(lost: Collection[Lost], *, remaining: bool) -> RunDecision | None:
    """The decision that left no viable path, if one did: then the run ends on purpose.

    A tool without which the run is to end; or the last of all its tools, where people are to go on. A partial answer
    needs no tool, and a fallback that can be called is a way on.
    """
    for one in lost:
        if one.policy.degraded_behaviour is DegradedBehaviour.END_RUN:
            return one.decision
    asked = [one for one in lost if one.handover is not None and not one.replaced]
    return asked[-1].decision if asked and not remaining else None


def passed_on(lost: Collection[Lost], ended: RunDecision | None) -> Handover | None:
    """What people are told: an escalation as it happens, a question once the run has ended without an answer."""
    found = {one.handover for one in lost}
    if Handover.ESCALATION in found or (ended is not None and ended.action is Action.ESCALATE):
        return Handover.ESCALATION
    return Handover.QUESTION if ended is not None and Handover.QUESTION in found else None
