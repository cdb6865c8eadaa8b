"""The policy schema: one table, strict reading, and every value's origin."""

import dataclasses
import math

import pytest
from recloser.core.outcomes import Rule
from recloser.core.policy import (
    CIRCUIT_FIELDS,
    FIELDS,
    RUN_FIELDS,
    STRICTNESS,
    CircuitPolicy,
    Kind,
    Layer,
    Level,
    Origin,
    PolicyError,
    RunPolicy,
    contradictions,
    fields_for,
    from_wire,
    parse,
    preset,
    replace_layer,
    resolve_circuit,
    resolve_run,
    strictest,
    to_wire,
    validate,
    worker_scope,
)
from recloser.core.types import Delivery, Outcome, SideEffectClass

CLASSES = list(SideEffectClass)


def test_the_dataclasses_are_the_table():
    assert [row.name for row in dataclasses.fields(CircuitPolicy)] == list(CIRCUIT_FIELDS)
    assert [row.name for row in dataclasses.fields(RunPolicy)] == list(RUN_FIELDS)
    assert len(FIELDS) == len(CIRCUIT_FIELDS) + len(RUN_FIELDS)


@pytest.mark.parametrize("row", FIELDS, ids=lambda row: f"{row.policy}.{row.name}")
def test_every_field_explains_itself_and_accepts_its_own_default(row):
    assert row.help.endswith(".")
    wire = to_wire(CircuitPolicy() if row.policy == "circuit" else RunPolicy())
    assert parse(row, wire[row.name]) == row.default
    assert row.nullable or row.default is not None
    assert (row.kind is Kind.CHOICE) == bool(row.choices)


def test_design_defaults_stand():
    circuit, run = CircuitPolicy(), RunPolicy()
    assert (circuit.failure_rate, circuit.min_calls, circuit.window_s, circuit.min_workers) == (0.5, 20, 60, 2)
    assert (circuit.cooldown_s, circuit.cooldown_max_s, circuit.backoff, circuit.settle_s) == (30, 45, 2, 0.5)
    assert (circuit.slow_call_rate_delivery, circuit.lockout_after_s) == (Delivery.OBSERVE, 600)
    assert (run.consecutive_failures, run.short_run_steps, run.short_run_consecutive_failures) == (5, 10, 3)
    assert (run.semantic_failures, run.semantic_remove_after, run.run_failure_rate) == (3, 6, None)


def test_each_level_has_its_own_fields():
    assert "step_limit" in fields_for(Level.ENVIRONMENT)
    assert "step_limit" not in fields_for("tool")
    assert "cooldown_s" in fields_for("circuit")


# -- validation


def test_a_misspelt_name_suggests_the_nearest():
    (error,) = validate({"cooldwn_s": 3}, "circuit")
    assert (error.field, error.mend) == ("cooldwn_s", "did you mean cooldown_s?")
    assert str(error) == "cooldwn_s: there is no such field here; did you mean cooldown_s?"


@pytest.mark.parametrize(
    ("mapping", "level", "mend"),
    [
        ({"wall_clock_s": 3}, "circuit", "set it for a tool or the environment, not at level circuit"),
        ({"vantage_points": 3}, "tool", "set it for the dependency, not for a tool"),
        ({"zzzzzz": 3}, "tool", "use one of the"),
    ],
)
def test_a_name_at_the_wrong_level_says_where_it_belongs(mapping, level, mend):
    assert mend in validate(mapping, level)[0].mend


