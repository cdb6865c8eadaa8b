"""Permits: who may test, when, and that there is never more than one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recloser.core.circuit import Circuit, grant_permit, is_testable, may_test, refuse_candidate, sweep, verdict_of
from recloser.core.policy import CircuitPolicy
from recloser.core.types import Cause, Delivery, Mode, Outcome, SideEffectClass, State, Verdict

NOW = 1000.0
POLICY = CircuitPolicy(cooldown_s=30.0, permits=True)
OPEN = Circuit(state=State.OPEN, opened_at=NOW - 60, changed_at=NOW - 60, due_at=NOW, generation=3)


def ask(circuit: Circuit = OPEN, policy: CircuitPolicy = POLICY, now: float = NOW, **other: object):
    asked = {"probed": False, "root_began_at": NOW - 1, "side_effect": SideEffectClass.READ_ONLY, "confirmed": True}
    return grant_permit(circuit, policy, now, "p1", **(asked | other))


def test_the_first_later_run_gets_the_one_permit():
    first = ask()
    assert first.granted and first.circuit.state is State.HALF_OPEN
    assert ask(first.circuit).reason == "another round is in flight"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"probed": True}, "not tested by permits"),
        ({"policy": replace(POLICY, permits=False)}, "not tested by permits"),
        ({"policy": replace(POLICY, delivery=Delivery.OBSERVE)}, "not tested by permits"),
        ({"confirmed": False}, "its class may not test"),
        ({"side_effect": SideEffectClass.SIDE_EFFECT}, "its class may not test"),
        ({"root_began_at": NOW - 60}, "the run began before the opening"),
        ({"root_began_at": None}, "the run began before the opening"),
        ({"now": NOW - 0.1}, "not due yet"),
        ({"circuit": Circuit()}, "the run began before the opening"),
        ({"circuit": replace(OPEN, mode=Mode.FORCED_OPEN, mode_expires_at=NOW + 9)}, "held by an operator"),
    ],
)
def test_everybody_else_is_refused(other, reason):
    answer = ask(**other)
    assert (answer.granted, answer.reason) == (False, reason)


def test_a_permit_whose_run_dies_is_inconclusive_and_frees_the_slot():
    lost = ask().circuit
    freed = sweep(lost, POLICY, lost.round.lease_expires_at)
    assert (freed.state, freed.cause) == (State.OPEN, Cause.PROBE_INCONCLUSIVE)
    assert ask(freed, now=freed.due_at).granted


def test_no_more_candidates_than_the_policy_says():
    refused = [refuse_candidate(OPEN, POLICY, NOW, probed=False, taken=taken) for taken in (0, 2, 3)]
    assert refused == [None, None, "enough candidates"]
    assert refuse_candidate(OPEN, POLICY, NOW - 1, probed=False, taken=0) == "not due"
    assert refuse_candidate(OPEN, POLICY, NOW, probed=True, taken=0) == "not tested by permits"


@pytest.mark.parametrize("side_effect", list(SideEffectClass))
def test_a_test_is_never_a_side_effect(side_effect):
    harmless = side_effect in (SideEffectClass.READ_ONLY, SideEffectClass.IDEMPOTENT_WRITE)
    assert may_test(side_effect, confirmed=True) is harmless
    assert not may_test(side_effect, confirmed=False)


def test_without_a_probe_only_a_confirmed_harmless_tool_makes_it_testable():
    harmless, grave = SideEffectClass.READ_ONLY, SideEffectClass.SIDE_EFFECT
    both = [(grave, True), (harmless, True)]
    assert is_testable(POLICY, probed=False, tools=both)
    assert not is_testable(POLICY, probed=False, tools=[(grave, True), (harmless, False)])
    assert not is_testable(replace(POLICY, permits=False), probed=False, tools=both)
    assert is_testable(replace(POLICY, permits=False), probed=True, tools=[])


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome.OK, Verdict.GOOD),
        (Outcome.EMPTY, Verdict.GOOD),
        (Outcome.TIMEOUT, Verdict.BAD),
        (Outcome.SEMANTIC_ERROR, Verdict.INCONCLUSIVE),
        (Outcome.CANCELLED, Verdict.INCONCLUSIVE),
    ],
)
def test_the_outcome_of_the_call_is_the_verdict(outcome, verdict):
    assert verdict_of(outcome) is verdict
