"""The run breaker, signal by signal."""

from dataclasses import replace

import pytest
from recloser.core.budget import Baseline, Reservation, Spend
from recloser.core.policy import RunPolicy, resolve_run
from recloser.core.run import RunState, ToolRules
from recloser.core.types import Action, Delivery, Outcome, Scope, SideEffectClass, Signal

OK, FAIL, SEMANTIC = Outcome.OK, Outcome.RETRYABLE_ERROR, Outcome.SEMANTIC_ERROR
FULL = replace(resolve_run([], side_effect_class=SideEffectClass.READ_ONLY).policy, identical_calls=5)
READ_ONLY = replace(FULL, no_progress_steps=None)


def run(policy: RunPolicy = READ_ONLY, *, step_limit: int | None = None, **tools: ToolRules) -> RunState:
    rules = tools or {"search": ToolRules(policy, ("api",)), "lookup": ToolRules(policy, ("db",))}
    return RunState(rules, policy, started_at=0.0, step_limit=step_limit)


def record(state: RunState, outcome: Outcome, times: int = 1, tool: str = "search", **more: object):
    """Several calls, each a step of its own; what the last one tripped."""
    found = ()
    for _ in range(times):
        found = state.record(tool, outcome, **{"step": None, "now": 0.0, **more})
    return found


def refused(state: RunState, tool: str = "search", call: str | None = None, step: int | None = None, **more: object):
    return state.admit(tool, call, step, 0.0, **more)


# -- consecutive failures


def test_five_failing_steps_withdraw_the_tool_for_the_rest_of_the_run():
    state = run()
    assert record(state, FAIL, 4) == ()
    (trip,) = record(state, FAIL)
    assert (trip.action, trip.signal, trip.tools) == (Action.REMOVE_TOOL, Signal.CONSECUTIVE_FAILURES, ("search",))
    assert (trip.evidence, trip.threshold, trip.scope) == (5, 5, Scope.RUN)
    assert refused(state) is trip
    assert refused(state, "lookup") is None
    assert state.withdrawn == {"search": trip}
    assert (state.refused, state.is_withdrawn("lookup")) == ({"search": 1}, False)


def test_a_success_resets_the_count():
    state = run()
    record(state, FAIL, 4)
    record(state, OK)
    assert record(state, FAIL, 4) == ()
    assert state.streak("search") == 4


def test_an_empty_answer_is_a_success():
    state = run()
    record(state, FAIL, 4)
    record(state, Outcome.EMPTY)
    assert state.streak("search") == 0


@pytest.mark.parametrize("outcome", [SEMANTIC, Outcome.CANCELLED, Outcome.REJECTED, Outcome.UNKNOWN_TOOL])
def test_what_says_nothing_of_health_neither_extends_nor_ends_a_streak(outcome):
    state = run()
    record(state, FAIL, 4)
    record(state, outcome)
    assert state.streak("search") == 4


@pytest.mark.case("B23")
def test_one_call_with_five_inner_attempts_is_one_failure():
    """B23, in words: a run's breaker sees calls; how often the transport tried is another figure."""
    state = run()
    assert record(state, FAIL, 4) == ()
    assert state.streak("search") == 4
    assert record(state, FAIL)


def test_eight_parallel_failures_of_one_step_are_one_observation():
    state = run()
    record(state, FAIL, 8, step=1)
    assert state.streak("search") == 1


@pytest.mark.case("A08")
def test_the_failure_that_completes_the_streak_stops_later_calls_of_its_own_step():
    """A08, in words: the healthy calls of the step go on."""
    state = run()
    record(state, FAIL, 4)
    record(state, FAIL, step=5)
    assert refused(state, step=5)
    assert refused(state, "lookup", step=5) is None


def test_a_success_that_ends_later_in_the_step_resets_the_count_and_readmits_nothing():
    state = run()
    record(state, FAIL, 4)
    record(state, FAIL, step=5)
    record(state, OK, step=5)
    assert state.streak("search") == 0
    assert refused(state)


def test_late_failures_of_a_withdrawn_tool_trip_nothing_again():
    state = run()
    record(state, FAIL, 5)
    assert record(state, FAIL, 20) == ()


