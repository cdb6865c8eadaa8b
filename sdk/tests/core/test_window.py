"""The sliding window: what counts, for how long, and for whom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recloser.core.types import FAILURES, SUCCESSES, Outcome
from recloser.core.window import BUCKETS, Window, bucket_of, bucket_width, is_slow, live_buckets

FAIL = Outcome.RETRYABLE_ERROR


def filled(*calls: tuple[Outcome, float, str]) -> Window:
    window = Window(60.0)
    for outcome, at, worker in calls:
        window.record(outcome, at, worker=worker)
    return window


def test_the_bucket_arithmetic_is_the_one_the_server_shares():
    assert bucket_width(60.0) == 1.0
    assert bucket_of(119.5, 60.0) == 119
    assert live_buckets(119.5, 60.0) == range(60, 120)
    assert bucket_of(-0.5, 60.0) == -1


@given(st.floats(0, 1e9), st.floats(0, 120), st.sampled_from([1.0, 60.0, 300.0]))
def test_the_windows_edge_is_off_by_at_most_one_sixtieth(now, age_share, window_s):
    age = age_share / 60 * window_s
    counted = bucket_of(now - age, window_s) in live_buckets(now, window_s)
    slack = 1e-6 * window_s + now * 1e-12
    if age <= window_s * (1 - 1 / BUCKETS) - slack:
        assert counted
    if age >= window_s + slack:
        assert not counted


def test_each_outcome_counts_as_what_it_says_of_health():
    window = Window(60.0)
    for outcome in Outcome:
        window.record(outcome, 10.0, worker="w1")
    seen = window.evidence(10.0)
    assert (seen.ok, seen.empty, seen.failures, seen.calls) == (1, 1, 3, 5)
    assert len(FAILURES) == 3
    assert len(SUCCESSES) == 2


def test_old_samples_age_out():
    window = filled((FAIL, 0.0, "w1"), (FAIL, 59.0, "w1"), (FAIL, 100.0, "w2"))
    assert window.evidence(100.0).failures == 2
    assert window.evidence(200.0).failures == 0
    assert window.evidence(200.0).workers[0].failures == 0


def test_a_long_life_keeps_only_the_live_buckets():
    window = Window(60.0)
    for at in range(1000):
        window.record(Outcome.OK, float(at), worker=f"w{at % 7}")
    assert len(window._buckets) <= 2 * BUCKETS
    assert window.evidence(999.0).ok == 60


def test_a_streak_ends_with_a_success_from_anywhere_and_not_with_a_rejected_argument():
    window = filled((FAIL, 1, "w1"), (FAIL, 2, "w2"), (Outcome.SEMANTIC_ERROR, 3, "w1"), (FAIL, 4, "w1"))
    assert window.streak == 3
    window.record(Outcome.EMPTY, 5, worker="w3")
    assert window.streak == 0


def test_parallel_calls_of_one_step_are_one_observation_of_a_streak_and_several_of_a_rate():
    window = Window(60.0)
    for call in range(12):
        window.record(FAIL, call / 10, worker="w1", step=("run", 1))
    assert (window.streak, window.evidence(2.0).failures) == (1, 12)
    window.record(FAIL, 2.0, worker="w2", step=("run", 1))
    assert window.streak == 2


def test_a_streak_does_not_age_and_neither_do_its_witnesses():
    window = filled(*((FAIL, at * 70.0, f"w{at % 2}") for at in range(5)))
    seen = window.evidence(280.0)
    assert (seen.streak, seen.failures) == (5, 1)
    assert {own.worker for own in seen.workers if own.last_failed} == {"w0", "w1"}


def test_only_those_who_failed_since_the_last_success_are_in_the_streak():
    window = filled((FAIL, 1, "w1"), (Outcome.OK, 2, "w2"), (FAIL, 3, "w2"))
    failed_last = {own.worker: own.last_failed for own in window.evidence(3).workers}
    assert failed_last == {"w1": False, "w2": True}


def test_the_failing_operation_is_named_only_when_it_is_the_only_one():
    window = Window(60.0)
    window.record(FAIL, 1.0, operation="search")
    window.record(Outcome.OK, 1.0, operation="list")
    assert window.evidence(1.0).operation == "search"
    window.record(FAIL, 2.0, operation="list")
    assert window.evidence(2.0).operation is None
    assert window.evidence(500.0).operation is None


def test_the_latest_wait_that_a_server_asked_for_is_kept():
    window = Window(60.0)
    window.record(Outcome.RATE_LIMITED, 10.0, retry_after_s=100)
    window.record(Outcome.RATE_LIMITED, 20.0, retry_after_s=5)
    assert window.evidence(20.0).retry_until == 110.0


def test_clearing_leaves_nothing():
    window = filled((FAIL, 1, "w1"))
    window.clear()
    assert window.evidence(1.0) == Window(60.0).evidence(1.0)


def test_a_clock_step_makes_no_sample_older_or_younger():
    window = filled((FAIL, 7201.0, "w1"), (FAIL, 7230.0, "w2"))
    window.record(FAIL, 7230.0, retry_after_s=10)
    window.shift(-7200.0)
    seen = window.evidence(60.0)
    assert (seen.failures, seen.retry_until) == (3, 40.0)
    assert window.evidence(61.0).failures == 2


def test_an_edited_window_keeps_its_samples():
    window = filled((FAIL, 10.0, "w1"), (Outcome.OK, 50.0, "w2"))
    window.resize(120.0)
    seen = window.evidence(60.0)
    assert (seen.failures, seen.ok, window.window_s) == (1, 1, 120.0)
    window.resize(30.0)
    assert (window.evidence(60.0).failures, window.evidence(60.0).ok) == (0, 1)


@pytest.mark.parametrize(("duration_s", "slow"), [(5.0, False), (5.001, True), (0.0, False)])
def test_slow_is_above_the_limit(duration_s, slow):
    assert is_slow(duration_s, 5000.0) is slow


@given(
    st.lists(
        st.tuples(st.floats(0, 10), st.sampled_from(sorted(Outcome)), st.sampled_from(["w1", "w2"]), st.booleans()),
        max_size=80,
    )
)
def test_sums_kept_on_the_way_equal_sums_over_the_live_samples(gaps):
    window, at, samples = Window(10.0), 0.0, []
    for gap, outcome, worker, slow in gaps:
        at += gap
        window.record(outcome, at, worker=worker, slow=slow)
        samples.append((bucket_of(at, 10.0), outcome, worker, slow))
        live = [sample for sample in samples if sample[0] in live_buckets(at, 10.0)]
        seen = window.evidence(at)
        assert seen.failures == sum(sample[1] in FAILURES for sample in live)
        assert seen.judged == seen.calls == sum(sample[1] in FAILURES | SUCCESSES for sample in live)
        assert seen.slow == sum(sample[3] and sample[1] in FAILURES | SUCCESSES for sample in live)
        assert sum(own.failures for own in seen.workers) == seen.failures
