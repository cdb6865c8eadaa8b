"""A clock that steps, told from one that runs."""

from workers.steps import ClockSteps


def test_a_clock_that_runs_has_not_stepped():
    steps = ClockSteps()

    assert steps.since_last_look(1000.0, 5.0, 5.1) == 0
    assert steps.since_last_look(1060.3, 65.2, 65.4) == 0


def test_a_step_back_of_two_hours_is_measured():
    steps = ClockSteps()
    steps.since_last_look(10_000.0, 5.0, 5.0)

    assert steps.since_last_look(2_810.0, 15.0, 15.0) == -7200
    assert steps.since_last_look(2_820.0, 25.0, 25.0) == 0


def test_a_step_forward_is_measured():
    steps = ClockSteps()
    steps.since_last_look(100.0, 1.0, 1.0)

    assert steps.since_last_look(3_702.0, 3.0, 3.0) == 3600


def test_a_slow_answer_is_no_step():
    steps = ClockSteps()
    steps.since_last_look(1000.0, 5.0, 5.0)

    assert steps.since_last_look(1030.0, 6.0, 36.0) == 0