def test_a_short_run_withdraws_after_three():
    assert record(run(step_limit=10), FAIL, 3)
    assert not record(run(step_limit=11), FAIL, 3)
    strict = replace(READ_ONLY, consecutive_failures=2)
    assert record(run(strict, step_limit=5), FAIL, 2)
    assert not record(run(replace(READ_ONLY, short_run_steps=None), step_limit=5), FAIL, 3)
    assert not record(run(replace(READ_ONLY, short_run_consecutive_failures=None), step_limit=5), FAIL, 3)


def test_a_declared_step_limit_may_be_shorter_than_the_policys_and_never_longer():
    assert run(replace(READ_ONLY, step_limit=20), step_limit=8).budget.limits.steps == 8
    assert run(replace(READ_ONLY, step_limit=8), step_limit=20).budget.limits.steps == 8


def test_a_dependencys_streak_withdraws_every_tool_behind_it():
    """The model varies the tool and the words; the dependency is the same."""
    rules = ToolRules(READ_ONLY, ("api",))
    state = run(news=rules, web=rules, images=rules, lookup=ToolRules(READ_ONLY, ("db",)))
    for tool in ("news", "web", "images", "news"):
        assert record(state, FAIL, tool=tool) == ()
    (trip,) = record(state, FAIL, tool="web")
    assert (trip.dependency, trip.tools) == ("api", ("news", "web", "images"))
    assert refused(state, "lookup") is None


def test_a_success_of_a_sister_tool_ends_the_dependencys_streak():
    rules = ToolRules(READ_ONLY, ("api",))
    state = run(news=rules, web=rules)
    record(state, FAIL, 4, tool="news")
    record(state, OK, tool="web")
    record(state, FAIL, tool="web")
    assert not state.withdrawn


def test_only_the_dependency_at_fault_is_blamed_where_somebody_knows():
    state = run(fetch=ToolRules(READ_ONLY, ("api", "proxy")), index=ToolRules(READ_ONLY, ("api",)))
    record(state, FAIL, 4, tool="fetch", at_fault=("proxy",))
    record(state, FAIL, 1, tool="fetch", at_fault=("proxy",))
    assert list(state.withdrawn) == ["fetch"]
    record(state, FAIL, 1, tool="index", at_fault=("elsewhere",))
    assert not state.is_withdrawn("index")


@pytest.mark.case("G01")
def test_never_open_exempts_from_failures_and_from_nothing_else():
    policy = replace(READ_ONLY, never_open=True)
    state = run(search=ToolRules(policy, ("api",)), sister=ToolRules(READ_ONLY, ("api",)))
    record(state, FAIL, 5)
    assert list(state.withdrawn) == ["sister"]
    record(state, SEMANTIC, 9)
    assert refused(state) is None
    (trip,) = record(state, OK, 5, fingerprint="same", result="r")
    assert trip.signal is Signal.IDENTICAL_CALLS


def test_a_signal_switched_off_counts_for_nothing():
    off = replace(READ_ONLY, consecutive_failures=None, dependency_consecutive_failures=None, semantic_failures=None)
    state = run(replace(off, semantic_remove_after=None, identical_calls=None, oscillation_cycles=None))
    assert record(state, FAIL, 50) == ()
    assert record(state, SEMANTIC, 50, fingerprint="same", result="r") == ()


@pytest.mark.parametrize(
    ("action", "goes_on"),
    [(Action.ADVISE, True), (Action.ESCALATE, False), (Action.END_RUN, False), (Action.REMOVE_TOOL, False)],
)
def test_the_action_is_the_policys(action, goes_on):
    state = run(replace(READ_ONLY, consecutive_failures_action=action))
    (trip,) = record(state, FAIL, 5)
    assert trip.action is action
    assert (refused(state) is None) is goes_on
    assert (state.ended is not None) == (action is Action.END_RUN)
    assert len(record(state, FAIL, 3)) == 0  # told once per streak


def test_advice_is_given_again_in_a_new_streak():
    state = run(replace(READ_ONLY, consecutive_failures_action=Action.ADVISE))
    record(state, FAIL, 5)
    record(state, OK)
    assert record(state, FAIL, 5)


