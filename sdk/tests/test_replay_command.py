"""`recloser replay`: recorded runs under a policy, and files that are none."""

import gzip
import json
from pathlib import Path

import pytest
from recloser.cli import main
from recloser.core.policy import CircuitPolicy, RunPolicy, to_wire
from recloser.recorded import BadRuns, read

RUNS = Path(__file__).parent / "data" / "runs.jsonl.gz"


def call(tool="search", outcome="ok", args="a", result="r", **more):
    return {"tool": tool, "outcome": outcome, "args_hash": args, "result_hash": result, **more}


def recorded(*steps, final="ok", source="mine", **more):
    return {"source": source, "run": "1", "agent": "x", "steps": list(steps), "final": final, **more}


def saved(tmp_path, *runs, name="runs.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(run if isinstance(run, str) else json.dumps(run) for run in runs), "utf-8")
    return str(path)


def figures(capsys, *arguments):
    assert main(["replay", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


LOOP = [call(args=each, result="same") for each in "abab"]
FAILING = [call(outcome="retryable", args=str(number), result=str(number)) for number in range(4)]


def test_real_runs_are_left_alone_where_they_go_well_and_caught_where_they_loop(capsys):
    """The promise of the default policy, over all 1,840 recorded runs."""
    seen = figures(capsys, str(RUNS))
    assert (seen["runs"], seen["steps"], seen["ok_runs"], seen["bad_loops"]) == (1840, 8496, 838, 51)
    assert seen["ok_runs_stopped_share"] <= 0.01
    assert seen["bad_loops_caught_share"] >= 0.9
    assert {"identical_calls", "oscillation", "semantic_failures", "consecutive_failures"} == set(
        seen["trips_by_signal"]
    )
    assert sum(of["runs"] for of in seen["by_source"].values()) == 1840


@pytest.mark.parametrize("pick", [0, 1, 2, 3])
def test_the_promise_holds_in_every_quarter_of_the_runs(tmp_path, capsys, pick):
    """Held out by place in the file: no quarter carries the figures of the others."""
    with gzip.open(RUNS, "rt", encoding="utf-8") as file:
        part = [line.rstrip("\n") for number, line in enumerate(file) if number % 4 == pick]
    seen = figures(capsys, saved(tmp_path, *part))
    assert seen["ok_runs_stopped_share"] <= 0.015
    assert seen["bad_loops_caught_share"] >= 0.9


def test_stopped_caught_and_bad_loops_are_counted_as_they_are_defined(tmp_path, capsys):
    path = saved(
        tmp_path,
        recorded(*[call()] * 4),  # a block in a run that ended ok: no stop
        recorded(*FAILING),  # a tool was lost: a stop
        recorded(*LOOP, final="fail", source="theirs"),
        recorded(*[call(result=str(number % 2)) for number in range(3)], final="fail"),  # no loop
        recorded(final="unknown"),
    )
    seen = figures(capsys, path)
    assert (seen["runs"], seen["ok_runs"], seen["ok_runs_stopped"], seen["ok_runs_stopped_share"]) == (5, 2, 1, 0.5)
    assert (seen["bad_loops"], seen["bad_loops_caught_share"], seen["calls_blocked"]) == (1, 1.0, 1)
    assert seen["trips_by_signal"] == {"consecutive_failures": 1, "identical_calls": 1, "oscillation": 1}
    assert seen["signals"]["identical_calls"] == {
        "trips": 1, "runs": 1, "stopped": 0, "ok": 1, "fail": 0, "unknown": 0,
    }  # fmt: skip
    assert seen["by_source"]["theirs"]["bad_loops"] == 1


def test_a_share_of_nothing_is_null(tmp_path, capsys):
    seen = figures(capsys, saved(tmp_path, recorded(call(), final="unknown")))
    assert (seen["runs"], seen["ok_runs_stopped_share"], seen["bad_loops_caught_share"]) == (1, None, None)


@pytest.mark.parametrize("text", ["", "\n \n"], ids=["empty", "blank"])
@pytest.mark.parametrize("command", ["replay", "classify"])
def test_a_file_that_holds_nothing_is_an_error_in_one_line(tmp_path, capsys, command, text):
    path = saved(tmp_path, text)

    assert main([command, path]) == 2

    out, err = capsys.readouterr()
    assert out == "" and str(path) in err and "line" in err and len(err.splitlines()) == 1


def test_for_people_there_are_two_tables(tmp_path, capsys):
    assert main(["replay", saved(tmp_path, recorded(*LOOP, final="fail"))]) == 0
    said = capsys.readouterr().out
    assert "| oscillation | 1     | 1    | 0        | 1      | 1       |" in said
    assert "| mine   | 1    | 0        | 0                |       | 1         | 1               | 100.0% |" in said


def test_a_policy_and_classes_come_from_files(tmp_path, capsys):
    runs = saved(tmp_path, recorded(*FAILING[:3], *[call("pay", result=str(number)) for number in range(2)]))
    policy, classes = tmp_path / "policy.json", tmp_path / "classes.json"
    classes.write_text(json.dumps({"search": "read_only", "pay": "destructive"}), "utf-8")
    assert figures(capsys, runs)["trips_by_signal"] == {"consecutive_failures": 1}
    assert figures(capsys, runs, "--classes", str(classes))["trips_by_signal"] == {"identical_calls": 1}
    policy.write_text(json.dumps({
        "run": {"step_limit": 4}, "classes": {"read_only": {"consecutive_failures": 4}},
        "tools": {"search": {"consecutive_failures": 2}},
    }), "utf-8")  # fmt: skip
    both = figures(capsys, runs, "--policy", str(policy), "--classes", str(classes))
    assert both["trips_by_signal"] == {"consecutive_failures": 1, "step_limit": 1}


def test_the_classes_that_classify_prints_are_taken_as_they_are_handled(tmp_path, capsys):
    listing, classes = tmp_path / "tools.jsonl", tmp_path / "classes.json"
    listing.write_text('{"server": "a", "tool": "delete_file"}\n{"server": "b", "tool": "get_file"}\n', "utf-8")
    assert main(["classify", "--json", str(listing)]) == 0
    classes.write_text(capsys.readouterr().out, "utf-8")
    removing = recorded(call("delete_file"), call("delete_file", result="other"))
    reading = recorded(call("get_file"), call("get_file", result="other"))
    seen = figures(capsys, saved(tmp_path, removing, reading), "--classes", str(classes))
    assert seen["trips_by_signal"] == {"identical_calls": 1}


def test_a_trouble_is_json_where_json_was_asked_for(tmp_path, capsys):
    assert main(["replay", "--json", saved(tmp_path, "{")]) == 2
    said = capsys.readouterr()
    assert said.err == ""
    assert json.loads(said.out)["error"]["message"].endswith("runs.jsonl: line 1 is not JSON")


def test_a_config_document_of_a_control_plane_is_a_policy(tmp_path, capsys):
    policy = tmp_path / "config.json"
    strict = to_wire(RunPolicy(consecutive_failures=2))
    policy.write_text(json.dumps({
        "format": 1, "epoch": "e", "version": 1, "complete": True, "now": 0.0,
        "default_circuit_policy": 0, "default_run_policy": 0, "circuit_policies": [to_wire(CircuitPolicy())],
        "run_policies": [to_wire(RunPolicy()), strict], "dependencies": {},
        "tools": {"search": {"policy": 1, "dependencies": ["api"], "side_effect": "unknown", "confirmed": False}},
    }), "utf-8")  # fmt: skip
    runs = saved(tmp_path, recorded(*FAILING[:2]), recorded(*[{**each, "tool": "other"} for each in FAILING]))
    assert figures(capsys, runs, "--policy", str(policy))["ok_runs_stopped"] == 1


def test_unknown_fields_and_empty_lines_are_passed_over(tmp_path, capsys):
    odd = recorded(call(note="x", sub="ls", error_class=None, latency_ms=None, tokens=3), domain="d", stop=None)
    assert figures(capsys, saved(tmp_path, odd, "", json.dumps(recorded(call()))))["runs"] == 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 2 is not JSON; write one object a line"),
        ("[" * 100_000, "line 2 is not JSON"),
        ("[]", "line 2 is no object"),
        ({"final": "ok"}, "line 2: steps is no list"),
        (recorded(3), "line 2: steps[0] is no object"),
        (recorded({"outcome": "ok"}), "line 2: steps[0]: tool is missing"),
        (recorded(call(), call(outcome="oops")), 'line 2: steps[1]: outcome is "oops"; use one of ok, empty'),
        (recorded(call(args=7)), "line 2: steps[0]: args_hash is no text"),
        (recorded(call(latency_ms=-1)), "line 2: steps[0]: latency_ms is no amount"),
        (recorded(call(tokens="many")), "line 2: steps[0]: tokens is no amount"),
        (recorded(final="won"), 'line 2: final is "won"; use one of ok, fail, unknown'),
    ],
)
def test_a_bad_line_is_named(tmp_path, capsys, line, problem):
    path = saved(tmp_path, recorded(call()), line)
    assert main(["replay", path]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert problem in said.err and path in said.err


def test_a_line_that_is_no_text_or_a_file_that_is_not_there(tmp_path, capsys):
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"\xff\xfe{}\n")
    assert main(["replay", str(path)]) == 2
    assert "line 1 is not JSON" in capsys.readouterr().err
    assert main(["replay", str(tmp_path / "absent")]) == 2
    assert "No such file" in capsys.readouterr().err
    broken = tmp_path / "runs.jsonl.gz"
    broken.write_bytes(RUNS.read_bytes()[:5000])
    assert main(["replay", str(broken)]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_an_archive_whose_bytes_were_turned_says_where(tmp_path, capsys):
    turned = bytearray(RUNS.read_bytes())
    turned[5000:5200] = (byte ^ 0xFF for byte in turned[5000:5200])
    broken = tmp_path / "runs.jsonl.gz"
    broken.write_bytes(turned)
    assert main(["replay", str(broken)]) == 2
    assert "recloser replay" in (told := capsys.readouterr().err) and "line" in told


def test_runs_are_read_one_at_a_time(tmp_path):
    """What comes later in the file has not been looked at yet."""
    runs = read(Path(saved(tmp_path, recorded(call()), recorded(final="fail"), "{")))
    assert [next(runs).final, next(runs).final] == ["ok", "fail"]
    with pytest.raises(BadRuns, match="line 3"):
        next(runs)


@pytest.mark.parametrize(
    ("policy", "classes", "problem"),
    [
        ("{", None, "is not JSON"),
        ("[]", None, "is no object"),
        ({"runs": {}}, None, "there is no 'runs' here; use run, classes, tools"),
        ({"run": {"identical_cals": 3}}, None, "did you mean identical_calls?"),
        ({"tools": {"search": {"step_limit": 3}}}, None, "tools: search: step_limit"),
        ({"tools": 3}, None, "tools is no object"),
        ({"classes": {"harmless": {}}}, None, "there is no class 'harmless'"),
        ({"run_policies": []}, None, "policy.json: "),
        ({}, {"search": "harmless"}, "search: there is no class 'harmless'"),
    ],
)  # fmt: skip
def test_a_bad_policy_or_class_is_named(tmp_path, capsys, policy, classes, problem):
    files = []
    for option, content in (("--policy", policy), ("--classes", classes)):
        if content is not None:
            path = tmp_path / f"{option[2:]}.json"
            path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
            files += [option, str(path)]
    assert main(["replay", saved(tmp_path, recorded(call())), *files]) == 2
    said = capsys.readouterr().err
    assert said.startswith("recloser replay: ") and said.count("\n") == 1
    assert problem in said
