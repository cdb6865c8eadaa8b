"""The shared circuit, rule by rule: judgement, quorum, settling, probe rounds, overrides, clocks."""

from dataclasses import replace

import pytest
from recloser.core.circuit import (
    LEGAL,
    Circuit,
    EffectiveState,
    Evidence,
    IllegalTransition,
    OwnStreak,
    Round,
    WorkerEvidence,
    admitted_share,
    combined,
    effective,
    effective_of,
    expire_override,
    finish_round,
    force_close,
    force_closed,
    force_open,
    from_dict,
    grant_round,
    in_share,
    is_current,
    judge,
    lengthen,
    next_change_at,
    next_share_at,
    probe_now,
    release,
    shift,
    sweep,
    to_dict,
)
from recloser.core.policy import CircuitPolicy
from recloser.core.states import move
from recloser.core.types import Cause, Delivery, Mode, Outcome, Signal, State, Verdict
from recloser.core.window import Window

NOW = 1000.0
POLICY = CircuitPolicy(settle_s=0.0, jitter=0.0)
HANDS = {"actor": "ada", "reason": "drill"}


def worker(name: str, ok: int = 0, failures: int = 0, slow: int = 0, last_failed: bool | None = None) -> WorkerEvidence:
    failed_last = failures > 0 if last_failed is None else last_failed
    return WorkerEvidence(name, ok=ok, failures=failures, slow=slow, calls=ok + failures, last_failed=failed_last)


def evidence(*workers: WorkerEvidence, streak: int = 0, **more: object) -> Evidence:
    return Evidence(
        ok=sum(own.ok for own in workers),
        failures=sum(own.failures for own in workers),
        slow=sum(own.slow for own in workers),
        calls=sum(own.calls for own in workers),
        streak=streak,
        workers=workers,
        **more,
    )


SICK = evidence(worker("w1", 3, 10), worker("w2", 2, 10), streak=4)
"""25 calls, 20 of them failures, seen by two workers."""


def opened(policy: CircuitPolicy = POLICY, **more: object) -> Circuit:
    return judge(Circuit(), replace(SICK, **more), policy, NOW).circuit


def half_open(policy: CircuitPolicy = POLICY) -> Circuit:
    circuit = opened(policy)
    return grant_round(circuit, policy, circuit.due_at, "p1").circuit


# -- judgement


def test_a_failure_rate_at_its_threshold_with_two_witnesses_opens():
    after = judge(Circuit(), SICK, POLICY, NOW)
    assert after.opened
    assert (after.circuit.state, after.circuit.cause, after.circuit.generation) == (State.OPEN, Cause.FAILURE_RATE, 1)
    assert (after.circuit.opened_at, after.circuit.due_at, after.circuit.tripped_by) == (NOW, NOW + 30, "failure_rate")
    assert after.breach.witnesses == ("w1", "w2")
    assert (after.breach.value, after.breach.threshold, after.breach.calls) == (0.8, 0.5, 25)


def test_below_the_minimum_sample_a_rate_says_nothing():
    few = evidence(worker("w1", 0, 9), worker("w2", 1, 9))
    assert not judge(Circuit(), few, POLICY, NOW).opened


def test_semantic_answers_stand_in_no_denominator():
    assert Evidence(ok=1, empty=2, failures=3).judged == 6


def test_empty_answers_are_successes_for_the_rate():
    diluted = replace(SICK, empty=16)
    assert not judge(Circuit(), diluted, POLICY, NOW).opened


def test_five_failures_in_a_row_open_while_the_window_is_too_small_for_a_rate():
    few = evidence(worker("w1", 8, 3), worker("w2", 3, 2), streak=5)
    after = judge(Circuit(), few, POLICY, NOW)
    assert after.circuit.cause is Cause.CONSECUTIVE_FAILURES
    assert after.breach.witnesses == ("w1", "w2")


def test_with_enough_calls_for_a_rate_the_streak_is_silent():
    many = evidence(worker("w1", 30, 3), worker("w2", 30, 2), streak=5)
    assert not judge(Circuit(), many, POLICY, NOW).opened


@pytest.mark.parametrize("off", [{"failure_rate": None}, {"failure_rate_delivery": Delivery.OBSERVE}])
def test_where_no_rate_is_enforced_the_streak_always_speaks(off):
    many = evidence(worker("w1", 30, 3), worker("w2", 30, 2), streak=5)
    after = judge(Circuit(), many, replace(POLICY, **off), NOW)
    assert after.circuit.cause is Cause.CONSECUTIVE_FAILURES


def test_a_witness_of_a_streak_failed_last():
    recovered = evidence(worker("w1", 0, 4), worker("w2", 1, 1, last_failed=False), streak=5)
    assert not judge(Circuit(), recovered, POLICY, NOW).opened


