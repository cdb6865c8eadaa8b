"""The run breaker against a slow and obvious model: it keeps the whole history and reads it anew at every call."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from recloser.core.budget import Reservation, Spend
from recloser.core.policy import RunPolicy
from recloser.core.run import RunState, ToolRules
from recloser.core.types import FAILURES, Action, Outcome, Signal

FAIL_LIMIT, DEPENDENCY_LIMIT, ADVISE_AT, REMOVE_AT, SAME_LIMIT, TOKENS = 3, 4, 2, 4, 3, 500
BEHIND = {"news": ("api",), "web": ("api", "proxy"), "mail": ("smtp",)}
POLICY = RunPolicy(
    consecutive_failures=FAIL_LIMIT,
    dependency_consecutive_failures=DEPENDENCY_LIMIT,
    semantic_failures=ADVISE_AT,
    semantic_remove_after=REMOVE_AT,
    identical_calls=SAME_LIMIT,
    oscillation_cycles=None,
    no_progress_steps=None,
    retry_ambiguous=True,
    token_budget=TOKENS,
)

tools = st.sampled_from(sorted(BEHIND))
outcomes = st.sampled_from([Outcome.OK, Outcome.EMPTY, *sorted(FAILURES), Outcome.SEMANTIC_ERROR, Outcome.CANCELLED])


@dataclass
class Past:
    tool: str
    outcome: Outcome
    step: int
    call: str
    result: str
    epoch: int
    """How often the context had been shortened."""


def succeeded(past: Past) -> bool:
    return past.outcome in (Outcome.OK, Outcome.EMPTY)


def streak(history: list[Past], among: set[str], kind: frozenset[Outcome]) -> int:
    """Steps with such an outcome since the last success of any of these tools."""
    steps = set()
    for past in reversed([past for past in history if past.tool in among]):
        if succeeded(past):
            break
        if past.outcome in kind:
            steps.add(past.step)
    return len(steps)


def unchanged(history: list[Past], latest: Past) -> int:
    """How often the latest call brought the same result, in a row."""
    same = [p for p in history if (p.tool, p.call, p.epoch) == (latest.tool, latest.call, latest.epoch)]
    count = 0
    for past in reversed([past for past in same if past.outcome is not Outcome.CANCELLED]):
        if (past.outcome, past.result) != (latest.outcome, latest.result):
            break
        count += 1
    return count


class RunMachine(RuleBasedStateMachine):
    """Calls as a model would make them, some of them parallel, some of them late."""

    def __init__(self) -> None:
        super().__init__()
        self.state = RunState({t: ToolRules(POLICY, d) for t, d in BEHIND.items()}, POLICY, started_at=0.0)
        self.history: list[Past] = []
        self.gone: set[str] = set()
        self.blocked: set[tuple[str, str]] = set()
        self.step = self.epoch = 0
        self.open: list[tuple[Reservation, int]] = []
        self.booked = 0

    @rule(tool=tools, outcome=outcomes, call=st.sampled_from("ab"), result=st.sampled_from("xy"), later=st.booleans())
    def call(self, tool: str, outcome: Outcome, call: str, result: str, later: bool) -> None:
        self.step += later
        refusal = self.state.admit(tool, call, self.step, 0.0)
        assert (refusal is not None) == (tool in self.gone or (tool, call) in self.blocked)
        if refusal is None:
            self.finish(Past(tool, outcome, self.step, call, result, self.epoch))

    @precondition(lambda self: self.gone)
    @rule(outcome=outcomes, data=st.data())
    def late_answer_of_a_lost_tool(self, outcome: Outcome, data: st.DataObject) -> None:
        tool = data.draw(st.sampled_from(sorted(self.gone)))
        self.finish(Past(tool, outcome, self.step, "late", str(len(self.history)), self.epoch))

    def finish(self, past: Past) -> None:
        found = self.state.record(
            past.tool, past.outcome, step=past.step, now=0.0, fingerprint=past.call, result=past.result
        )
        self.history.append(past)
        lost = self.expected_losses(past) - self.gone
        assert {tool for decision in found for tool in decision.tools} == lost
        self.gone |= lost
        if past.outcome is not Outcome.CANCELLED and unchanged(self.history, past) >= SAME_LIMIT:
            self.blocked.add((past.tool, past.call))
        advised = [d for d in found if d.action is Action.ADVISE]
        assert all(d.signal is Signal.SEMANTIC_FAILURES for d in advised)

    def expected_losses(self, past: Past) -> set[str]:
        lost: set[str] = set()
        if past.outcome in FAILURES:
            if streak(self.history, {past.tool}, FAILURES) >= FAIL_LIMIT:
                lost.add(past.tool)
            for dependency in BEHIND[past.tool]:
                sisters = {tool for tool, behind in BEHIND.items() if dependency in behind}
                if streak(self.history, sisters, FAILURES) >= DEPENDENCY_LIMIT:
                    lost |= sisters
        semantic = frozenset({Outcome.SEMANTIC_ERROR})
        if past.outcome is Outcome.SEMANTIC_ERROR and streak(self.history, {past.tool}, semantic) >= REMOVE_AT:
            lost.add(past.tool)
        return lost

    @rule()
    def compaction(self) -> None:
        self.state.compaction()
        self.epoch += 1
        self.blocked.clear()

    @rule(estimate=st.integers(1, 90))
    def ask_for_a_step(self, estimate: int) -> None:
        aside = sum(amount for _, amount in self.open)
        if self.state.ended is None:
            answer = self.state.reserve(Spend(tokens=estimate), 0.0)
            fits = self.booked + aside + estimate <= TOKENS
            assert isinstance(answer, Reservation) is fits
            if isinstance(answer, Reservation):
                self.open.append((answer, estimate))
            else:
                self.step = -1_000_000  # the run goes on in the steps it was given

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def bill(self, data: st.DataObject) -> None:
        leave, estimate = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        used = data.draw(st.integers(0, estimate))
        self.state.settle(Spend(tokens=used), leave)
        self.booked += used

    @invariant()
    def what_is_gone_stays_gone_and_the_budget_holds(self) -> None:
        assert set(self.state.withdrawn) == self.gone
        assert self.state.budget.tokens == self.booked + sum(amount for _, amount in self.open) <= TOKENS


RunMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestTheRunBreakerAgainstItsModel = RunMachine.TestCase