def test_a_run_that_was_ended_executes_the_healthy_calls_of_that_step_and_no_later_one():
    state = run(replace(READ_ONLY, consecutive_failures_action=Action.END_RUN))
    record(state, FAIL, 4)
    record(state, FAIL, step=7)
    assert refused(state, "lookup", step=7) is None
    assert refused(state, "lookup", step=8) is state.ended
    assert refused(state, "lookup") is state.ended
    assert state.reserve(None, 1.0) is state.ended


# -- run failure rate


def test_the_windowed_rule_of_a_run_is_off_unless_asked_for():
    policy = replace(READ_ONLY, run_failure_rate=0.6, run_failure_min_calls=10)
    state = run(policy)
    for outcome in (FAIL, FAIL, FAIL, OK, FAIL, FAIL, FAIL, FAIL, OK):
        assert record(state, outcome) == ()
    (trip,) = record(state, FAIL)
    assert (trip.signal, trip.evidence) == (Signal.RUN_FAILURE_RATE, 0.8)
    plain = run()
    for outcome in (FAIL, FAIL, OK) * 20:
        assert record(plain, outcome) == ()


# -- semantic failures


def test_three_rejected_calls_bring_advice_and_six_remove_the_tool():
    state = run()
    assert record(state, SEMANTIC, 2) == ()
    (advice,) = record(state, SEMANTIC)
    assert (advice.action, advice.signal, advice.tools) == (Action.ADVISE, Signal.SEMANTIC_FAILURES, ())
    assert refused(state) is None
    assert record(state, SEMANTIC, 2) == ()
    (removal,) = record(state, SEMANTIC)
    assert (removal.action, removal.evidence) == (Action.REMOVE_TOOL, 6)
    assert refused(state)


def test_a_success_forgives_rejected_calls():
    state = run()
    record(state, SEMANTIC, 3)
    record(state, OK)
    assert record(state, SEMANTIC, 2) == ()
    assert record(state, SEMANTIC)[0].evidence == 3


def test_parallel_rejected_calls_of_one_step_are_one_observation():
    assert record(run(), SEMANTIC, 8, step=1) == ()


# -- identical calls


def test_the_cap_th_unchanged_result_trips_and_the_next_identical_call_is_blocked():
    state = run()
    assert record(state, OK, 4, fingerprint="f", result="r") == ()
    assert refused(state, call="f") is None
    (trip,) = record(state, OK, fingerprint="f", result="r")
    assert (trip.action, trip.signal, trip.tools) == (Action.BLOCK_CALL, Signal.IDENTICAL_CALLS, ())
    block = refused(state, call="f", step=9)
    assert (block.action, block.step) == (Action.BLOCK_CALL, 9)
    assert refused(state, call="other") is None
    assert not state.withdrawn


def test_a_changed_result_is_progress():
    state = run()
    for number in range(30):
        assert record(state, OK, fingerprint="poll", result=number) == ()


def test_a_failure_repeated_unchanged_is_also_a_repetition():
    patient = replace(READ_ONLY, semantic_failures=None, semantic_remove_after=None)
    (trip,) = record(run(patient), SEMANTIC, 5, fingerprint="f")
    assert trip.signal is Signal.IDENTICAL_CALLS


def test_calls_or_results_that_cannot_be_compared_are_never_identical():
    state = run()
    assert record(state, OK, 20, fingerprint=None, result="r") == ()
    assert record(state, OK, 20, fingerprint="f", result=None) == ()


def test_an_exempt_tool_may_repeat_itself():
    assert record(run(replace(READ_ONLY, identical_calls_exempt=True)), OK, 20, fingerprint="f", result="r") == ()


def test_the_tool_itself_is_removed_only_where_the_policy_says_so():
    state = run(replace(READ_ONLY, identical_calls_action=Action.REMOVE_TOOL))
    record(state, OK, 5, fingerprint="f", result="r")
    assert state.is_withdrawn("search")


def test_advice_on_a_repetition_is_given_once_and_blocks_nothing():
    state = run(replace(READ_ONLY, identical_calls_action=Action.ADVISE))
    assert record(state, OK, 5, fingerprint="f", result="r")
    assert record(state, OK, 5, fingerprint="f", result="r") == ()
    assert refused(state, call="f") is None


# -- side effects


def confirmed(name: SideEffectClass = SideEffectClass.SIDE_EFFECT, **edit: object) -> RunState:
    return run(replace(resolve_run([], side_effect_class=name).policy, **edit))


