"""The one driver: events in, verdicts out."""

from dataclasses import replace

import pytest
from recloser.core.policy import CircuitPolicy, RunPolicy
from recloser.core.replay import (
    Ask,
    Call,
    ClockStep,
    Compaction,
    Fleet,
    Operate,
    PolicyEdit,
    ProbeEnd,
    ProbeStart,
    Replay,
    Runs,
    fixed,
    opened,
)
from recloser.core.run import RunState, ToolRules
from recloser.core.types import Cause, Delivery, Mode, Outcome, State, Verdict

FAIL = Outcome.RETRYABLE_ERROR
POLICY = CircuitPolicy(jitter=0.0)


def fleet(policy: CircuitPolicy = POLICY) -> Fleet:
    return Fleet(fixed({}, policy), lambda tool: ("api",))


def fail(at: float, worker: str, **more: object) -> Call:
    return Call(at, "search", FAIL, worker=worker, run=worker, **more)


def outage(driver: Fleet | Replay, start: float = 0.0, calls: int = 5) -> list:
    return [driver.feed(fail(start + number, f"w{number % 2}")) for number in range(calls)]


def test_a_suspicion_opens_when_it_has_settled_and_not_before():
    driver = fleet()
    said = outage(driver)
    assert all(not opened(one.changes) for one in said)
    assert driver.circuit("api").suspected_at == 4.0
    (change,) = driver.advance(4.6)
    assert (change.at, change.after.state, change.breach.signal) == (4.5, State.OPEN, "consecutive_failures")


def test_a_success_in_time_clears_the_suspicion():
    driver = fleet()
    outage(driver)
    driver.feed(Call(4.2, "search", Outcome.OK, worker="w3"))
    assert driver.advance(10.0) == []
    assert driver.circuit("api").suspected_at is None


def test_calls_admitted_before_a_transition_do_not_move_the_newer_state():
    driver = fleet(replace(POLICY, settle_s=0.0))
    outage(driver)
    driver.feed(Operate(5.0, "api", "force_close", "ada"))
    for number in range(9):
        driver.feed(fail(6.0 + number, f"w{number % 2}", started=1.0))
    assert driver.circuit("api").state is State.CLOSED
    outage(driver, 20.0)
    assert driver.circuit("api").state is State.OPEN


def test_a_late_explicit_wait_lengthens_an_open_circuits_deadline():
    driver = fleet(replace(POLICY, settle_s=0.0))
    outage(driver)
    driver.feed(fail(6.0, "w9", started=1.0, retry_after_s=100))
    assert driver.circuit("api").due_at == 106.0


def test_probes_close_what_they_find_well():
    driver = fleet(replace(POLICY, settle_s=0.0))
    outage(driver)
    assert driver.feed(ProbeStart(20.0, "api", "p0")).granted is False
    assert driver.feed(ProbeStart(34.0, "api", "p1")).granted is True
    (change,) = driver.feed(ProbeEnd(35.0, "api", "p1", Verdict.GOOD)).changes
    assert change.after.cause is Cause.PROBE_PASSED
    assert driver.feed(Ask(36.0, "search")).admitted is True


def test_an_operator_holds_and_releases():
    driver = fleet()
    driver.feed(Operate(0.0, "api", "force_open", "ada"))
    assert driver.feed(Ask(1.0, "search")).admitted is False
    driver.feed(Operate(2.0, "api", "release", "ada"))
    assert driver.circuit("api").mode is Mode.AUTO
    driver.feed(Operate(3.0, "api", "force_closed", "ada", until=9.0))
    assert driver.feed(Ask(4.0, "search")).admitted is True
    (change,) = driver.advance(10.0)
    assert change.after.cause is Cause.OVERRIDE_EXPIRED
    with pytest.raises(ValueError, match="no such verb"):
        driver.feed(Operate(11.0, "api", "smash"))


def test_an_edited_policy_keeps_state_and_samples_and_off_acts_at_once():
    driver = fleet(replace(POLICY, settle_s=0.0))
    outage(driver, calls=4)
    driver.feed(PolicyEdit(4.0, "api", replace(POLICY, settle_s=0.0, window_s=120.0)))
    driver.feed(fail(4.5, "w0"))
    assert driver.circuit("api").state is State.OPEN
    driver.feed(PolicyEdit(5.0, "api", replace(driver.policy("api"), delivery=Delivery.OFF)))
    assert driver.feed(Ask(5.0, "search")).admitted is True


def test_observe_reports_would_have_tripped():
    driver = fleet(replace(POLICY, delivery=Delivery.OBSERVE))
    said = outage(driver)
    (noted,) = said[-1].changes
    assert noted.after.would_be == "consecutive_failures"
    assert noted.breach is not None
    driver.feed(Call(6.0, "search", Outcome.OK, worker="w3"))
    assert driver.circuit("api").would_be is None


def test_a_clock_step_neither_freezes_nor_frees():
    driver = fleet(replace(POLICY, settle_s=0.0))
    outage(driver)
    driver.feed(ClockStep(5.0, -7200.0))
    assert driver.wall(5.0) == -7195.0
    assert driver.feed(ProbeStart(20.0, "api", "p0")).granted is False
    assert driver.feed(ProbeStart(34.0, "api", "p1")).granted is True


def test_slow_calls_are_derived_from_their_duration():
    policy = replace(POLICY, settle_s=0.0, min_calls=4, slow_call_rate_delivery=Delivery.ENFORCE)
    driver = fleet(policy)
    for number in range(4):
        driver.feed(Call(float(number), "search", Outcome.OK, worker=f"w{number % 2}", duration_s=9.0))
    assert driver.circuit("api").cause is Cause.SLOW_CALL_RATE


def test_only_the_dependency_at_fault_is_counted_where_somebody_knows():
    driver = Fleet(fixed({}, replace(POLICY, settle_s=0.0)), lambda tool: ("api", "proxy"))
    for number in range(5):
        driver.feed(fail(float(number), f"w{number % 2}", at_fault=("proxy",)))
    assert driver.circuit("proxy").state is State.OPEN
    assert driver.circuit("api").state is State.CLOSED
    assert driver.feed(Ask(5.0, "search")).admitted is False
    assert set(driver.dependencies) == {"api", "proxy"}


def test_fleet_and_run_decide_together():
    rules = {"search": ToolRules(RunPolicy(consecutive_failures=2), ("api",))}
    runs = Runs(lambda name, at: RunState(rules, RunPolicy(), started_at=at))
    both = Replay(fleet=fleet(), runs=runs)
    assert both.feed(Ask(0.0, "search", run="w0")).admitted is True
    said = both.play([fail(2.0, "w0"), fail(1.0, "w0")])
    assert said[1].decisions[0].tools == ("search",)
    assert both.feed(Compaction(3.0, "w0")).admitted is None
    answer = both.feed(Ask(3.0, "search", run="w0"))
    assert (answer.admitted, answer.decisions[0].signal) == (False, "consecutive_failures")
    assert both.feed(Ask(3.0, "search", run="w1")).admitted is True
    assert both.feed(ProbeStart(3.0, "api", "p")).granted is False
    assert Replay().feed(Compaction(1.0, "w0")).changes == ()