def test_one_stray_failure_elsewhere_is_no_second_witness():
    one_sick = evidence(worker("w1", 0, 30), worker("w2", 4, 1), streak=9)
    assert not judge(Circuit(), one_sick, POLICY, NOW).opened


def test_one_call_of_its_own_makes_a_witness():
    two = evidence(worker("w1", 0, 30), worker("w2", 0, 1), streak=9)
    assert judge(Circuit(), two, POLICY, NOW).opened


def test_a_thin_sample_waits_for_three_failures_in_a_row():
    thin = evidence(worker("w1", 5, 5), worker("w2", 5, 5), streak=2)
    assert not judge(Circuit(), thin, POLICY, NOW).opened
    assert judge(Circuit(), replace(thin, streak=3), POLICY, NOW).opened
    assert judge(Circuit(), thin, replace(POLICY, thin_sample_streak=None), NOW).opened


def test_a_full_sample_needs_no_streak():
    full = evidence(worker("w1", 6, 7), worker("w2", 6, 6), streak=1)
    assert judge(Circuit(), full, POLICY, NOW).opened


SLOW = evidence(worker("w1", 10, slow=6), worker("w2", 10, slow=5))


def test_slow_calls_have_a_signal_of_their_own_watched_only_at_first():
    after = judge(Circuit(), SLOW, POLICY, NOW)
    assert (after.opened, after.would_have_tripped, after.circuit.would_be) == (False, True, Signal.SLOW_CALL_RATE)
    enforced = judge(Circuit(), SLOW, replace(POLICY, slow_call_rate_delivery=Delivery.ENFORCE), NOW)
    assert enforced.circuit.cause is Cause.SLOW_CALL_RATE


@pytest.mark.parametrize(
    "off",
    [
        {"slow_call_rate": None},
        {"slow_call_rate_delivery": Delivery.OFF},
        {"slow_call_rate": 0.9},
        {"min_calls": 21},
    ],
)
def test_a_slow_rate_that_is_off_or_not_reached_says_nothing(off):
    assert judge(Circuit(), SLOW, replace(POLICY, **off), NOW).breach is None


@pytest.mark.parametrize(
    "off",
    [
        {"failure_rate": None, "consecutive_failures": None},
        {"failure_rate_delivery": Delivery.OFF, "consecutive_failures_delivery": Delivery.OFF},
    ],
)
def test_signals_switched_off_never_open(off):
    assert judge(Circuit(), replace(SICK, streak=50), replace(POLICY, **off), NOW).breach is None


def test_zero_is_a_threshold_and_not_unset():
    strict = replace(POLICY, failure_rate=0.0, min_calls=0, min_workers=1)
    assert judge(Circuit(), evidence(worker("w1", 50, 14), streak=1), strict, NOW).opened
    assert not judge(Circuit(), evidence(worker("w1", 50, 0)), strict, NOW).opened


def test_a_success_never_opens_even_where_it_completes_the_sample():
    assert not judge(Circuit(), replace(SICK, completed_by_bad_sample=False), POLICY, NOW).opened
    watched = replace(SICK, completed_by_bad_sample=False)
    assert not judge(Circuit(), watched, replace(POLICY, delivery=Delivery.OBSERVE), NOW).would_have_tripped


def test_an_open_circuit_is_not_judged_by_evidence():
    circuit = opened()
    assert judge(circuit, SICK, POLICY, NOW + 1).circuit is circuit


def test_all_sessions_on_one_instance_count_as_workers():
    one_box = evidence(worker("box", 0, 24), streak=9, live_workers=1, live_sessions=2)
    assert not judge(Circuit(), one_box, POLICY, NOW).opened
    both = replace(one_box, sessions=(worker("s1", 0, 12), worker("s2", 0, 12)))
    assert judge(Circuit(), both, POLICY, NOW).breach.witnesses == ("s1", "s2")
    assert both.live_voices == 2


def test_a_worker_that_fails_alone_while_others_succeed_is_named():
    alone = evidence(worker("w1", 0, 6), worker("w2", 20, 0), worker("w3", 20, 1))
    after = judge(Circuit(), alone, POLICY, NOW)
    assert (after.opened, after.worker_fault) == (False, "w1")


@pytest.mark.parametrize(
    "workers",
    [
        [worker("w1", 0, 4), worker("w2", 20, 0)],  # too few to be sure
        [worker("w1", 0, 6)],  # nobody else succeeds
        [worker("w1", 0, 6), worker("w2", 0, 6)],  # not alone
        [worker("w1", 6, 7), worker("w2", 7, 6)],  # the other is hardly better
    ],
)
def test_no_worker_is_named_without_contrast(workers):
    assert judge(Circuit(), evidence(*workers), replace(POLICY, failure_rate=None), NOW).worker_fault is None


