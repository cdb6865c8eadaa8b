"""One tool's counters in one run: they count, and none knows what follows from it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from recloser.core.decision import RunDecision, ToolRules
from recloser.core.schema import RunPolicy
from recloser.core.signals import MOST_REMEMBERED, Repeats, Share
from recloser.core.types import Delivery, Signal

Limit = TypeVar("Limit", int, float)

_FAILURE_SIGNALS = frozenset({Signal.CONSECUTIVE_FAILURES, Signal.SEMANTIC_FAILURES, Signal.RUN_FAILURE_RATE})


@dataclass(slots=True)
class Streak:
    """Steps in a row that failed; the calls of one step are one observation."""

    steps: set[Hashable] = field(default_factory=set)
    told: bool = False

    def failed(self, step: Hashable) -> int:
        """Count a failing call; how many steps in a row have failed."""
        if len(self.steps) < MOST_REMEMBERED:
            self.steps.add(step)
        return len(self.steps)

    def ended(self) -> None:
        """A success ends it."""
        if self.steps:
            self.steps.clear()
            self.told = False


class Tool:
    """One tool's counters in one run."""

    __slots__ = (
        "admitted", "advise_limit", "ambiguous", "blocked", "dependencies", "dependency_limit", "failing",
        "failure_limit", "guarded", "identical_limit", "name", "policy", "rate_limit", "refused", "remove_limit",
        "repeats", "semantic", "semantic_removed", "share", "stands_in", "told", "withdrawn",
    )  # fmt: skip

    def __init__(self, name: str, rules: ToolRules, short: bool, *, stands_in: bool = False) -> None:
        self.name = name
        self.stands_in = stands_in  # for no tool at all: nothing can be lost
        self.withdrawn: RunDecision | None = None
        self.refused = 0
        self.failing = Streak()
        self.semantic = Streak()
        self.semantic_removed = False
        self.share: Share | None = None
        self.repeats = Repeats()
        self.blocked: dict[Hashable, RunDecision] = {}
        self.ambiguous: dict[Hashable, None] = {}
        self.admitted: dict[Hashable, int] = {}
        self.told: set[Hashable] = set()
        self.follow(rules, short)

    def follow(self, rules: ToolRules, short: bool) -> None:
        """Go by these rules from now on. A signal whose delivery is off has no limit."""
        policy = self.policy = rules.policy
        self.dependencies = rules.dependencies
        failures, semantic = policy.consecutive_failures_delivery, policy.semantic_failures_delivery
        self.failure_limit = _on(failures, _in_a_run(policy.consecutive_failures, policy, short))
        self.dependency_limit = _on(failures, _in_a_run(policy.dependency_consecutive_failures, policy, short))
        self.advise_limit = _on(semantic, policy.semantic_failures)
        self.remove_limit = _on(semantic, policy.semantic_remove_after)
        self.guarded = policy.repeat_at_once
        exempt = policy.identical_calls_exempt
        self.identical_limit = None if exempt else _on(policy.identical_calls_delivery, policy.identical_calls)
        self.rate_limit = _on(policy.run_failure_rate_delivery, policy.run_failure_rate)
        if self.rate_limit is None:
            self.share = None
        elif self.share is None or self.share.calls != policy.run_failure_min_calls:
            self.share = Share(policy.run_failure_min_calls)

    def known(self, table: dict[Hashable, int], call: Hashable) -> int:
        """Count an admission, in a bounded table."""
        count = table[call] = table.get(call, 0) + 1
        if len(table) > 16 * MOST_REMEMBERED:
            for oldest in list(islice(table, len(table) // 2)):
                del table[oldest]
        return count

    def is_exposed(self, signal: Signal) -> bool:
        """An explicit `never open` exempts a tool from the failure signals, and from nothing else."""
        return not (self.policy.never_open and signal in _FAILURE_SIGNALS)

    def can_be_lost(self, signal: Signal) -> bool:
        """Whether this signal may still take the tool from the run."""
        return self.withdrawn is None and not self.stands_in and self.is_exposed(signal)


def _on(delivery: Delivery, limit: Limit | None) -> Limit | None:
    return None if delivery is Delivery.OFF else limit


def _in_a_run(limit: int | None, policy: RunPolicy, short: bool) -> int | None:
    tight = policy.short_run_consecutive_failures
    return limit if limit is None or tight is None or not short else min(limit, tight)
