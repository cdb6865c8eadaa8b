"""A run's hard limits: reserved before a model call is admitted, settled when its bill is known."""

from __future__ import annotations

from dataclasses import dataclass

from recloser.core.schema import RunPolicy
from recloser.core.types import Signal


@dataclass(frozen=True, slots=True)
class Spend:
    """What one model call costs, estimated or billed."""

    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Reservation:
    """Leave for one model call, and what was set aside for it."""

    number: int
    spend: Spend


@dataclass(frozen=True, slots=True)
class Refusal:
    """The limit that stands in the way: what the run would reach, against what it may."""

    signal: Signal
    value: float
    limit: float


HEALTHY_RUNS = 30
"""A baseline of fewer runs than this says nothing yet."""
BURN_FROM_STEP = 3
"""One long prompt is no pattern: spend per step is judged from this step on."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What one step of a healthy run costs, for one agent and kind of task; None: not told."""

    runs: int
    tokens_per_step: float | None = None
    cost_per_step: float | None = None

    def times(self, spent: Spend, steps: int) -> float | None:
        """How many times a healthy run's spend per step this is: by tokens or by cost, whichever is more."""
        measured = ((spent.tokens, self.tokens_per_step), (spent.cost, self.cost_per_step))
        return max((value / steps / healthy for value, healthy in measured if healthy), default=None)


@dataclass(frozen=True, slots=True)
class Limits:
    """A run's limits; None is no limit."""

    steps: int | None = None
    tokens: int | None = None
    cost: float | None = None
    wall_clock_s: float | None = None

    @classmethod
    def of(cls, policy: RunPolicy, *, step_limit: int | None = None) -> Limits:
        """The policy's limits; a run may declare fewer steps, never more."""
        declared = [steps for steps in (policy.step_limit, step_limit) if steps is not None]
        return cls(min(declared, default=None), policy.token_budget, policy.cost_budget, policy.wall_clock_s)


class Budget:
    """What a run has spent and set aside. With true estimates the sum never passes a limit."""

    __slots__ = ("_billed", "_largest", "_open", "_settled", "cost", "limits", "started_at", "steps", "tokens")

    def __init__(self, limits: Limits, *, started_at: float) -> None:
        self.limits = limits
        self.started_at = started_at
        self.steps = 0
        self.tokens = 0
        """Settled and set aside together."""
        self.cost = 0.0
        self._open: dict[int, Spend] = {}
        self._largest = Spend()
        self._billed = Spend()
        self._settled = 0

    def reserve(self, estimate: Spend | None, now: float) -> Reservation | Refusal:
        """Set aside one step's spend, or say which limit forbids it. Without an estimate: the largest bill so far."""
        spend = self._largest if estimate is None else estimate
        return self._refusal(spend, now) or self.book(spend)

    def book(self, estimate: Spend | None) -> Reservation:
        """Set aside without asking whether it fits."""
        spend = self._largest if estimate is None else estimate
        self.steps += 1
        self._add(spend)
        self._open[self.steps] = spend
        return Reservation(self.steps, spend)

    def settle(self, used: Spend, reservation: Reservation | None = None) -> None:
        """Put the bill in the place of what was set aside: for that reservation, or for the oldest still open."""
        number = reservation.number if reservation else next(iter(self._open), 0)
        aside = self._open.pop(number, Spend())
        self.tokens += used.tokens - aside.tokens
        self.cost += used.cost - aside.cost
        self._largest = Spend(max(used.tokens, self._largest.tokens), max(used.cost, self._largest.cost))
        self._billed = Spend(self._billed.tokens + used.tokens, self._billed.cost + used.cost)
        self._settled += 1

    def burn(self, baseline: Baseline | None) -> float | None:
        """Billed spend per settled step, as times of a healthy run's; None while that cannot be told."""
        if baseline is None or baseline.runs < HEALTHY_RUNS or self._settled < BURN_FROM_STEP:
            return None
        return baseline.times(self._billed, self._settled)

    def _add(self, spend: Spend) -> None:
        self.tokens += spend.tokens
        self.cost += spend.cost

    def _refusal(self, spend: Spend, now: float) -> Refusal | None:
        limits = self.limits
        reached = (
            (Signal.STEP_LIMIT, self.steps + 1, limits.steps),
            (Signal.TOKEN_BUDGET, self.tokens + max(spend.tokens, 1), limits.tokens),
            (Signal.COST_BUDGET, self.cost + spend.cost, limits.cost),
            (Signal.WALL_CLOCK, now - self.started_at, limits.wall_clock_s),
        )
        for signal, value, limit in reached:
            if limit is not None and value > limit:
                return Refusal(signal, value, limit)
        return None