def test_a_fleet_of_one_is_told_that_its_quorum_is_out_of_reach():
    assert judge(Circuit(), evidence(worker("w1", 5, 1)), POLICY, NOW).quorum_out_of_reach
    assert not judge(Circuit(), replace(SICK, live_workers=2), POLICY, NOW).quorum_out_of_reach


# -- suspicion and settling

SETTLING = CircuitPolicy()


def test_a_first_breach_only_makes_a_suspect():
    after = judge(Circuit(), SICK, SETTLING, NOW)
    assert (after.opened, after.suspected, after.settles_at) == (False, True, NOW + 0.5)
    assert (after.circuit.state, after.circuit.suspected_signal) == (State.CLOSED, Signal.FAILURE_RATE)
    assert after.circuit.generation == 0


def test_a_suspect_is_announced_once():
    suspect = judge(Circuit(), SICK, SETTLING, NOW).circuit
    again = judge(suspect, SICK, SETTLING, NOW + 0.2)
    assert (again.suspected, again.opened, again.settles_at) == (False, False, NOW + 0.5)


def test_what_still_holds_after_settling_opens_whatever_sample_came_last():
    suspect = judge(Circuit(), SICK, SETTLING, NOW).circuit
    after = judge(suspect, replace(SICK, completed_by_bad_sample=False), SETTLING, NOW + 0.5)
    assert after.opened
    assert after.circuit.suspected_at is None


def test_successes_that_arrive_in_time_clear_the_suspicion():
    suspect = judge(Circuit(), SICK, SETTLING, NOW).circuit
    healthy = evidence(worker("w1", 90, 10), worker("w2", 90, 10))
    early = judge(suspect, healthy, SETTLING, NOW + 0.2)
    assert early.circuit.suspected_at == NOW
    assert judge(suspect, healthy, SETTLING, NOW + 0.5).circuit == Circuit()


# -- delivery


def test_observe_records_once_what_would_have_tripped_and_forgets_it_when_well():
    watching = replace(POLICY, delivery=Delivery.OBSERVE)
    first = judge(Circuit(), SICK, watching, NOW)
    assert (first.opened, first.would_have_tripped, first.circuit.would_be_at) == (False, True, NOW)
    assert not judge(first.circuit, SICK, watching, NOW + 1).would_have_tripped
    assert judge(first.circuit, Evidence(ok=3), watching, NOW + 2).circuit == Circuit()


def test_off_computes_nothing_and_drops_marks():
    off = replace(POLICY, delivery=Delivery.OFF)
    marked = replace(Circuit(), suspected_at=NOW, suspected_signal=Signal.FAILURE_RATE, would_be=Signal.FAILURE_RATE)
    after = judge(marked, SICK, off, NOW)
    assert (after.circuit, after.breach) == (Circuit(), None)


@pytest.mark.parametrize(
    ("mode", "expires", "delivery", "meets"),
    [
        (Mode.AUTO, None, Delivery.ENFORCE, EffectiveState.HALF_OPEN),
        (Mode.AUTO, None, Delivery.OBSERVE, EffectiveState.CLOSED),
        (Mode.AUTO, None, Delivery.OFF, EffectiveState.CLOSED),
        (Mode.FORCED_OPEN, NOW + 1, Delivery.ENFORCE, EffectiveState.OPEN),
        (Mode.FORCED_OPEN, NOW + 1, Delivery.OFF, EffectiveState.OPEN),
        (Mode.FORCED_CLOSED, NOW + 1, Delivery.ENFORCE, EffectiveState.CLOSED),
        (Mode.FORCED_CLOSED, None, Delivery.ENFORCE, EffectiveState.CLOSED),
        (Mode.FORCED_CLOSED, NOW, Delivery.ENFORCE, EffectiveState.HALF_OPEN),
    ],
)
def test_the_effective_state_is_one_function(mode, expires, delivery, meets):
    assert effective(State.HALF_OPEN, mode, expires, delivery, NOW) is meets


def test_only_an_effectively_closed_circuit_admits():
    assert [state.admits for state in EffectiveState] == [True, False, False]


# -- cooldown and probe rounds


def test_no_round_before_the_cooldown_is_over():
    circuit = opened()
    early = grant_round(circuit, POLICY, NOW + 29.9, "p1")
    assert (early.granted, early.reason, early.circuit) == (False, "not due yet", circuit)


def test_a_due_circuit_grants_one_round_and_no_second():
    first = grant_round(opened(), POLICY, NOW + 30, "p1")
    assert first.granted
    assert first.circuit.state is State.HALF_OPEN
    assert first.circuit.round == Round("p1", NOW + 30, NOW + 40)
    second = grant_round(first.circuit, POLICY, NOW + 31, "p2")
    assert (second.granted, second.reason) == (False, "another round is in flight")