@pytest.mark.parametrize("name", [SideEffectClass.SIDE_EFFECT, SideEffectClass.DESTRUCTIVE])
def test_a_repeated_call_of_a_confirmed_side_effect_is_blocked_at_once_whatever_the_result(name):
    state = confirmed(name)
    assert refused(state, call="send") is None
    assert refused(state, call="send", step=4).step == 4  # in flight is as good as done
    record(state, SEMANTIC, fingerprint="send")
    assert refused(state, call="send").signal is Signal.IDENTICAL_CALLS
    assert refused(state, call="another") is None


def test_an_idempotency_key_makes_a_repetition_harmless():
    state = confirmed()
    refused(state, call="send")
    assert refused(state, call="send", keyed=True) is None


def test_a_call_that_was_refused_further_down_did_not_happen():
    state = confirmed()
    refused(state, call="send")
    record(state, Outcome.REJECTED, fingerprint="send")
    assert refused(state, call="send") is None
    record(state, Outcome.CANCELLED, fingerprint="send")
    assert refused(state, call="send")


def test_an_unknown_class_falls_under_identical_calls_with_an_unchanged_result():
    state = confirmed(SideEffectClass.UNKNOWN)
    record(state, OK, 2, fingerprint="f", result="r")
    assert refused(state, call="f") is None
    record(state, OK, fingerprint="f", result="r")
    assert refused(state, call="f")


@pytest.mark.parametrize(("name", "again"), [(SideEffectClass.UNKNOWN, False), (SideEffectClass.READ_ONLY, True)])
def test_an_ambiguous_call_is_never_retried_without_a_key(name, again):
    state = confirmed(name)
    record(state, Outcome.TIMEOUT, fingerprint="pay")
    assert (refused(state, call="pay") is None) is again
    assert refused(state, call="pay", keyed=True) is None
    if not again:
        assert refused(state, call="pay").ambiguous


def test_watching_blocks_no_repetition():
    state = confirmed(delivery=Delivery.OBSERVE)
    refused(state, call="send")
    record(state, Outcome.TIMEOUT, fingerprint="send")
    assert refused(state, call="send") is None


# -- oscillation


def circle(state: RunState, *tools: str, rounds: int, changing: bool = False):
    found = []
    for number in range(rounds):
        for tool in tools:
            result = f"{tool}{number if changing else ''}"
            found += state.record(tool, OK, step=None, now=0.0, fingerprint=tool, result=result)
    return found


def test_two_unchanged_rounds_of_two_tools_withdraw_the_whole_circle():
    state = run()
    assert circle(state, "search", "lookup", rounds=1) == []
    (trip,) = circle(state, "search", "lookup", rounds=1)
    assert (trip.signal, trip.tools) == (Signal.OSCILLATION, ("search", "lookup"))


def test_a_circle_of_three_is_a_circle():
    rules = ToolRules(READ_ONLY)
    (trip,) = circle(run(a=rules, b=rules, c=rules), "a", "b", "c", rounds=2)
    assert trip.tools == ("a", "b", "c")


def test_the_longest_circle_that_is_seen_has_eight_calls():
    rules = {name: ToolRules(replace(READ_ONLY, identical_calls=None)) for name in "abcdefghi"}
    assert circle(run(**rules), *"abcdefgh", rounds=2)[0].tools == tuple("abcdefgh")
    assert circle(run(**rules), *"abcdefghi", rounds=4) == []


def test_a_policy_may_wait_for_more_rounds():
    state = run(replace(READ_ONLY, oscillation_cycles=3, identical_calls=None))
    assert circle(state, "search", "lookup", rounds=2) == []
    assert circle(state, "search", "lookup", rounds=1)


def test_edit_and_test_with_changing_results_is_no_loop():
    assert circle(run(), "search", "lookup", rounds=9, changing=True) == []


def test_one_call_repeated_is_not_a_circle():
    patient = replace(READ_ONLY, identical_calls=None)
    assert circle(run(patient), "search", rounds=30) == []


def test_what_cannot_be_compared_breaks_a_circle():
    state = run()
    circle(state, "search", "lookup", rounds=1)
    record(state, OK, fingerprint=None)
    assert circle(state, "search", "lookup", rounds=1) == []
    assert circle(state, "search", "lookup", rounds=1)


