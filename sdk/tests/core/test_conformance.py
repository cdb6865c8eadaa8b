"""The public cases, and the command that plays them. `vectors/README.md` says where they come from."""

import json
from pathlib import Path

import pytest
from recloser.cli import main
from recloser.conformance import BadFile, run_case, run_cases, run_file

VECTORS = Path(__file__).parent.parent / "vectors"
CASES = [case for path in sorted(VECTORS.glob("*.json")) for case in json.loads(path.read_text("utf-8"))]

FAILURES = [
    {"t": number, "worker": f"w{number % 2}", "run": "r1", "tool": "search", "outcome": "retryable"}
    for number in range(4)
]


def case(**changes: object) -> dict[str, object]:
    plain = {
        "id": "T01",
        "scope": "dependency",
        "policy": {"min_calls": 4},
        "events": FAILURES,
        "expect": [{"t": 3, "state": "open", "cause": "failure_rate"}],
    }
    return {**plain, **changes}


def saved(tmp_path: Path, content: object) -> str:
    path = tmp_path / "cases.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return str(path)


@pytest.mark.parametrize("public", CASES, ids=lambda case: case["id"])
def test_a_public_case_passes(public):
    assert run_case(public) == []


def test_the_command_counts_and_succeeds(tmp_path, capsys):
    assert main(["conformance", saved(tmp_path, [case()])]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed, 0 skipped\n"


def test_a_failing_case_has_a_line_and_fails_the_command(tmp_path, capsys):
    wrong = case(expect=[{"t": 3, "state": ["closed", "half_open"], "alerts": 1}, {"t": 9, "admit": True}])
    assert main(["conformance", saved(tmp_path, [wrong])]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "FAIL T01: at 3 state is open, expected ['closed', 'half_open']; at 9 admit is None, expected True",
        "0 passed, 1 failed, 0 skipped",
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"needs": ["time_travel"]}, "time_travel"),
        ({"policy": {"luck": 3}}, "luck"),
        ({"scope": "planet"}, "scope planet"),
        ({"events": [{"t": 0, "op": "dance"}]}, "op dance"),
        ({"events": [{"t": 0, "op": "dance", "run": "r"}], "scope": "run", "policy": {}}, "op dance"),
        ({"events": [{"t": 0, "tool": "x", "outcome": "odd"}]}, "outcome odd"),
    ],
)
def test_what_is_not_offered_is_skipped_with_its_reason(tmp_path, capsys, changes, reason):
    assert main(["conformance", saved(tmp_path, [case(**changes)])]) == 0
    assert capsys.readouterr().out == f"SKIP T01: {reason}\n0 passed, 0 failed, 1 skipped\n"


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ({}, "not an array of cases"),
        ([3], "not an array of cases"),
        ([{}], "case 0: id is missing"),
        ([case(scope=3)], "case T01: scope has the wrong type (int)"),
        ([case(policy=[])], "case T01: policy has the wrong type (list)"),
        ([case(policy={"cooldown_s": "long"})], "case T01, policy: cooldown_s"),
        ([case(policy={"slow_s": "long"})], "case T01, policy: slow_s"),
        ([case(policy={"dependency_of": []})], "case T01, policy: dependency_of"),
        ([case(policy={"per_dep": {"x": 3}})], "case T01, policy, per_dep: x has the wrong type (int)"),
        ([case(events={})], "case T01: events has the wrong type (dict)"),
        ([case(events=[3])], "case T01: events holds something that is no object"),
        ([case(events=[{}])], "case T01, events: t is missing"),
        ([case(events=[{"t": True}])], "case T01, events: t is no number"),
        ('[{"id": "T", "scope": "run", "policy": {}, "events": [{"t": NaN}], "expect": []}]', "t is no number"),
        ([case(events=[{"t": 10**400}])], "t is no number of seconds"),
        ([case(events=[{"t": 1, "op": "probe_start", "probe": "p", "dep": []}])], "dep has the wrong type (list)"),
        ([case(events=[{"t": 1}])], "case T01, event at 1: tool is missing"),
        ([case(events=[{"t": 1, "op": "advance_clock", "by": "x"}])], "case T01, events: by has the wrong type"),
        ([case(events=[{**FAILURES[0], "started": "x"}])], "case T01, events: started has the wrong type"),
        ([case(needs="x")], "case T01: needs has the wrong type (str)"),
        ([case(expect=[{"state": "open"}])], "case T01, expect: t is missing"),
    ],
)
def test_a_bad_file_is_one_line_that_names_the_field(tmp_path, capsys, content, error):
    assert main(["conformance", saved(tmp_path, content)]) == 2
    printed = capsys.readouterr().err
    assert error in printed
    assert printed.count("\n") == 1


def test_a_file_that_is_not_there_is_one_line_too(tmp_path, capsys):
    assert main(["conformance", str(tmp_path / "none.json")]) == 2
    assert "No such file" in capsys.readouterr().err
    with pytest.raises(BadFile):
        run_file(tmp_path)


def test_a_run_case_folds_case_for_all_arguments_or_for_some():
    events = [
        {"t": number, "run": "r1", "tool": "find", "outcome": "ok", "result": "same", "args": {"q": text, "p": text}}
        for number, text in enumerate(["A", "a"])
    ]
    policy = {"repeat_cap": 2}
    folded = {
        "id": "T",
        "scope": "run",
        "events": events,
        "expect": [{"t": 1, "state": "open", "cause": "repeat_calls"}],
    }
    assert run_case({**folded, "policy": {**policy, "casefold_args": True}}) == []
    assert run_case({**folded, "policy": {**policy, "casefold_args": ["q", "p"]}}) == []
    assert run_case({**folded, "policy": {**policy, "casefold_args": ["q"]}})


def test_the_commands_own_help_lists_conformance(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    assert "conformance" in capsys.readouterr().out


def test_no_cases_are_no_failure():
    assert list(run_cases([]).lines()) == ["0 passed, 0 failed, 0 skipped"]
