"""How a circuit is tested without a probe, and whom a ramp admits: what people see of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from recloser.core import circuit as breaker
from recloser.core.policy import CircuitPolicy, handled_as
from recloser.core.types import SideEffectClass, State

from controlplane import clock
from controlplane.models import Candidate, Tool
from controlplane.selectors.circuits import Standing


@dataclass(frozen=True, slots=True)
class Step:
    """One share of a ramp: `past`, `now` or `later`."""

    share: float
    begins_at: datetime | None
    when: str


@dataclass(frozen=True, slots=True)
class Ramp:
    """A recovering dependency, tested with a rising share of the workers."""

    share: float
    next_share: float | None
    """None: the present share is the last; after it the circuit closes."""
    next_at: datetime | None
    steps: list[Step]


def ramp(here: Standing, policy: CircuitPolicy) -> Ramp | None:
    """The ramp that runs at this moment; None without one."""
    held, now = here.core.round, clock.seconds(here.now)
    if held is None or held.ramp_started_at is None or not policy.ramp:
        return None
    share = breaker.admitted_share(here.core, policy, now)
    return Ramp(
        share=share,
        next_share=next((each for each in policy.ramp if each > share), None),
        next_at=clock.instant(breaker.next_share_at(here.core, policy, now)),
        steps=[
            Step(
                share=each,
                begins_at=clock.instant(held.ramp_started_at + place * policy.ramp_step_s),
                when="now" if each == share else "past" if each < share else "later",
            )
            for place, each in enumerate(policy.ramp)
        ],
    )


def is_testable(tools: Iterable[Tool], policy: CircuitPolicy, *, probed: bool) -> bool:
    """Whether anything can test it: its probe, or a call of a later run to one of these tools."""
    return breaker.is_testable(policy, probed=probed, tools=[class_of(tool) for tool in tools])


def may_test(tools: Iterable[Tool]) -> bool:
    """Whether a call of one of them may be the test, were its policy to give permits."""
    return any(breaker.may_test(side_effect, confirmed=known) for side_effect, known in map(class_of, tools))


def class_of(tool: Tool) -> tuple[SideEffectClass, bool]:
    """The class that a tool is handled as, and whether a person confirmed it."""
    declared = SideEffectClass(tool.side_effect)
    return handled_as(declared, confirmed=tool.class_confirmed), tool.class_confirmed


@dataclass(frozen=True, slots=True)
class Permits:
    """The runs that may test, and the one that does."""

    most: int
    candidates: list[Candidate]
    holder: Candidate | None


def permits(here: Standing, policy: CircuitPolicy, *, probed: bool) -> Permits | None:
    """Who tests a circuit out of service by a call of its own; None where that is not how it is tested."""
    if here.core.state is State.CLOSED or breaker.is_ramping(here.core):
        return None
    if not breaker.by_permit(policy, probed=probed):
        return None
    known = here.row.candidates.select_related("agent", "round")
    holder = known.filter(round__generation=here.core.generation, round__finished_at=None).first()
    generation = here.core.generation if holder is None else holder.generation
    others = known.filter(generation=generation, expires_at__gt=here.now, round=None)
    return Permits(policy.permit_candidates, list(others), holder)