def test_a_closed_circuit_grants_nothing():
    assert grant_round(Circuit(), POLICY, NOW, "p1").reason == "closed"


def test_a_good_round_closes_and_leaves_nothing_of_the_outage():
    after = finish_round(half_open(), "p1", Verdict.GOOD, POLICY, NOW + 31)
    assert after.applied
    closed = after.circuit
    assert (closed.state, closed.cause, closed.closed_at) == (State.CLOSED, Cause.PROBE_PASSED, NOW + 31)
    assert (closed.opened_at, closed.due_at, closed.round, closed.tripped_by) == (None, None, None, None)


def test_a_bad_round_reopens_and_doubles_the_wait_up_to_its_limit():
    circuit, waits = half_open(), []
    for number in range(1, 5):
        circuit = finish_round(circuit, f"p{number}", Verdict.BAD, POLICY, circuit.round.started_at + 1).circuit
        assert (circuit.state, circuit.cause) == (State.OPEN, Cause.PROBE_FAILED)
        waits.append(circuit.due_at - circuit.changed_at)
        circuit = grant_round(circuit, POLICY, circuit.due_at, f"p{number + 1}").circuit
    assert waits == [45, 45, 45, 45]
    assert circuit.failed_rounds == 4


def test_jitter_is_the_callers_draw_scaled_by_the_policy_and_never_beyond_the_limit():
    jittery = replace(POLICY, jitter=0.1, cooldown_max_s=240)
    earlier = finish_round(half_open(jittery), "p1", Verdict.BAD, jittery, NOW + 31, jitter=-1.0).circuit
    assert earlier.due_at == NOW + 31 + 54
    assert earlier.cooldown_s == 60
    tight = replace(jittery, cooldown_max_s=60)
    assert finish_round(half_open(tight), "p1", Verdict.BAD, tight, NOW + 31, jitter=1.0).circuit.due_at == NOW + 91


@pytest.mark.case("B22")
def test_eight_bad_rounds_wait_30_60_120_240_and_then_240():
    """B22, in words: factor 2, limit 240; force-close or ten minutes closed brings the next wait back to 30."""
    policy = replace(POLICY, cooldown_max_s=240)
    circuit, waits = opened(policy), []
    for number in range(8):
        waits.append(circuit.due_at - circuit.changed_at)
        granted = grant_round(circuit, policy, circuit.due_at, f"p{number}").circuit
        circuit = finish_round(granted, f"p{number}", Verdict.BAD, policy, granted.round.started_at).circuit
    assert waits == [30, 60, 120, 240, 240, 240, 240, 240]

    granted = grant_round(circuit, policy, circuit.due_at, "good").circuit
    closed = finish_round(granted, "good", Verdict.GOOD, policy, granted.round.started_at).circuit
    soon = judge(closed, SICK, policy, closed.closed_at + 599).circuit
    assert soon.due_at - soon.opened_at == 240
    rested = judge(closed, SICK, policy, closed.closed_at + 600).circuit
    assert rested.due_at - rested.opened_at == 30
    forced = force_close(circuit, now=circuit.due_at, **HANDS)
    assert judge(forced, SICK, policy, circuit.due_at + 1).circuit.cooldown_s == 30


def test_a_backed_off_wait_never_undercuts_an_edited_policy():
    closed = replace(Circuit(), cooldown_s=10.0, closed_at=NOW)
    assert judge(closed, SICK, POLICY, NOW + 1).circuit.cooldown_s == 30


def test_a_cooldown_of_zero_is_a_value():
    eager = replace(POLICY, cooldown_s=0.0)
    circuit = half_open(eager)
    assert finish_round(circuit, "p1", Verdict.BAD, eager, NOW + 1).circuit.due_at == NOW + 1


def test_an_inconclusive_round_frees_the_slot_and_waits_one_plain_cooldown():
    after = finish_round(half_open(), "p1", Verdict.INCONCLUSIVE, POLICY, NOW + 31)
    assert (after.circuit.state, after.circuit.cause) == (State.OPEN, Cause.PROBE_INCONCLUSIVE)
    assert (after.circuit.round, after.circuit.due_at, after.circuit.cooldown_s) == (None, NOW + 61, 30)


def test_an_expired_lease_is_inconclusive_from_the_moment_it_expired():
    swept = sweep(half_open(), POLICY, NOW + 100)
    assert (swept.state, swept.cause, swept.due_at) == (State.OPEN, Cause.PROBE_INCONCLUSIVE, NOW + 70)
    assert sweep(half_open(), POLICY, NOW + 39).state is State.HALF_OPEN


def test_the_answer_to_an_expired_round_has_no_say():
    late = finish_round(half_open(), "p1", Verdict.GOOD, POLICY, NOW + 41)
    assert (late.applied, late.verdict, late.circuit.state) == (False, None, State.OPEN)