def test_oscillation_may_be_off():
    assert circle(run(replace(READ_ONLY, oscillation_delivery=Delivery.OFF)), "search", "lookup", rounds=4) == []


# -- no progress

STALL = replace(FULL, no_progress_delivery=Delivery.ENFORCE, no_progress_action=Action.REMOVE_TOOL)


def test_six_empty_answers_to_six_questions_are_no_progress():
    state = run(STALL)
    for number in range(5):
        assert record(state, Outcome.EMPTY, fingerprint=f"f{number}", result="[]") == ()
    (trip,) = record(state, Outcome.EMPTY, fingerprint="f5", result="[]")
    assert (trip.signal, trip.tools) == (Signal.NO_PROGRESS, ("search",))
    assert state.streak("search") == 0


def test_no_progress_is_watched_only_at_first():
    state = run(FULL)
    found = [record(state, Outcome.EMPTY, fingerprint=f"f{number}") for number in range(9)]
    assert [len(trips) for trips in found] == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert not found[5][0].enforced
    assert not state.withdrawn


def test_new_content_is_progress_and_known_content_is_none():
    state = run(STALL)
    record(state, OK, result="a")
    record(state, OK, 5, result="a")
    assert not state.withdrawn
    record(state, OK, result="b")
    assert record(state, OK, 5, result="a") == ()
    assert record(state, OK, 1, result="b")


def test_a_step_that_moved_at_all_is_a_step_that_moved():
    state = run(STALL)
    for step in range(20):
        record(state, Outcome.EMPTY, step=step)
        record(state, OK, step=step, result=f"new{step}")
        record(state, Outcome.EMPTY, step=step)
    assert not state.withdrawn


def test_the_agents_own_word_on_progress_counts():
    state = run(STALL)
    assert record(state, OK, 5, result=None, progress=False) == ()
    record(state, OK, progress=True)
    assert record(state, OK, 6, progress=False)


def test_a_supplied_state_is_the_only_measure_from_then_on():
    state = run(STALL)
    assert state.state("s0", tool="search", step=0) == ()
    record(state, Outcome.EMPTY, 20)
    for step in range(1, 6):
        assert state.state("s0", tool="search", step=step) == ()
    (trip,) = state.state("s0", tool="search", step=6)
    assert trip.signal is Signal.NO_PROGRESS
    assert run(replace(STALL, no_progress_steps=None)).state("s0", tool="search", step=0) == ()


def test_the_tool_called_last_answers_for_a_state_that_stands_still():
    state = run(STALL)
    state.state("s0", step=0)
    record(state, OK, tool="lookup", fingerprint="f", result="r")
    found = [state.state("s0", step=step) for step in range(1, 7)]
    assert [trip.tools for trips in found for trip in trips] == [("lookup",)]


def test_a_state_that_stands_still_before_any_call_takes_no_tool_and_may_end_the_run():
    state = run(STALL)
    assert [state.state("s0", step=step) for step in range(9)] == [()] * 9
    ending = run(replace(STALL, no_progress_action=Action.END_RUN))
    for step in range(7):
        ending.state("s0", step=step)
    assert (ending.ended.signal, dict(ending.withdrawn)) == (Signal.NO_PROGRESS, {})


# -- unknown tools


def test_naming_tools_that_are_not_there_brings_advice_once():
    state = run()
    found = [record(state, Outcome.UNKNOWN_TOOL, tool=f"made_up_{number}") for number in range(5)]
    assert [len(trips) for trips in found] == [0, 0, 1, 0, 0]
    assert found[2][0].signal is Signal.UNKNOWN_TOOL


# -- context, other scopes, delivery


def test_compaction_forgets_repetitions_and_circles_and_keeps_failures():
    state = run()
    record(state, FAIL, 4)
    record(state, OK, 4, tool="lookup", fingerprint="f", result="r")
    circle(state, "x", "y", rounds=1)
    state.compaction()
    assert record(state, OK, tool="lookup", fingerprint="f", result="r") == ()
    assert circle(state, "x", "y", rounds=1) == []
    assert record(state, FAIL)


def test_compaction_lifts_a_block_and_renews_advice():
    state = run(replace(READ_ONLY, identical_calls_action=Action.ADVISE))
    record(state, OK, 5, fingerprint="f", result="r")
    state.compaction()
    assert record(state, OK, 5, fingerprint="f", result="r")


