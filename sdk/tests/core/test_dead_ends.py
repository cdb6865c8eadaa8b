"""When a run has no way on, and whom that concerns."""

from __future__ import annotations

import pytest
from recloser.core.ending import Handover, Lost, dead_end, passed_on
from recloser.core.policy import RunPolicy
from recloser.core.run import RunDecision
from recloser.core.types import Action, DegradedBehaviour, Signal


def lost(behaviour: DegradedBehaviour, action: Action = Action.REMOVE_TOOL, *, replaced: bool = False) -> Lost:
    decision = RunDecision(action, Signal.CONSECUTIVE_FAILURES, 5, 5, "tool", 4, ("tool",))
    return Lost(decision, RunPolicy(degraded_behaviour=behaviour), replaced)


UNDECIDED, FALLBACK, PARTIAL, ASK, ESCALATE, END = DegradedBehaviour


def test_a_tool_without_which_the_run_is_to_end_ends_it_though_others_remain():
    assert dead_end([lost(PARTIAL), lost(END)], remaining=True) == lost(END).decision


@pytest.mark.parametrize("behaviour", [ASK, ESCALATE])
def test_where_people_are_to_go_on_the_last_tool_ends_the_run(behaviour):
    assert dead_end([lost(behaviour)], remaining=True) is None
    assert dead_end([lost(behaviour)], remaining=False) is not None


@pytest.mark.parametrize("behaviour", [UNDECIDED, FALLBACK, PARTIAL])
def test_an_answer_from_what_is_there_needs_no_tool(behaviour):
    assert dead_end([lost(behaviour)], remaining=False) is None


def test_a_fallback_that_can_be_called_is_a_way_on():
    assert dead_end([lost(ASK, replaced=True)], remaining=False) is None


def test_an_escalation_is_passed_on_as_it_happens_and_a_question_at_the_end():
    ended = lost(END).decision
    assert passed_on([lost(ESCALATE)], None) is Handover.ESCALATION
    assert passed_on([lost(PARTIAL, Action.ESCALATE)], None) is Handover.ESCALATION
    assert passed_on([lost(ASK)], None) is None
    assert passed_on([lost(ASK)], ended) is Handover.QUESTION
    assert passed_on([lost(ASK), lost(ESCALATE)], ended) is Handover.ESCALATION
    assert passed_on([lost(PARTIAL)], ended) is None


def test_a_limit_that_escalates_is_passed_on():
    limit = RunDecision(Action.ESCALATE, Signal.STEP_LIMIT, 20, 20, "", 20)
    assert passed_on([], limit) is Handover.ESCALATION