@pytest.mark.parametrize(
    ("level", "name", "value"),
    [
        ("circuit", "cooldown_s", "30"),
        ("circuit", "cooldown_s", True),
        ("circuit", "cooldown_s", -1),
        ("circuit", "cooldown_s", None),
        ("circuit", "cooldown_s", math.nan),
        ("circuit", "cooldown_s", math.inf),
        ("circuit", "cooldown_s", 10**400),
        ("circuit", "failure_rate", 1.01),
        ("circuit", "min_calls", 2.5),
        ("circuit", "delivery", "sometimes"),
        ("circuit", "delivery", 1),
        ("circuit", "permits", "yes"),
        ("circuit", "ramp", "all"),
        ("circuit", "ramp", [0.5, 0.1]),
        ("circuit", "ramp", [0, 2]),
        ("circuit", "ramp", [True]),
        ("tool", "model_text", 5),
        ("tool", "model_text", "x" * 401),
        ("tool", "ignored_args", "note"),
        ("tool", "ignored_args", [1]),
        ("tool", "outcomes", []),
        ("tool", "outcomes", {"999": "ok"}),
        ("tool", "outcomes", {"marker:": "ok"}),
        ("tool", "outcomes", {"402": "fine"}),
        ("tool", "outcomes", {"402": {"outcome": "ok", "wait_s": 9999}}),
        ("tool", "outcomes", {"402": {"outcome": "ok", "wait": 1}}),
        ("tool", "outcomes", {"402": {"outcome": "ok", "wait_s": True}}),
        ("tool", "consecutive_failures", 0),
        ("tool", "consecutive_failures_action", "block_call"),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_field_and_the_mend(level, name, value):
    (error,) = validate({name: value}, level)
    assert error.field == name
    assert error.mend
    assert len(error.message) < 200
    with pytest.raises(PolicyError, match=name):
        parse(fields_for(level)[name], value)


@pytest.mark.parametrize(
    ("level", "mapping"),
    [
        ("circuit", {"failure_rate": None, "min_calls": 0, "delivery": "observe", "ramp": [0.1, 1], "cooldown_s": 5}),
        ("tool", {"outcomes": {"402": "rate_limited", "4xx": {"outcome": "semantic_error", "wait_s": 0}}}),
        ("tool", {"outcomes": {"marker:quota": "rate_limited", "error:Boom": "timeout"}, "never_open": True}),
        ("tool", {"ignored_args": ["note"], "fallback_tool": None, "consecutive_failures": None}),
        ("environment", {"step_limit": 20, "consecutive_failures": 4}),
    ],
)
def test_what_fits_has_no_errors(level, mapping):
    assert validate(mapping, level) == []


def test_contradictions_between_two_fields_are_found():
    assert validate({"cooldown_s": 90, "cooldown_max_s": 60}, "circuit")[0].field == "cooldown_max_s"
    (error,) = contradictions(dataclasses.replace(CircuitPolicy(), cooldown_s=90))
    assert error.message == "45.0 is below cooldown_s (90)"
    assert contradictions(RunPolicy()) == []


# -- the wire


def test_a_policy_survives_the_wire_and_newer_fields_are_left_out():
    run = dataclasses.replace(
        RunPolicy(), outcomes=(("402", Rule(Outcome.RATE_LIMITED, 60.0)),), ignored_args=("note",), step_limit=9
    )
    circuit = dataclasses.replace(CircuitPolicy(), ramp=(0.1, 0.5), failure_rate=None)
    assert from_wire(RunPolicy, {**to_wire(run), "from_a_newer_server": [1]}) == run
    assert from_wire(CircuitPolicy, to_wire(circuit)) == circuit
    assert all(isinstance(value, str | int | float | list | dict | None) for value in to_wire(run).values())


def test_what_does_not_validate_on_the_wire_raises_whole():
    with pytest.raises(PolicyError) as raised:
        from_wire(CircuitPolicy, {"cooldown_s": "soon", "window_s": -1})
    assert [error.field for error in raised.value.errors] == ["window_s", "cooldown_s"]


# -- resolution


def test_a_value_comes_from_the_strongest_layer_that_sets_it():
    layers = [
        Layer(Origin.TOOL, run={"consecutive_failures": 9}),
        Layer(Origin.ENVIRONMENT, run={"consecutive_failures": 7, "semantic_failures": 2, "step_limit": 30}),
        Layer(Origin.DEPENDENCY, run={"semantic_failures": 4}, circuit={"cooldown_s": 10}),
    ]
    run = resolve_run(layers, side_effect_class=SideEffectClass.READ_ONLY)
    assert (run.policy.consecutive_failures, run.origins["consecutive_failures"]) == (9, Origin.TOOL)
    assert (run.policy.semantic_failures, run.origins["semantic_failures"]) == (4, Origin.DEPENDENCY)
    assert (run.policy.step_limit, run.origins["step_limit"]) == (30, Origin.ENVIRONMENT)
    assert (run.policy.identical_calls, run.origins["identical_calls"]) == (3, Origin.CLASS)
    assert run.origins["never_open"] is Origin.DEFAULT
    circuit = resolve_circuit(layers, side_effect_class=SideEffectClass.READ_ONLY)
    assert (circuit.policy.cooldown_s, circuit.origins["cooldown_s"]) == (10, Origin.DEPENDENCY)


def test_circuit_fields_resolve_no_deeper_than_the_dependency():
    deep = resolve_circuit([Layer(Origin.TOOL, circuit={"cooldown_s": 1})])
    assert deep.policy.cooldown_s == 30


def test_the_runs_own_limits_resolve_no_deeper_than_the_environment():
    deep = resolve_run([Layer(Origin.TOOL, run={"step_limit": 3})])
    assert (deep.policy.step_limit, deep.origins["step_limit"]) == (None, Origin.DEFAULT)


def test_an_unknown_name_in_a_layer_is_an_error():
    with pytest.raises(PolicyError, match="zebra"):
        resolve_run([Layer(Origin.TOOL, run={"zebra": 3})])


def test_typed_outcome_rules_pass_through_a_layer():
    rules = (("402", Rule(Outcome.OK)),)
    assert resolve_run([Layer(Origin.TOOL, run={"outcomes": rules})]).policy.outcomes == rules


@pytest.mark.parametrize(
    ("side_effect_class", "failures", "identical", "at_once", "retry", "permits"),
    [
        ("read_only", 5, 3, False, True, True),
        ("idempotent_write", 4, 3, False, True, True),
        ("side_effect", 2, 2, True, False, False),
        ("destructive", 1, 2, True, False, False),
        ("unknown", 3, 3, False, False, False),
    ],
)
def test_a_class_gives_its_preset(side_effect_class, failures, identical, at_once, retry, permits):
    chosen = SideEffectClass(side_effect_class)
    run = resolve_run([], side_effect_class=chosen).policy
    assert (run.consecutive_failures, run.identical_calls) == (failures, identical)
    assert (run.repeat_at_once, run.retry_ambiguous) == (at_once, retry)
    assert resolve_circuit([], side_effect_class=chosen).policy.permits is permits


@pytest.mark.parametrize(
    ("side_effect_class", "failures", "identical"),
    [("read_only", 4, 3), ("idempotent_write", 2, 2), ("unknown", 2, 2), ("side_effect", 1, 2), ("destructive", 1, 2)],
)
def test_costly_tightens_the_thresholds_by_one_step_and_nothing_else(side_effect_class, failures, identical):
    plain = preset(SideEffectClass(side_effect_class)).run
    costly = preset(SideEffectClass(side_effect_class), costly=True).run
    assert (costly["consecutive_failures"], costly["identical_calls"]) == (failures, identical)
    assert costly["repeat_at_once"] == plain["repeat_at_once"]


def test_several_tools_take_the_strictest_class():
    assert strictest([SideEffectClass.READ_ONLY, SideEffectClass.UNKNOWN]) is SideEffectClass.UNKNOWN
    assert strictest(CLASSES) is SideEffectClass.DESTRUCTIVE
    assert strictest([]) is SideEffectClass.UNKNOWN
    assert set(STRICTNESS) == set(CLASSES)


def test_an_edited_layer_takes_the_place_of_the_old_one():
    old = [Layer(Origin.TOOL, run={"never_open": True}), Layer(Origin.ENVIRONMENT)]
    new = replace_layer(old, Layer(Origin.TOOL))
    assert resolve_run(new).policy.never_open is False
    assert len(new) == 2


def test_the_workers_scope_is_the_same_policy_alone_and_without_waiting():
    own = worker_scope(dataclasses.replace(CircuitPolicy(), worker_consecutive_failures=4, worker_cooldown_s=7))
    assert (own.min_workers, own.settle_s, own.failure_rate, own.slow_call_rate) == (1, 0, None, None)
    assert (own.consecutive_failures, own.cooldown_s, own.lockout_after_s) == (4, 7, None)