def test_compaction_does_not_forget_what_a_side_effect_has_done():
    state = confirmed()
    refused(state, call="send")
    state.compaction()
    assert refused(state, call="send")


def test_what_another_scope_took_stays_gone():
    state = run()
    lost = state.withdraw(["search"], signal=Signal.FAILURE_RATE, scope=Scope.FLEET, step=4, dependency="api")
    assert refused(state) is lost
    record(state, FAIL, 9)
    assert state.withdrawn["search"].scope is Scope.FLEET
    state.withdraw(["never_declared"], signal=None, scope=Scope.WORKER, step=None)
    assert refused(state, "never_declared").signal is None


def test_readmission_is_off_by_default_and_once_at_most():
    policy = replace(READ_ONLY, readmit=True, readmit_after_s=60.0)
    state = run(policy)
    state.withdraw(["search"], signal=None, scope=Scope.FLEET, step=1)
    assert not state.readmit("search", now=59.0, since=0.0)
    assert state.readmit("search", now=60.0, since=0.0)
    assert refused(state) is None
    state.withdraw(["search"], signal=None, scope=Scope.FLEET, step=1)
    assert not state.readmit("search", now=999.0, since=0.0)
    plain = run()
    plain.withdraw(["search"], signal=None, scope=Scope.FLEET, step=1)
    assert not plain.readmit("search", now=999.0, since=0.0)
    assert not plain.readmit("lookup", now=999.0, since=0.0)
    assert not plain.readmit("nothing", now=999.0, since=0.0)


def test_what_the_run_itself_tripped_is_never_readmitted():
    state = run(replace(READ_ONLY, readmit=True))
    record(state, FAIL, 5)
    assert not state.readmit("search", now=9999.0, since=0.0)


def test_observe_reports_what_would_have_tripped_and_enforces_nothing():
    state = run(replace(READ_ONLY, delivery=Delivery.OBSERVE))
    (trip,) = record(state, FAIL, 5)
    assert not trip.enforced
    assert record(state, FAIL, 9) == ()
    assert refused(state) is None
    (same,) = record(state, OK, 5, fingerprint="f", result="r")
    assert not same.enforced
    assert record(state, OK, 5, fingerprint="f", result="r") == ()
    assert refused(state, call="f") is None


def test_off_computes_nothing():
    state = run(replace(READ_ONLY, delivery=Delivery.OFF))
    assert record(state, FAIL, 50, fingerprint="f", result="r") == ()
    assert refused(state, call="f") is None


def test_a_tool_that_nobody_declared_gets_the_default_rules():
    state = RunState({}, READ_ONLY, started_at=0.0, default=ToolRules(replace(READ_ONLY, consecutive_failures=1)))
    assert record(state, FAIL, tool="surprise")
    assert state.streak("nothing") == 0


def test_a_second_declaration_keeps_the_counters():
    state = run()
    record(state, FAIL, 4)
    state.declare("search", ToolRules(READ_ONLY))
    assert state.streak("search") == 4


def test_memory_stays_bounded_in_a_long_run():
    state = run(replace(READ_ONLY, never_open=True, consecutive_failures_action=Action.ADVISE))
    guarded = confirmed(consecutive_failures=None, dependency_consecutive_failures=None)
    for number in range(10_000):
        record(state, FAIL, fingerprint=f"f{number}", result=number)
        record(state, Outcome.UNKNOWN_TOOL)
        refused(guarded, call=f"f{number}")
        record(guarded, OK, fingerprint=f"f{number}", result=f"r{number}")
    entry = state._tools["search"]
    assert len(entry.failing.steps) <= 1024
    assert len(entry.repeats._seen) <= 2048
    assert 8 * 1024 <= len(guarded._tools["search"].admitted) <= 16 * 1024
    assert len(guarded._standstill._results) <= 2048


# -- budgets