def test_a_stale_probe_result_is_dropped():
    first = sweep(half_open(), POLICY, NOW + 45)
    second = grant_round(first, POLICY, NOW + 75, "p2").circuit
    stale = finish_round(second, "p1", Verdict.GOOD, POLICY, NOW + 76)
    assert (stale.applied, stale.circuit) == (False, second)


def test_a_probe_result_has_no_say_while_closed():
    assert finish_round(Circuit(), "p1", Verdict.BAD, POLICY, NOW).circuit == Circuit()


def test_three_good_rounds_in_a_row_close_and_a_bad_one_starts_over():
    policy = replace(POLICY, probe_successes=3, backoff=1.0)
    circuit = opened(policy)
    due = []
    for verdict in (Verdict.GOOD, Verdict.GOOD, Verdict.BAD, Verdict.GOOD, Verdict.INCONCLUSIVE, Verdict.GOOD):
        circuit = grant_round(circuit, policy, circuit.due_at, "p").circuit
        circuit = finish_round(circuit, "p", verdict, policy, circuit.round.started_at).circuit
        due.append(circuit.due_at - circuit.changed_at)
        assert circuit.state is State.OPEN
    assert due == [5, 5, 30, 5, 30, 5]
    circuit = grant_round(circuit, policy, circuit.due_at, "p").circuit
    assert finish_round(circuit, "p", Verdict.GOOD, policy, circuit.round.started_at).circuit.state is State.CLOSED


def test_a_good_probe_of_another_operation_does_not_close():
    searching = opened(operation="search")
    granted = grant_round(searching, POLICY, NOW + 30, "p1").circuit
    other = finish_round(granted, "p1", Verdict.GOOD, POLICY, NOW + 31, operation="list")
    assert (other.circuit.state, other.verdict) == (State.OPEN, Verdict.INCONCLUSIVE)
    assert other.reason == "only search can close it"
    bad = finish_round(granted, "p1", Verdict.BAD, POLICY, NOW + 31, operation="list")
    assert bad.circuit.cause is Cause.PROBE_FAILED
    for same in ("search", None):
        assert finish_round(granted, "p1", Verdict.GOOD, POLICY, NOW + 31, operation=same).circuit.state is State.CLOSED


# -- explicit waits


def test_an_explicit_wait_lengthens_the_deadline_and_never_shortens_it():
    circuit = opened()
    assert lengthen(circuit, 4.0, NOW + 10) is circuit
    assert lengthen(circuit, 100.0, NOW + 10).due_at == NOW + 110
    assert lengthen(circuit, 1e9, NOW + 10).due_at == NOW + 3600
    assert lengthen(Circuit(), 100.0, NOW) == Circuit()


def test_waits_that_are_asked_for_again_and_again_do_not_add_up():
    circuit = opened()
    for at in range(0, 3600, 50):
        circuit = lengthen(circuit, 3600.0, NOW + at)
    assert circuit.due_at == NOW + 3600


def test_a_wait_known_at_the_opening_sets_the_first_deadline():
    assert opened(retry_until=NOW + 300).due_at == NOW + 300
    assert opened(retry_until=NOW + 9000).due_at == NOW + 3600
    assert opened(retry_until=NOW + 3).due_at == NOW + 30


def test_a_probe_that_is_told_to_wait_waits():
    asked = finish_round(half_open(), "p1", Verdict.BAD, POLICY, NOW + 31, retry_after_s=500)
    assert asked.circuit.due_at == NOW + 531


# -- lockout


def test_open_for_ten_minutes_is_a_lockout_and_probing_goes_on():
    locked = sweep(opened(), POLICY, NOW + 600)
    assert (locked.locked_out_at, locked.state, locked.generation) == (NOW + 600, State.OPEN, 1)
    assert grant_round(locked, POLICY, NOW + 601, "p1").granted
    assert sweep(opened(), replace(POLICY, lockout_after_s=None), NOW + 9000).locked_out_at is None


def test_a_paid_probe_slows_down_once_locked_out():
    paid = replace(POLICY, probe_paid=True)
    granted = grant_round(opened(paid), paid, NOW + 700, "p1").circuit
    assert finish_round(granted, "p1", Verdict.BAD, paid, NOW + 701).circuit.due_at == NOW + 1301


# -- overrides


def test_a_forced_open_circuit_rejects_is_not_probed_and_ends_open_and_due():
    held = force_open(Circuit(), until=NOW + 60, now=NOW, **HANDS)
    assert (held.state, held.mode, held.cause, held.opened_at) == (State.OPEN, Mode.FORCED_OPEN, Cause.OPERATOR, NOW)
    assert not effective_of(held, Delivery.ENFORCE, NOW + 59).admits
    assert grant_round(held, POLICY, NOW + 59, "p1").reason == "held by an operator"
    assert effective_of(held, Delivery.ENFORCE, NOW + 61) is EffectiveState.OPEN
    granted = grant_round(held, POLICY, NOW + 61, "p1")
    assert granted.granted
    assert granted.circuit.generation == held.generation + 2


