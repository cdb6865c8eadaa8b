"""A layer may tighten a class; what protects less than the class's preset is named."""

import pytest
from recloser.core.policy import (
    FIELDS,
    STRICTNESS,
    CircuitPolicy,
    Guard,
    Kind,
    Layer,
    Looser,
    Origin,
    RunPolicy,
    altered,
    eased,
    is_downward,
    is_vouched,
    loosened,
)
from recloser.core.types import SideEffectClass

READ_ONLY, WRITE, UNKNOWN, EFFECT, DESTRUCTIVE = STRICTNESS


def _named(side_effect, *, circuit=None, origin=Origin.TOOL, costly=False, **run):
    layer = Layer(origin, circuit=circuit or {}, run=run)
    return [row.name for row in loosened(side_effect, layer, costly=costly)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consecutive_failures", 3),
        ("consecutive_failures", None),
        ("identical_calls", 3),
        ("repeat_at_once", False),
        ("retry_ambiguous", True),
        ("never_open", True),
        ("identical_calls_exempt", True),
        ("delivery", "observe"),
        ("consecutive_failures_action", "advise"),
        ("identical_calls_action", "advise"),
        ("short_run_consecutive_failures", 4),
        ("short_run_steps", 5),
        ("short_run_steps", None),
    ],
)
@pytest.mark.parametrize("side_effect", [EFFECT, DESTRUCTIVE])
def test_what_protects_less_than_the_preset_is_named(side_effect, name, value):
    assert _named(side_effect, **{name: value}) == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consecutive_failures", 1),
        ("identical_calls", 1),
        ("delivery", "enforce"),
        ("identical_calls_action", "end_run"),
        ("run_failure_rate", 0.5),
        ("short_run_steps", 20),
        ("model_text", "Ask a person."),
        ("call_timeout_s", 5),
    ],
)
@pytest.mark.parametrize("side_effect", [EFFECT, DESTRUCTIVE, UNKNOWN])
def test_what_tightens_or_only_differs_is_not(side_effect, name, value):
    assert _named(side_effect, **{name: value}) == []


@pytest.mark.parametrize("side_effect", [READ_ONLY, WRITE])
def test_a_harmless_class_may_be_set_as_one_likes(side_effect):
    assert _named(side_effect, consecutive_failures=50, never_open=True, circuit={"permits": False}) == []


def test_a_class_that_nobody_confirmed_is_guarded_by_its_own_preset():
    assert _named(UNKNOWN, consecutive_failures=3) == []
    assert _named(UNKNOWN, consecutive_failures=4) == ["consecutive_failures"]


def test_costly_is_one_step_tighter():
    assert _named(UNKNOWN, consecutive_failures=3, costly=True) == ["consecutive_failures"]


def test_of_a_circuit_what_the_class_sets_counts():
    loose = {"permits": True, "min_calls": 100, "cooldown_s": 1}

    assert _named(EFFECT, circuit=loose, origin=Origin.DEPENDENCY) == ["permits"]


def test_what_the_preset_overrules_loosens_nothing():
    """An environment is a weaker layer than a class."""
    assert _named(EFFECT, consecutive_failures=9, never_open=True, origin=Origin.ENVIRONMENT) == ["never_open"]


def test_every_field_that_can_loosen_is_told_apart():
    """No kind of field is left out of the comparison."""
    kinds = {row.kind for row in FIELDS if row.looser is not Looser.NEITHER}

    assert kinds == {Kind.NUMBER, Kind.INTEGER, Kind.FLAG, Kind.CHOICE}


def test_downward_goes_by_how_a_class_is_handled():
    assert is_downward(DESTRUCTIVE, EFFECT) and is_downward(DESTRUCTIVE, UNKNOWN) and is_downward(EFFECT, READ_ONLY)
    assert not any(is_downward(each, each) for each in SideEffectClass)
    assert not is_downward(READ_ONLY, UNKNOWN) and not is_downward(UNKNOWN, EFFECT)


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({}, {"model_text": "Ask a person."}, ["model_text"]),
        ({"model_text": "Ask a person."}, {}, ["model_text"]),
        ({"fallback_tool": "a"}, {"fallback_tool": "b"}, ["fallback_tool"]),
        ({"fallback_tool": "a"}, {"fallback_tool": None}, ["fallback_tool"]),
        ({}, {"outcomes": {"402": "timeout"}}, ["outcomes"]),
        ({}, {"degraded_behaviour": "end_run"}, ["degraded_behaviour"]),
        ({"model_text": "Ask."}, {"model_text": "Ask.", "consecutive_failures": 1, "user_text": "Sorry."}, []),
    ],
)
def test_what_models_are_told_and_what_answers_count_as_is_altered(before, after, names):
    assert [row.name for row in altered(before, after)] == names


TESTED_BY_CALLS, PROBED_ONLY = CircuitPolicy(permits=True), CircuitPolicy(permits=False)


@pytest.mark.parametrize(
    ("side_effect", "stood", "stands", "names"),
    [
        (DESTRUCTIVE, [PROBED_ONLY], [TESTED_BY_CALLS], ["permits"]),
        (DESTRUCTIVE, [PROBED_ONLY], [PROBED_ONLY, TESTED_BY_CALLS], ["permits"]),
        (DESTRUCTIVE, [TESTED_BY_CALLS], [TESTED_BY_CALLS], []),
        (DESTRUCTIVE, [TESTED_BY_CALLS, PROBED_ONLY], [TESTED_BY_CALLS], []),
        (DESTRUCTIVE, [TESTED_BY_CALLS], [PROBED_ONLY], []),
        (DESTRUCTIVE, [], [TESTED_BY_CALLS], ["permits"]),
        (DESTRUCTIVE, [], [PROBED_ONLY], []),
        (UNKNOWN, [PROBED_ONLY], [TESTED_BY_CALLS], ["permits"]),
        (READ_ONLY, [PROBED_ONLY], [TESTED_BY_CALLS], []),
    ],
)
def test_a_tool_that_moves_is_measured_by_where_it_stood(side_effect, stood, stands, names):
    run = RunPolicy()

    found = eased(side_effect, Guard(run, tuple(stood)), Guard(run, tuple(stands)))

    assert [row.name for row in found] == names


def test_what_eases_a_run_is_named_too():
    before, after = RunPolicy(consecutive_failures=1), RunPolicy(consecutive_failures=2)

    assert [row.name for row in eased(EFFECT, Guard(before, ()), Guard(after, ()))] == ["consecutive_failures"]
    assert eased(EFFECT, Guard(after, ()), Guard(before, ())) == []


def test_only_a_confirmed_class_with_effects_is_vouched_for():
    assert [each for each in STRICTNESS if is_vouched(each, confirmed=True)] == [UNKNOWN, EFFECT, DESTRUCTIVE]
    assert not any(is_vouched(each, confirmed=False) for each in STRICTNESS)
