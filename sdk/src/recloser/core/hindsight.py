"""A recorded run played again: what the run breaker would have done to it, and what the run turned out to be."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from recloser.core.budget import Spend
from recloser.core.decision import RunDecision, ToolRules
from recloser.core.replay import Ask, Bill, Call, Runs, Turn
from recloser.core.run import RunState
from recloser.core.schema import RunPolicy
from recloser.core.types import Action, Outcome, Signal

UNCHANGED_IN_A_LOOP = 5
"""So many identical calls with an unchanged result make a failed run a bad loop."""


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded tool call. Arguments and result are known by hashes; without one a call compares with none."""

    tool: str
    outcome: Outcome
    args: str | None = None
    result: str | None = None
    duration_s: float = 0.0
    tokens: int = 0

    @property
    def identity(self) -> str | None:
        """What makes two calls of a tool the same call."""
        return None if self.args is None else f"{self.tool}\0{self.args}"


@dataclass(slots=True)
class Verdict:
    """What the policy would have done to one run."""

    trips: list[RunDecision] = field(default_factory=list)
    watched: list[RunDecision] = field(default_factory=list)
    """What would have tripped, had it not been watched only."""
    blocked: int = 0
    """Calls that were not made because they repeat others."""
    refused: int = 0
    """Calls of a tool that was gone."""
    lost: tuple[str, ...] = ()
    ended_by: Signal | None = None

    @property
    def stopped(self) -> bool:
        """The run lost a tool or was ended; a blocked call is no stop."""
        return bool(self.lost) or self.ended_by is not None

    @property
    def caught(self) -> bool:
        """Something tripped, a block included."""
        return bool(self.trips)


class Hindsight:
    """Plays recorded runs under one policy."""

    def __init__(self, policy: RunPolicy, rules_of: Callable[[str], ToolRules]) -> None:
        """`policy` holds the run's own limits, `rules_of` gives each tool's rules."""
        self._policy = policy
        self._rules_of = rules_of

    def verdict(self, steps: Sequence[Step]) -> Verdict:
        """One run, each call a step of its own. What is refused was not made: it counts for nothing further on."""
        rules = {step.tool: self._rules_of(step.tool) for step in steps}
        state = RunState(rules, self._policy, started_at=0.0)
        verdict = Verdict()
        _Player(Runs(lambda name, at: state), verdict).play(steps)
        verdict.lost = tuple(state.withdrawn)
        verdict.ended_by = state.ended.signal if state.ended is not None else None
        return verdict


class _Player:
    """One run's way through the driver."""

    def __init__(self, runs: Runs, verdict: Verdict) -> None:
        self._runs = runs
        self._verdict = verdict
        self._at = 0.0

    def play(self, steps: Iterable[Step]) -> None:
        for number, step in enumerate(steps, start=1):
            turn = self._runs.feed(Turn(self._at, estimate=Spend(step.tokens)))
            self._note(turn.decisions)
            if not turn.admitted:
                return
            if self._admitted(number, step):
                self._make(number, step)
            self._note(self._runs.feed(Bill(self._at, used=Spend(step.tokens))).decisions)

    def _admitted(self, number: int, step: Step) -> bool:
        said = self._runs.feed(Ask(self._at, step.tool, step=number, fingerprint=step.identity))
        for decision in said.decisions:
            if decision.action is Action.BLOCK_CALL:
                self._verdict.blocked += 1
                self._note_block(decision)
            else:
                self._verdict.refused += 1
        return bool(said.admitted)

    def _note_block(self, decision: RunDecision) -> None:
        """A call blocked at once trips by being asked for; every other block follows from a trip already noted."""
        known = {(trip.signal, trip.tool) for trip in self._verdict.trips}
        if (decision.signal, decision.tool) not in known:
            self._verdict.trips.append(decision)

    def _make(self, number: int, step: Step) -> None:
        self._at += step.duration_s
        call = Call(
            self._at, step.tool, step.outcome, step=number, fingerprint=step.identity, result=step.result,
            duration_s=step.duration_s,
        )  # fmt: skip
        self._note(self._runs.feed(call).decisions)

    def _note(self, decisions: Iterable[RunDecision]) -> None:
        for decision in decisions:
            kept = self._verdict.trips if decision.enforced else self._verdict.watched
            if not any(decision is each for each in kept):  # a run that has ended says so at every further turn
                kept.append(decision)


def is_looping(steps: Sequence[Step]) -> bool:
    """Whether a run went in a loop; where it failed, that is a *bad loop*.

    Either the same two or more (tool, arguments, result) come at least twice in a row, or one call brought the same
    result five times without another result of that call in between.
    """
    return _repeats_itself(steps) or _goes_round(list(_comparable(steps)))


def _repeats_itself(steps: Iterable[Step]) -> bool:
    seen: dict[str, tuple[Hashable, int]] = {}
    for step in steps:
        if step.identity is None or step.result is None:
            continue
        result, times = seen.get(step.identity, (None, 0))
        times = times + 1 if result == step.result else 1
        seen[step.identity] = (step.result, times)
        if times >= UNCHANGED_IN_A_LOOP:
            return True
    return False


def _comparable(steps: Iterable[Step]) -> Iterator[Hashable]:
    """Each call with its result; one that cannot be compared is like no other."""
    for number, step in enumerate(steps):
        comparable = step.identity is not None and step.result is not None
        yield (step.identity, step.result) if comparable else number


def _goes_round(calls: Sequence[Hashable]) -> bool:
    """A stretch of two or more calls, not all alike, that follows upon itself.

    For each distance at which a call was seen before: over how many calls that distance has held without a break.
    """
    places: dict[Hashable, list[int]] = {}
    held: dict[int, int] = {}
    for here, call in enumerate(calls):
        before = places.setdefault(call, [])
        held = {here - there: held.get(here - there, 0) + 1 for there in before}
        before.append(here)
        if any(1 < far <= times and len(set(calls[here - far + 1 : here + 1])) > 1 for far, times in held.items()):
            return True
    return False