def test_holding_an_open_circuit_keeps_when_the_outage_began():
    assert force_open(opened(), until=NOW + 90, now=NOW + 20, **HANDS).opened_at == NOW


def test_a_forced_closed_circuit_admits_records_and_ends_closed_with_fresh_counters():
    held = force_closed(opened(), until=NOW + 60, now=NOW, **HANDS)
    assert effective_of(held, Delivery.ENFORCE, NOW + 1).admits
    would = judge(held, SICK, POLICY, NOW + 1)
    assert (would.opened, would.would_have_tripped, would.circuit.would_be) == (False, True, Signal.FAILURE_RATE)
    ended = judge(would.circuit, SICK, POLICY, NOW + 60)
    assert (ended.circuit.mode, ended.circuit.state, ended.circuit.cause) == (
        Mode.AUTO,
        State.CLOSED,
        Cause.OVERRIDE_EXPIRED,
    )
    assert not is_current(ended.circuit, held.generation)
    assert ended.circuit.would_be is None


def test_a_force_close_cancels_the_probe_and_new_evidence_opens_again():
    closed = force_close(half_open(), now=NOW + 32, **HANDS)
    assert (closed.state, closed.cause, closed.round, closed.actor) == (State.CLOSED, Cause.OPERATOR, None, "ada")
    assert not finish_round(closed, "p1", Verdict.BAD, POLICY, NOW + 33).applied
    assert judge(closed, SICK, POLICY, NOW + 34).opened


def test_a_force_close_of_a_closed_circuit_still_starts_the_counters_afresh():
    assert force_close(Circuit(), now=NOW, **HANDS).generation == 1


def test_release_ends_an_override_and_is_nothing_without_one():
    held_open = release(force_open(Circuit(), until=NOW + 99, now=NOW, **HANDS), now=NOW + 5, **HANDS)
    assert (held_open.mode, held_open.state, held_open.due_at) == (Mode.AUTO, State.OPEN, NOW + 5)
    held_closed = release(force_closed(Circuit(), until=NOW + 99, now=NOW, **HANDS), now=NOW + 5, **HANDS)
    assert (held_closed.mode, held_closed.state, held_closed.closed_at) == (Mode.AUTO, State.CLOSED, NOW + 5)
    assert release(Circuit(), now=NOW, **HANDS) == Circuit()


def test_every_override_ends_in_the_future():
    with pytest.raises(ValueError, match="future"):
        force_open(Circuit(), until=NOW, now=NOW, **HANDS)


def test_an_override_that_has_not_run_out_is_left_alone():
    held = force_open(Circuit(), until=NOW + 60, now=NOW, **HANDS)
    assert expire_override(held, NOW + 59) is held
    assert sweep(held, POLICY, NOW + 59) is held


def test_probe_now_makes_an_open_circuit_due_and_says_why_it_cannot():
    assert probe_now(opened(), NOW + 1) == (replace(opened(), due_at=NOW + 1), None)
    assert probe_now(Circuit(), NOW)[1] == "closed"
    assert probe_now(half_open(), NOW + 31)[1] == "a probe round is in flight"
    assert probe_now(force_open(Circuit(), until=NOW + 9, now=NOW, **HANDS), NOW)[1] == "held by an operator"


# -- time


def test_a_clock_step_moves_every_deadline_and_lease():
    circuit = half_open()
    stepped = shift(circuit, -7200)
    assert stepped.round == Round("p1", NOW + 30 - 7200, NOW + 40 - 7200)
    assert (stepped.due_at, stepped.opened_at) == (circuit.due_at - 7200, NOW - 7200)
    assert shift(shift(circuit, 5), -5) == circuit
    assert shift(Circuit(), 5) == Circuit()


def test_the_scheduler_is_told_when_to_look_again():
    assert next_change_at(Circuit(), POLICY) is None
    assert next_change_at(opened(), POLICY) == NOW + 30
    assert next_change_at(half_open(), POLICY) == NOW + 40
    assert next_change_at(judge(Circuit(), SICK, SETTLING, NOW).circuit, SETTLING) == NOW + 0.5
    assert next_change_at(force_open(opened(), until=NOW + 9000, now=NOW, **HANDS), POLICY) == NOW + 9000


# -- several vantage points, and a ramp


