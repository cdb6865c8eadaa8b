"""What a threshold costs before it trips: steps of the run, and attempts at the dependency. Neither says the other."""

from __future__ import annotations

from dataclasses import dataclass

from recloser.core.policy import RunPolicy

from controlplane.selectors.tools import Measured

USUAL_STEPS, USUAL_ATTEMPTS = 20, 1.0


@dataclass(frozen=True, slots=True)
class Proof:
    """Proving a tool down. Steps spent = threshold / step budget; HTTP attempts = threshold x attempt cap."""

    threshold: int | None
    steps: int
    attempts: float
    steps_from: str
    attempts_from: str

    @property
    def share(self) -> float | None:
        """Part of a run's steps; None where no threshold is set."""
        return min(1.0, self.threshold / self.steps) if self.threshold else None

    @property
    def requests(self) -> float | None:
        """HTTP attempts of one run."""
        return self.threshold * self.attempts if self.threshold else None


def of_tool(policy: RunPolicy, seen: Measured) -> Proof:
    """With the step budget that its runs declare, and the attempts that its failed calls took."""
    steps = policy.step_limit or seen.step_limit or USUAL_STEPS
    short = policy.short_run_steps is not None and steps <= policy.short_run_steps
    limits = [policy.consecutive_failures, policy.short_run_consecutive_failures if short else None]
    known = [limit for limit in limits if limit is not None]
    return Proof(
        threshold=None if policy.never_open or not known else min(known),
        steps=steps,
        attempts=seen.attempts or USUAL_ATTEMPTS,
        steps_from=_steps_from(policy, seen),
        attempts_from="as failed calls took in the last 24 hours"
        if seen.attempts
        else "supposing that nothing retries",
    )


def _steps_from(policy: RunPolicy, seen: Measured) -> str:
    if policy.step_limit:
        return "the policy's step limit"
    return "what its runs declare" if seen.step_limit else "supposed: no run has declared one"
