"""The run breaker: what one agent run may still call. It dies with the run, and nothing closes it inside the run."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace

from recloser.core.budget import Baseline, Budget, Limits, Refusal, Reservation, Spend
from recloser.core.decision import NOTHING, RunDecision, ToolRules, block, is_enforced, is_of_a_step_before
from recloser.core.run_tool import Streak, Tool
from recloser.core.schema import RunPolicy
from recloser.core.signals import MOST_REMEMBERED, Circles, Standstill
from recloser.core.types import FAILURES, SUCCESSES, Action, Delivery, Outcome, Scope, Signal

_OK, _OFF = (
    Outcome.OK,
    Delivery.OFF,
)  # asking an enumeration for a member costs as much as a call

_WITHDRAWING = frozenset({Action.REMOVE_TOOL, Action.ESCALATE, Action.END_RUN})
_ENDING = frozenset({Action.ESCALATE, Action.END_RUN})
_NO_EVIDENCE = frozenset({Outcome.REJECTED, Outcome.CANCELLED})

__all__ = ["NOTHING", "RunDecision", "RunState", "ToolRules"]


class RunState:
    """All counters of one run. Decisions come from memory; a call that goes well costs a few look-ups."""

    __slots__ = (
        "_baseline",
        "_budget",
        "_circles",
        "_dependencies",
        "_has_failed",
        "_latest",
        "_policy",
        "_serial",
        "_short_at",
        "_standstill",
        "_told",
        "_tools",
        "_unknown",
        "default",
        "ended", "noted",
    )  # fmt: skip

    def __init__(
        self,
        tools: Mapping[str, ToolRules],
        policy: RunPolicy,
        *,
        started_at: float,
        step_limit: int | None = None,
        default: ToolRules | None = None,
        baseline: Baseline | None = None,
    ) -> None:
        """`policy` holds the run's own limits; `default` the rules of tools that were not declared.

        `baseline` is what a healthy run of the same kind spends; None: nobody knows.
        """
        self._policy = policy
        self._baseline = baseline
        self._budget = Budget(Limits.of(policy, step_limit=step_limit), started_at=started_at)
        self._tools: dict[str, Tool] = {}
        self._dependencies: dict[str, Streak] = {}
        cycles = policy.oscillation_cycles if policy.oscillation_delivery is not Delivery.OFF else None
        self._circles = Circles(cycles) if cycles is not None else None
        watched = policy.no_progress_steps is not None and policy.no_progress_delivery is not Delivery.OFF
        self._standstill = Standstill() if watched else None
        self._has_failed = False
        """Any call ever: until then no success has a streak to end."""
        self._latest: Tool | None = None
        """The tool called last, where standing still is watched."""
        self._unknown: set[Hashable] = set()
        self._told: set[Signal] = set()
        self._serial = 0
        self.default = default or ToolRules()
        self.ended: RunDecision | None = None
        self.noted: list[RunDecision] = []
        """Limits that would have ended the run, where the policy only watches."""
        for name, rules in tools.items():
            self.declare(name, rules)

    def declare(self, tool: str, rules: ToolRules) -> None:
        """Make a tool known; one that is known follows an edited policy, and keeps its counters and its losses."""
        entry = self._tools.get(tool)
        if entry is None:
            self._tools[tool] = Tool(tool, rules, self._is_short(rules.policy))
        else:
            entry.follow(rules, self._is_short(rules.policy))
        for name in rules.dependencies:
            self._dependencies.setdefault(name, Streak())

    def follow(self, policy: RunPolicy, *, step_limit: int | None = None, baseline: Baseline | None = None) -> None:
        """Take over an edited policy of the run itself, and a newer baseline; what was counted and spent stays."""
        self._policy = policy
        self._baseline = baseline or self._baseline
        self._budget.limits = Limits.of(policy, step_limit=step_limit)

    def _is_short(self, policy: RunPolicy) -> bool:
        limit, short = self._budget.limits.steps, policy.short_run_steps
        return limit is not None and short is not None and limit <= short

    # -- before a call

    def admit(
        self, tool: str, fingerprint: Hashable, step: int | None, now: float, *, keyed: bool = False
    ) -> RunDecision | None:
        """None lets the call run; a decision says why it does not.

        `fingerprint` is the identity of the call (`fingerprint` or `call_key`; None: it has none), `keyed`: the call
        carries an idempotency key, so repeating it does no harm.
        """
        if self.ended is not None and not is_of_a_step_before(self.ended, step):
            return self.ended
        entry = self._tools.get(tool) or self._stranger(tool)
        if entry.withdrawn is not None:
            entry.refused += 1
            return entry.withdrawn
        if fingerprint is None or entry.policy.delivery is _OFF:
            return None
        return self._repeated(entry, fingerprint, step, keyed)

    def tool(self, name: str) -> Tool:
        """One tool's counters, for `is_clear` and `worked`: whoever asks often, looks it up once."""
        return self._tools.get(name) or self._stranger(name)

    def is_clear(self, tool: Tool) -> bool:
        """Nothing can stop a call of this tool, whatever its arguments: `admit` need not be asked."""
        return self.ended is None and tool.withdrawn is None and not (tool.blocked or tool.ambiguous or tool.guarded)

    def _repeated(self, entry: Tool, call: Hashable, step: int | None, keyed: bool) -> RunDecision | None:
        if entry.blocked and call in entry.blocked:
            return replace(entry.blocked[call], step=step)
        if entry.ambiguous and call in entry.ambiguous and not keyed and is_enforced(entry.policy):
            return block(entry.name, step, ambiguous=True)
        if not entry.guarded:
            return None
        again = entry.known(entry.admitted, call) > 1
        return block(entry.name, step) if again and not keyed and is_enforced(entry.policy) else None

    def _stranger(self, tool: str) -> Tool:
        self.declare(tool, self.default)
        return self._tools[tool]

    # -- after a call

    def record(
        self,
        tool: str,
        outcome: Outcome,
        *,
        step: int | None,
        now: float,
        fingerprint: Hashable = None,
        result: Hashable = None,
        at_fault: Iterable[str] | None = None,
        progress: bool | None = None,
    ) -> tuple[RunDecision, ...]:
        """Count one finished call; return what it tripped, mostly nothing.

        `result` is the fingerprint of its content, `at_fault` the dependencies to blame where somebody knows.
        """
        entry = self._tools.get(tool) or self._stranger(tool)
        if outcome is _OK and progress is None:
            return self.worked(entry, step, fingerprint, result)
        if outcome in _NO_EVIDENCE:
            self._did_not_run(entry, outcome, fingerprint)
            return NOTHING
        if entry.policy.delivery is _OFF:
            return NOTHING
        own_step: Hashable = self._own_step() if step is None else step
        found: list[RunDecision] = []
        if outcome in SUCCESSES:
            self._succeeded(entry)
        else:
            self._failed(entry, outcome, own_step, step, fingerprint, at_fault, found)
        seen = result if outcome is _OK else _failed_result(outcome, result)
        limit = entry.identical_limit
        if limit is not None and fingerprint is not None and seen is not None:
            count = entry.repeats.saw(fingerprint, seen)
            if count >= limit:
                self._identical(entry, fingerprint, count, limit, step, found)
        if self._circles is not None and (names := self._circles.saw(tool, fingerprint, seen)):
            self._oscillated(entry, names, step, found)
        if self._standstill is not None:
            self._stood_still(self._standstill, entry, outcome, own_step, step, result, progress, found)
        return tuple(found) if found else NOTHING

    def worked(self, entry: Tool, step: int | None, fingerprint: Hashable, result: Hashable) -> tuple[RunDecision, ...]:
        """`record` for a call that went well, as nearly all do; by position, because that is cheaper."""
        if entry.policy.delivery is _OFF:
            return NOTHING
        found: list[RunDecision] = []
        if self._has_failed or entry.share is not None:
            self._succeeded(entry)
        limit = entry.identical_limit
        if limit is not None and fingerprint is not None and result is not None:
            count = entry.repeats.saw(fingerprint, result)
            if count >= limit:
                self._identical(entry, fingerprint, count, limit, step, found)
        if self._circles is not None and (names := self._circles.saw(entry.name, fingerprint, result)):
            self._oscillated(entry, names, step, found)
        still = self._standstill
        if still is not None:
            self._latest = entry
            if not still.supplied:
                count = still.call(self._own_step() if step is None else step, True, result)
                if self._told or count >= (self._policy.no_progress_steps or 0):
                    self._judge_standstill(entry, count, step, found)
        return tuple(found) if found else NOTHING

    def _own_step(self) -> Hashable:
        self._serial += 1
        return ("call", self._serial)

    def _did_not_run(self, entry: Tool, outcome: Outcome, call: Hashable) -> None:
        """A call refused further down did not happen; one that its caller gave up may have."""
        if call is None or not entry.guarded:
            return
        if outcome is Outcome.REJECTED and entry.admitted.get(call, 0) > 0:
            entry.admitted[call] -= 1

    def _succeeded(self, entry: Tool) -> None:
        if entry.failing.steps:
            entry.failing.ended()
        if entry.semantic.steps:
            entry.semantic.ended()
            entry.semantic_removed = False
        if entry.share is not None:
            entry.share.saw(False)
        for name in entry.dependencies:
            if (streak := self._dependencies[name]).steps:
                streak.ended()

    def _failed(
        self,
        entry: Tool,
        outcome: Outcome,
        own_step: Hashable,
        step: int | None,
        call: Hashable,
        at_fault: Iterable[str] | None,
        found: list[RunDecision],
    ) -> None:
        self._has_failed = True
        if outcome is Outcome.UNKNOWN_TOOL:
            self._named_unknown(entry, own_step, step, found)
        elif outcome is Outcome.SEMANTIC_ERROR:
            self._rejected_arguments(entry, own_step, step, found)
        elif outcome in FAILURES:
            self._failed_tool(entry, own_step, step, found)
            self._failed_dependencies(entry, own_step, step, at_fault, found)
            if outcome is Outcome.TIMEOUT and call is not None and not entry.policy.retry_ambiguous:
                entry.ambiguous[call] = None

    def _failed_tool(self, entry: Tool, own_step: Hashable, step: int | None, found: list[RunDecision]) -> None:
        policy, streak, limit = entry.policy, entry.failing, entry.failure_limit
        count = streak.failed(own_step)
        if limit is not None and count >= limit and not streak.told:
            streak.told = True
            self._trip(
                entry, Signal.CONSECUTIVE_FAILURES, policy.consecutive_failures_action, count, limit, step, found,
                delivery=policy.consecutive_failures_delivery,
            )  # fmt: skip
        share = entry.share.saw(True) if entry.share is not None else None
        rate = entry.rate_limit
        if share is not None and rate is not None and share >= rate and "rate" not in entry.told:
            entry.told.add("rate")
            self._trip(
                entry, Signal.RUN_FAILURE_RATE, policy.run_failure_rate_action, share, rate, step, found,
                delivery=policy.run_failure_rate_delivery,
            )  # fmt: skip

    def _failed_dependencies(
        self,
        entry: Tool,
        own_step: Hashable,
        step: int | None,
        at_fault: Iterable[str] | None,
        found: list[RunDecision],
    ) -> None:
        blamed = entry.dependencies if at_fault is None else tuple(at_fault)
        for name in blamed:
            streak = self._dependencies.setdefault(name, Streak())
            count, limit = streak.failed(own_step), entry.dependency_limit
            if limit is not None and count >= limit and not streak.told:
                streak.told = True
                self._trip_dependency(entry, name, count, limit, step, found)

    def _trip_dependency(
        self, entry: Tool, dependency: str, count: int, limit: int, step: int | None, found: list[RunDecision]
    ) -> None:
        behind = [other for other in self._tools.values() if dependency in other.dependencies]
        if all(other.failing.told for other in behind):
            return  # its only tool has tripped by itself
        self._trip(
            entry, Signal.CONSECUTIVE_FAILURES, entry.policy.consecutive_failures_action, count, limit, step, found,
            behind=behind, dependency=dependency, delivery=entry.policy.consecutive_failures_delivery,
        )  # fmt: skip

    def _rejected_arguments(self, entry: Tool, own_step: Hashable, step: int | None, found: list[RunDecision]) -> None:
        policy, streak, signal = entry.policy, entry.semantic, Signal.SEMANTIC_FAILURES
        count, delivery = streak.failed(own_step), policy.semantic_failures_delivery
        advise_at, remove_at = entry.advise_limit, entry.remove_limit
        if advise_at is not None and count >= advise_at and not streak.told:
            streak.told = True
            action = policy.semantic_failures_action
            self._trip(entry, signal, action, count, advise_at, step, found, delivery=delivery)
        if remove_at is not None and count >= remove_at and not entry.semantic_removed:
            entry.semantic_removed = True
            self._trip(entry, signal, Action.REMOVE_TOOL, count, remove_at, step, found, delivery=delivery)

    def _named_unknown(self, entry: Tool, own_step: Hashable, step: int | None, found: list[RunDecision]) -> None:
        if len(self._unknown) < MOST_REMEMBERED:
            self._unknown.add(own_step)
        limit, delivery = self._policy.unknown_tool, self._policy.unknown_tool_delivery
        if limit is None or delivery is _OFF or len(self._unknown) < limit or Signal.UNKNOWN_TOOL in self._told:
            return
        self._told.add(Signal.UNKNOWN_TOOL)
        self._trip(
            entry, Signal.UNKNOWN_TOOL, self._policy.unknown_tool_action, len(self._unknown), limit, step, found,
            delivery=delivery,
        )  # fmt: skip

    def _identical(
        self, entry: Tool, call: Hashable, count: int, limit: int, step: int | None, found: list[RunDecision]
    ) -> None:
        mark = ("same", call)
        if call in entry.blocked or mark in entry.told:
            return
        action, delivery = entry.policy.identical_calls_action, entry.policy.identical_calls_delivery
        decision = self._trip(entry, Signal.IDENTICAL_CALLS, action, count, limit, step, found, delivery=delivery)
        if decision.enforced and action is not Action.ADVISE:
            entry.blocked[call] = decision
        else:
            entry.told.add(mark)

    def _oscillated(self, entry: Tool, names: Iterable[str], step: int | None, found: list[RunDecision]) -> None:
        assert self._circles is not None
        policy = self._policy
        behind = [self._tools[name] for name in names]
        cycles = policy.oscillation_cycles or 0
        self._trip(
            entry, Signal.OSCILLATION, policy.oscillation_action, cycles, cycles, step, found,
            behind=behind, delivery=policy.oscillation_delivery,
        )  # fmt: skip
        self._circles.clear()

    def _stood_still(
        self,
        still: Standstill,
        entry: Tool,
        outcome: Outcome,
        own_step: Hashable,
        step: int | None,
        result: Hashable,
        progress: bool | None,
        found: list[RunDecision],
    ) -> None:
        self._latest = entry
        if progress is not None:
            count = still.moved(own_step, progress)
        elif not still.supplied:
            count = still.call(own_step, outcome is _OK, result)
        else:
            return
        if self._told or count >= (self._policy.no_progress_steps or 0):
            self._judge_standstill(entry, count, step, found)

    def _judge_standstill(self, entry: Tool, count: int, step: int | None, found: list[RunDecision]) -> None:
        policy, limit = self._policy, self._policy.no_progress_steps
        if count == 0:
            self._told.discard(Signal.NO_PROGRESS)
        if limit is None or count < limit or Signal.NO_PROGRESS in self._told:
            return
        self._told.add(Signal.NO_PROGRESS)
        self._trip(
            entry, Signal.NO_PROGRESS, policy.no_progress_action, count, limit, step, found,
            delivery=policy.no_progress_delivery,
        )  # fmt: skip

    def state(self, fingerprint: Hashable, *, step: int, tool: str | None = None) -> tuple[RunDecision, ...]:
        """The agent's own state after a step; from now on this alone says what is progress.

        `tool` is the one to answer for it; None: the one called last. Where none was, no tool can be lost to it.
        """
        found: list[RunDecision] = []
        if self._standstill is not None:
            named = None if tool is None else self._tools.get(tool) or self._stranger(tool)
            entry = named or self._latest or Tool("", self.default, False, stands_in=True)
            self._judge_standstill(entry, self._standstill.state(step, fingerprint), step, found)
        return tuple(found)

    # -- what follows from a trip

    def _trip(
        self,
        entry: Tool,
        signal: Signal,
        action: Action,
        evidence: float,
        threshold: float,
        step: int | None,
        found: list[RunDecision],
        *,
        behind: list[Tool] | None = None,
        dependency: str | None = None,
        delivery: Delivery = Delivery.ENFORCE,
    ) -> RunDecision:
        enforced = is_enforced(entry.policy) and delivery is Delivery.ENFORCE
        lost = [tool for tool in behind or [entry] if tool.can_be_lost(signal)] if action in _WITHDRAWING else []
        decision = RunDecision(
            action=action,
            signal=signal,
            evidence=evidence,
            threshold=threshold,
            tool=entry.name,
            step=step,
            tools=tuple(tool.name for tool in lost),
            dependency=dependency,
            enforced=enforced,
        )
        ends = action is Action.END_RUN and self.ended is None and entry.is_exposed(signal)
        if lost or ends or (action not in _WITHDRAWING and entry.is_exposed(signal)):
            found.append(decision)
        if enforced:
            self._apply(decision, lost, ends=ends)
        return decision

    def _apply(self, decision: RunDecision, lost: list[Tool], *, ends: bool) -> None:
        """Also a run that has nothing left to lose to this signal ends by it."""
        for tool in lost:
            tool.withdrawn = decision
        if ends:
            self.ended = decision

    def withdraw(
        self,
        tools: Iterable[str],
        *,
        signal: Signal | None,
        scope: Scope,
        step: int | None,
        evidence: float = 0.0,
        threshold: float = 0.0,
        dependency: str | None = None,
    ) -> RunDecision:
        """Take away what another scope's circuit took: it stays gone for this run, even after a force close."""
        names = tuple(tools)
        decision = RunDecision(
            Action.REMOVE_TOOL, signal, evidence, threshold, names[0], step, names, dependency, scope
        )
        for name in names:
            entry = self._tools.get(name) or self._stranger(name)
            entry.withdrawn = entry.withdrawn or decision
        return decision

    def readmit(self, tool: str, *, now: float, since: float) -> bool:
        """Give a tool back where the policy allows it: once, late enough, never what the run itself tripped."""
        entry = self._tools.get(tool)
        if entry is None or entry.withdrawn is None or entry.withdrawn.scope is Scope.RUN:
            return False
        if not entry.policy.readmit or "readmitted" in entry.told or now - since < entry.policy.readmit_after_s:
            return False
        entry.told.add("readmitted")
        entry.withdrawn = None
        return True

    # -- limits

    def reserve(self, estimate: Spend | None, now: float) -> Reservation | RunDecision:
        """Leave for one model call, or the decision that ends the run. A run that has ended gets no further step."""
        if self.ended is not None:
            return self.ended
        answer = self._budget.reserve(estimate, now)
        if isinstance(answer, Reservation):
            return answer
        return self._limit_reached(answer, estimate, now)

    def _limit_reached(self, refusal: Refusal, estimate: Spend | None, now: float) -> Reservation | RunDecision:
        policy, enforced = self._policy, is_enforced(self._policy)
        decision = RunDecision(
            policy.backstop_action,
            refusal.signal,
            refusal.value,
            refusal.limit,
            "",
            self._budget.steps,
            enforced=enforced,
        )
        if enforced:
            self.ended = decision
            return decision
        self._note(decision)
        return self._budget.book(estimate)

    def _note(self, decision: RunDecision) -> None:
        watched = self._policy.delivery is Delivery.OBSERVE
        if watched and decision.signal is not None and decision.signal not in self._told:
            self._told.add(decision.signal)
            self.noted.append(decision)

    def settle(self, used: Spend, reservation: Reservation | None = None) -> tuple[RunDecision, ...]:
        """Book what a model call really cost; return what it tripped, mostly nothing."""
        self._budget.settle(used, reservation)
        limit, burnt = self._policy.budget_burn, self._budget.burn(self._baseline)
        if limit is None or burnt is None or burnt < limit or self._policy.budget_burn_delivery is _OFF:
            return NOTHING
        return self._burnt(burnt, limit)

    def _burnt(self, burnt: float, limit: float) -> tuple[RunDecision, ...]:
        """Once a run: what a run has spent stays spent."""
        if Signal.BUDGET_BURN in self._told or self._policy.delivery is _OFF:
            return NOTHING
        self._told.add(Signal.BUDGET_BURN)
        policy = self._policy
        enforced = is_enforced(policy) and policy.budget_burn_delivery is Delivery.ENFORCE
        decision = RunDecision(
            policy.budget_burn_action, Signal.BUDGET_BURN, round(burnt, 3), limit, "", self._budget.steps,
            enforced=enforced,
        )  # fmt: skip
        if enforced and decision.action in _ENDING:
            self.ended = self.ended or decision
        return (decision,)

    @property
    def budget(self) -> Budget:
        """What the run has spent, set aside, and may spend."""
        return self._budget

    # -- what the run may be told

    def compaction(self) -> None:
        """The context was shortened: repetitions are forgotten, failures are not.

        What a confirmed side effect has done, and what may have happened, is not forgotten either.
        """
        for entry in self._tools.values():
            entry.repeats.clear()
            entry.blocked.clear()
            entry.told = {mark for mark in entry.told if isinstance(mark, str)}
        if self._circles is not None:
            self._circles.clear()

    def refuse(self, tool: str, calls: int) -> None:
        """Count calls of a lost tool that were answered without asking again."""
        entry = self._tools.get(tool)
        if entry is not None:
            entry.refused += calls

    def is_withdrawn(self, tool: str) -> bool:
        """Whether this run has lost the tool."""
        entry = self._tools.get(tool)
        return entry is not None and entry.withdrawn is not None

    @property
    def withdrawn(self) -> Mapping[str, RunDecision]:
        """Every lost tool with the decision that took it."""
        return {name: entry.withdrawn for name, entry in self._tools.items() if entry.withdrawn is not None}

    @property
    def refused(self) -> Mapping[str, int]:
        """How many calls to each lost tool were answered by us."""
        return {name: entry.refused for name, entry in self._tools.items() if entry.refused}

    def streak(self, tool: str) -> int:
        """Failing steps of a tool in a row, at this moment."""
        entry = self._tools.get(tool)
        return 0 if entry is None else len(entry.failing.steps)


def _failed_result(outcome: Outcome, result: Hashable) -> Hashable:
    return (outcome.value, result)