@pytest.mark.parametrize(
    ("votes", "verdict"),
    [
        ([], None),
        ([Verdict.GOOD], None),
        ([Verdict.GOOD, Verdict.GOOD], Verdict.GOOD),
        ([Verdict.BAD, Verdict.GOOD], None),
        ([Verdict.BAD, Verdict.INCONCLUSIVE], Verdict.BAD),
        ([Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE], Verdict.INCONCLUSIVE),
    ],
)
def test_two_of_three_places_make_one_verdict(votes, verdict):
    assert combined(votes, replace(POLICY, vantage_points=3, vantage_quorum=2)) is verdict


RAMPED = replace(POLICY, ramp=(0.1, 0.5), ramp_step_s=4.0)


def ramping(policy: CircuitPolicy = RAMPED) -> Circuit:
    """Ramping since NOW + 30."""
    return finish_round(half_open(policy), "p1", Verdict.GOOD, policy, NOW + 30).circuit


def test_a_ramp_admits_rising_shares_once_the_probe_was_good():
    shares = [admitted_share(ramping(), RAMPED, NOW + at) for at in (29, 30, 34, 50)]
    assert shares == [0.0, 0.1, 0.5, 0.5]
    assert admitted_share(half_open(RAMPED), RAMPED, NOW + 31) == 0.0
    assert admitted_share(opened(), RAMPED, NOW + 31) == 0.0


def test_a_ramp_is_the_last_part_of_one_round_and_closes_with_its_last_step():
    circuit = ramping()
    assert (circuit.state, circuit.cause, circuit.round.id) == (State.HALF_OPEN, Cause.RAMP_STARTED, "p1")
    assert grant_round(circuit, RAMPED, NOW + 31, "p2").reason == "another round is in flight"
    assert not finish_round(circuit, "p1", Verdict.BAD, RAMPED, NOW + 31).applied
    assert sweep(circuit, RAMPED, NOW + 37.9) == circuit
    assert [next_share_at(circuit, RAMPED, NOW + at) for at in (30, 35, 39)] == [NOW + 34, NOW + 38, NOW + 38]
    closed = sweep(circuit, RAMPED, NOW + 50)
    assert (closed.state, closed.cause, closed.closed_at) == (State.CLOSED, Cause.RAMP_PASSED, NOW + 38)


def failing(workers: int, each: int) -> Evidence:
    own = tuple(WorkerEvidence(f"w{n}", failures=each, calls=each, last_failed=True) for n in range(workers))
    total = workers * each
    return Evidence(failures=total, calls=total, streak=total, workers=own, live_workers=10)


def test_one_admitted_worker_that_fails_alone_reopens_a_ramp_with_back_off():
    policy = replace(RAMPED, settle_s=0.0, min_workers=2, consecutive_failures=5, jitter=0.0, cooldown_max_s=300.0)
    verdict = judge(ramping(policy), failing(1, 5), policy, NOW + 31)
    assert (verdict.reopened, verdict.opened) == (True, False)
    assert (verdict.circuit.state, verdict.circuit.cause) == (State.OPEN, Cause.RAMP_FAILED)
    assert verdict.circuit.due_at == NOW + 31 + policy.cooldown_s * policy.backoff


def test_one_of_two_admitted_workers_reopens_no_ramp():
    policy = replace(RAMPED, settle_s=0.0, min_workers=2, consecutive_failures=5)
    well = WorkerEvidence("w9", ok=5, calls=5)
    seen = replace(failing(1, 5), workers=(*failing(1, 5).workers, well), ok=5, calls=10)
    assert judge(ramping(policy), seen, policy, NOW + 31).circuit == ramping(policy)


def test_a_breach_during_a_ramp_settles_and_the_ramp_does_not_close_over_it():
    policy = replace(RAMPED, settle_s=0.5, consecutive_failures=5)
    suspected = judge(ramping(), failing(1, 5), policy, NOW + 37.9)
    assert suspected.suspected and suspected.settles_at == NOW + 38.4
    assert sweep(suspected.circuit, policy, NOW + 38.2) == suspected.circuit
    assert judge(suspected.circuit, failing(1, 5), policy, NOW + 38.4).reopened
    well = replace(failing(1, 5), streak=0, ok=50, calls=55)
    assert sweep(judge(suspected.circuit, well, policy, NOW + 38.4).circuit, policy, NOW + 38.4).state is State.CLOSED


def test_force_close_ends_a_ramp_and_its_lease_says_nothing_afterwards():
    closed = force_close(ramping(), now=NOW + 31, **HANDS)
    assert closed.state is State.CLOSED and closed.round is None
    assert sweep(closed, RAMPED, NOW + 60) == closed


def test_who_is_in_a_share_stays_in_and_a_share_is_a_share():
    names = [f"pod-{n}" for n in range(2000)]
    tenth, half = ({name for name in names if in_share(name, 7, share)} for share in (0.1, 0.5))
    assert tenth < half
    assert 140 < len(tenth) < 260 and 900 < len(half) < 1100
    assert all(in_share(name, 7, 1.0) for name in names) and not any(in_share(name, 7, 0.0) for name in names)