def test_a_budget_is_reserved_at_admission_and_not_booked_at_the_end():
    """A10, in words: 100 units, calls of 40; two have ended, three more are asked for at the same moment."""
    state = run(replace(READ_ONLY, token_budget=100))
    for _ in range(2):
        leave = state.reserve(Spend(tokens=40), 0.0)
        state.settle(Spend(tokens=40), leave)
    answers = [state.reserve(Spend(tokens=40), 1.0) for _ in range(3)]
    admitted = [answer for answer in answers if isinstance(answer, Reservation)]
    assert len(admitted) <= 1
    assert {answer.signal for answer in answers if answer not in admitted} == {Signal.TOKEN_BUDGET}
    assert state.budget.tokens <= 120


def test_parallel_reservations_never_pass_the_budget():
    state = run(replace(READ_ONLY, token_budget=100))
    answers = [state.reserve(Spend(tokens=40), 0.0) for _ in range(3)]
    assert [isinstance(answer, Reservation) for answer in answers] == [True, True, False]
    state.settle(Spend(tokens=30), answers[1])
    state.settle(Spend(tokens=10))
    assert state.budget.tokens == 40


def test_without_an_estimate_the_largest_bill_so_far_is_set_aside():
    state = run(replace(READ_ONLY, cost_budget=1.0))
    state.reserve(None, 0.0)
    state.settle(Spend(cost=0.6))
    refusal = state.reserve(None, 0.0)
    assert (refusal.signal, refusal.action, refusal.threshold) == (Signal.COST_BUDGET, Action.END_RUN, 1.0)


def test_a_step_limit_admits_that_many_steps():
    state = run(step_limit=2)
    assert [isinstance(state.reserve(None, 0.0), Reservation) for _ in range(3)] == [True, True, False]
    assert state.ended.signal is Signal.STEP_LIMIT
    assert refused(state, step=2) is None
    assert refused(state, step=3) is state.ended


def test_a_run_ends_when_its_time_is_over():
    state = run(replace(READ_ONLY, wall_clock_s=60.0))
    assert isinstance(state.reserve(None, 60.0), Reservation)
    assert state.reserve(None, 60.1).signal is Signal.WALL_CLOCK


def test_settling_more_than_was_reserved_is_booked_in_full():
    state = run(replace(READ_ONLY, token_budget=100))
    state.settle(Spend(tokens=7))
    assert state.budget.tokens == 7


def test_a_watched_limit_is_noted_once_and_stops_nothing():
    state = run(replace(READ_ONLY, delivery=Delivery.OBSERVE), step_limit=1)
    assert all(isinstance(state.reserve(None, 0.0), Reservation) for _ in range(4))
    assert [note.signal for note in state.noted] == [Signal.STEP_LIMIT]
    assert state.budget.steps == 4
    silent = run(replace(READ_ONLY, delivery=Delivery.OFF), step_limit=1)
    for _ in range(3):
        silent.reserve(None, 0.0)
    assert silent.noted == []


def test_a_run_ends_by_a_signal_also_when_the_tool_that_brought_it_is_already_gone():
    policy = replace(
        FULL, no_progress_steps=2, no_progress_action=Action.END_RUN, no_progress_delivery=Delivery.ENFORCE
    )
    state = run(policy)
    state.withdraw(["search"], signal=Signal.FAILURE_RATE, scope=Scope.FLEET, step=1)
    for step in (1, 2):
        state.record("search", Outcome.EMPTY, step=step, now=float(step), fingerprint=str(step), result="[]")
    assert state.ended is not None
    assert state.ended.signal is Signal.NO_PROGRESS


# -- budget burn

HEALTHY = Baseline(runs=30, tokens_per_step=1000.0, cost_per_step=0.01)


def spending(*bills: Spend, baseline: Baseline | None = HEALTHY, **edit: object):
    """A run that pays these bills, one a step, and what the last of them tripped."""
    state, found = RunState({}, replace(READ_ONLY, **edit), started_at=0.0, baseline=baseline), ()
    for bill in bills:
        found = state.settle(bill, state.reserve(None, 0.0))
    return state, found


def test_a_run_that_spends_three_times_a_healthy_ones_share_a_step_trips_once():
    state, (trip,) = spending(Spend(1000), Spend(4000), Spend(4000))
    assert (trip.signal, trip.action, trip.evidence, trip.threshold) == (Signal.BUDGET_BURN, Action.ADVISE, 3.0, 3.0)
    assert (trip.tools, trip.step, state.ended) == ((), 3, None)
    assert state.settle(Spend(9000), state.reserve(None, 0.0)) == ()


