"""Permits: leave for one call of a later run to test an open circuit that no synthetic probe tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from recloser.core.resolve import HARMLESS
from recloser.core.rounds import Grant, grant_round, sweep
from recloser.core.schema import CircuitPolicy
from recloser.core.states import Circuit
from recloser.core.types import FAILURES, SUCCESSES, Delivery, Mode, Outcome, SideEffectClass, State, Verdict

PERMIT_LEASE_S = 60.0
"""A tool's own call may last longer than a probe; one that is lost frees the slot after this."""
CANDIDATE_S = 60.0
"""So long a process may keep a candidate's place for a run that has yet to begin; then another gets it."""


def is_due(state: State, mode: Mode, due_at: float | None, now: float) -> bool:
    """Whether a circuit waits for somebody to test it: one rule for server and agent."""
    return state is State.OPEN and mode is Mode.AUTO and due_at is not None and now >= due_at


def by_permit(policy: CircuitPolicy, *, probed: bool) -> bool:
    """Whether permits are how this circuit's recovery is tested: a configured synthetic probe comes first."""
    return policy.permits and policy.delivery is Delivery.ENFORCE and not probed


def may_test(side_effect: SideEffectClass, *, confirmed: bool) -> bool:
    """Whether a tool's call may be the test: never one that could do harm, and no class that is only assumed."""
    return confirmed and side_effect in HARMLESS


def is_testable(policy: CircuitPolicy, *, probed: bool, tools: Iterable[tuple[SideEffectClass, bool]]) -> bool:
    """Whether a probe or some later run's call could test it. `tools`: their classes, and if confirmed."""
    by_call = by_permit(policy, probed=probed)
    return probed or (by_call and any(may_test(side_effect, confirmed=known) for side_effect, known in tools))


def is_later(root_began_at: float | None, opened_at: float | None) -> bool:
    """Whether a run's root began after the opening; one whose root is not known did not."""
    return root_began_at is not None and opened_at is not None and root_began_at > opened_at


def refuse_candidate(circuit: Circuit, policy: CircuitPolicy, now: float, *, probed: bool, taken: int) -> str | None:
    """Why no further run may become a candidate; None where one may. `taken`: places held for this due circuit."""
    if not by_permit(policy, probed=probed):
        return "not tested by permits"
    if not is_due(circuit.state, circuit.mode, circuit.due_at, now):
        return "not due"
    return "enough candidates" if taken >= policy.permit_candidates else None


def grant_permit(
    circuit: Circuit,
    policy: CircuitPolicy,
    now: float,
    round_id: str,
    *,
    probed: bool,
    root_began_at: float | None,
    side_effect: SideEffectClass,
    confirmed: bool,
) -> Grant:
    """Give the one round of a due circuit to a candidate's call: the first that asks gets it."""
    circuit = sweep(circuit, policy, now)
    if not by_permit(policy, probed=probed):
        return Grant(circuit, False, "not tested by permits")
    if not may_test(side_effect, confirmed=confirmed):
        return Grant(circuit, False, "its class may not test")
    if not is_later(root_began_at, circuit.opened_at):
        return Grant(circuit, False, "the run began before the opening")
    leased = replace(policy, probe_timeout_s=max(policy.probe_timeout_s, PERMIT_LEASE_S))
    return grant_round(circuit, leased, now, round_id)


def verdict_of(outcome: Outcome) -> Verdict:
    """What a testing call says of the dependency."""
    if outcome in FAILURES:
        return Verdict.BAD
    return Verdict.GOOD if outcome in SUCCESSES else Verdict.INCONCLUSIVE