def test_the_wait_that_a_server_asked_for_holds_after_a_ramp_that_failed():
    policy = replace(RAMPED, settle_s=0.0, consecutive_failures=5, jitter=0.0)
    asked = replace(failing(1, 5), retry_until=NOW + 31 + 900)
    assert judge(ramping(policy), asked, policy, NOW + 31).circuit.due_at == NOW + 31 + 900


def test_a_clock_step_moves_a_ramp():
    moved = shift(ramping(), 100.0)
    assert admitted_share(moved, RAMPED, NOW + 134) == admitted_share(ramping(), RAMPED, NOW + 34)
    assert from_dict(to_dict(moved)) == moved


# -- the table, and storage


def test_a_transition_outside_the_table_is_a_bug():
    with pytest.raises(IllegalTransition, match="closed to half_open by probe_started"):
        move(Circuit(), State.HALF_OPEN, Cause.PROBE_STARTED, NOW)
    assert (State.CLOSED, State.HALF_OPEN) not in LEGAL


@pytest.mark.parametrize(
    "circuit", [Circuit(), opened(), half_open(), force_closed(Circuit(), until=NOW + 9, now=NOW, **HANDS)]
)
def test_a_stored_circuit_reads_back_as_itself(circuit):
    stored = to_dict(circuit)
    assert from_dict({**stored, "from_a_newer_server": 1}) == circuit


def test_a_stored_state_that_nobody_knows_raises():
    with pytest.raises(ValueError, match="melted"):
        from_dict({"state": "melted"})


def _stuck(*lengths: int, active: int | None = None, good: int = 100) -> Evidence:
    streaks = tuple(OwnStreak(f"w{number}", f"s{number}", length) for number, length in enumerate(lengths))
    return Evidence(
        ok=good,
        failures=sum(lengths),
        calls=good + sum(lengths),
        workers=tuple(WorkerEvidence(own.worker, failures=own.length) for own in streaks),
        own_streaks=streaks,
        active_sessions=len(lengths) if active is None else active,
        live_workers=5,
        live_sessions=5,
    )


def test_sessions_that_each_fail_five_times_in_a_row_open_it_while_the_window_still_remembers_good_times():
    """Their own breakers starve the rate of failures, so the rate cannot be waited for."""
    verdict = judge(Circuit(), _stuck(5, 6, 5), CircuitPolicy(settle_s=0), 100.0)

    assert verdict.opened
    assert verdict.breach is not None
    assert verdict.breach.signal is Signal.CONSECUTIVE_FAILURES
    assert verdict.breach.value == 5
    assert verdict.breach.witnesses == ("w0", "w1", "w2")


@pytest.mark.parametrize(
    "evidence",
    [
        _stuck(5),
        _stuck(4, 4, 4),
        _stuck(5, 5, active=3),
        replace(_stuck(5, 5), own_streaks=(OwnStreak("w0", "s0", 5), OwnStreak("w0", "s1", 5)), live_workers=2),
    ],
    ids=["one session alone", "streaks too short", "others succeed", "two processes of one of several workers"],
)
def test_streaks_of_their_own_that_are_no_verdict(evidence):
    assert not judge(Circuit(), evidence, CircuitPolicy(settle_s=0), 100.0).opened


def test_on_one_instance_the_processes_own_streaks_are_witnesses():
    same = (OwnStreak("w0", "s0", 5), OwnStreak("w0", "s1", 7))
    evidence = replace(_stuck(5, 7), own_streaks=same, live_workers=1, live_sessions=2)

    assert judge(Circuit(), evidence, CircuitPolicy(settle_s=0), 100.0).opened


def test_a_window_in_memory_knows_who_is_in_a_streak_of_its_own():
    window = Window(60.0)
    for at in range(4):
        window.record(Outcome.TIMEOUT, at, worker="w1", step=at)
        window.record(Outcome.TIMEOUT, at, worker="w2", step="the same step")
    window.record(Outcome.OK, 4.0, worker="w3")

    evidence = window.evidence(5.0)

    assert {own.worker: own.length for own in evidence.own_streaks} == {"w1": 4, "w2": 1}
    assert evidence.active_sessions == 3


def test_a_planned_hold_is_no_lockout_only_what_follows_it_may_become_one():
    held = force_open(Circuit(), actor="otto", reason="maintenance", until=NOW + 3600, now=NOW)

    released = sweep(held, POLICY, NOW + 3600)

    assert (released.mode, released.due_at, released.locked_out_at) == (Mode.AUTO, NOW + 3600, None)
    assert sweep(released, POLICY, NOW + 4199).locked_out_at is None
    assert sweep(released, POLICY, NOW + 4200).locked_out_at == NOW + 4200