def test_money_burns_as_tokens_do():
    assert spending(*[Spend(100, 0.03)] * 3)[1][0].evidence == pytest.approx(3.0)
    assert spending(*[Spend(100, 0.02)] * 3)[1] == ()


def test_one_long_prompt_is_no_pattern():
    assert spending(Spend(50_000), Spend(1000))[1] == ()
    assert spending(Spend(2000), Spend(2000), Spend(4999))[1] == ()


@pytest.mark.parametrize("baseline", [None, replace(HEALTHY, runs=29), Baseline(runs=30), Baseline(30, 0.0, 0.0)])
def test_without_thirty_healthy_runs_nothing_burns(baseline):
    assert spending(*[Spend(90_000, 9.0)] * 9, baseline=baseline)[1] == ()


@pytest.mark.parametrize("action", [Action.END_RUN, Action.ESCALATE])
def test_a_run_that_burns_its_budget_ends_where_the_policy_says_so(action):
    state, (trip,) = spending(*[Spend(5000)] * 3, budget_burn_action=action)
    assert state.ended is trip
    assert state.reserve(None, 0.0) is trip


def test_budget_burn_may_be_watched_or_off():
    state, (trip,) = spending(
        *[Spend(5000)] * 3, budget_burn_delivery=Delivery.OBSERVE, budget_burn_action=Action.END_RUN
    )
    assert (trip.enforced, state.ended) == (False, None)
    for off in ({"budget_burn": None}, {"budget_burn_delivery": Delivery.OFF}, {"delivery": Delivery.OFF}):
        assert spending(*[Spend(5000)] * 3, **off)[1] == ()


def test_a_newer_baseline_is_followed_and_an_absent_one_forgets_nothing():
    state, found = spending(*[Spend(2000)] * 3)
    state.follow(READ_ONLY, baseline=replace(HEALTHY, tokens_per_step=500.0))
    state.follow(READ_ONLY)
    (trip,) = state.settle(Spend(2000), state.reserve(None, 0.0))
    assert (found, trip.evidence) == ((), 4.0)


# -- each signal's own delivery


def five_failures(state: RunState):
    return record(state, FAIL, 5)


def five_repetitions(state: RunState):
    return record(state, OK, 5, fingerprint="same", result="r")


def six_rejections(state: RunState):
    return record(state, SEMANTIC, 6)


def three_inventions(state: RunState):
    return record(state, Outcome.UNKNOWN_TOOL, 3, tool="made_up")


WATCHABLE = [
    ("consecutive_failures_delivery", five_failures, {}),
    ("identical_calls_delivery", five_repetitions, {"identical_calls_action": Action.REMOVE_TOOL}),
    ("semantic_failures_delivery", six_rejections, {}),
    ("unknown_tool_delivery", three_inventions, {"unknown_tool_action": Action.END_RUN}),
    ("run_failure_rate_delivery", five_failures,
     {"run_failure_rate": 0.5, "run_failure_min_calls": 5, "consecutive_failures": None,
      "dependency_consecutive_failures": None}),
]  # fmt: skip


@pytest.mark.parametrize(("field", "provoke", "edit"), WATCHABLE, ids=lambda one: one if isinstance(one, str) else "")
def test_each_signal_can_be_watched_or_switched_off_by_itself(field, provoke, edit):
    enforced, watched, off = (
        run(replace(READ_ONLY, **{**edit, field: mode})) for mode in (Delivery.ENFORCE, Delivery.OBSERVE, Delivery.OFF)
    )
    assert provoke(enforced)[-1].enforced
    assert enforced.withdrawn or enforced.ended
    assert [trip.enforced for trip in provoke(watched)] == [False]
    assert not watched.withdrawn
    assert watched.ended is None
    assert provoke(off) == ()


def test_a_dependencys_streak_that_is_only_watched_takes_nothing():
    rules = ToolRules(replace(READ_ONLY, consecutive_failures_delivery=Delivery.OBSERVE), ("api",))
    state = run(news=rules, web=rules)
    for tool in ("news", "web", "news", "web"):
        record(state, FAIL, tool=tool)
    (trip,) = record(state, FAIL, tool="news")
    assert (trip.dependency, trip.enforced, dict(state.withdrawn)) == ("api", False, {})
