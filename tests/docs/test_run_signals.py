"""The page about run signals: its tables are what the command prints, its examples can be replayed."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
from recloser.cli import main
from recloser.cli_replay import SIGNAL_HEAD, SOURCE_HEAD, replayed, signal_rows, source_rows
from recloser.core.budget import HEALTHY_RUNS
from recloser.core.policy import STRICTNESS, RunPolicy, preset
from recloser.core.signals import LONGEST_CIRCLE
from recloser.policy_file import hindsight
from recloser.recorded import read

from tests.docs.marked import DOCS, ROOT, one

RUNS = list(read(ROOT / "sdk" / "tests" / "data" / "runs.jsonl.gz"))
PAGE = (DOCS / "run-signals.md").read_text("utf-8")


def rows(name):
    """A marked table of the page, its head first."""
    block = re.search(rf"<!-- table: {name} -->\n((?:\|.*\n)+)", PAGE)[1]
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in block.splitlines()]
    return [cells[0], *cells[2:]]


@cache
def played(policy=None):
    return replayed(RUNS, hindsight(policy and Path(policy)))


def test_the_tables_are_what_the_command_finds():
    whole, by_source = played()

    assert rows("signals") == [SIGNAL_HEAD, *signal_rows(whole)]
    assert rows("sources") == [SOURCE_HEAD, *source_rows(whole, by_source)]


@pytest.mark.parametrize("row", rows("alternatives")[1:], ids=lambda row: row[0])
def test_each_other_value_does_what_the_page_says(tmp_path, row):
    policy = tmp_path / "policy.json"
    policy.write_text(row[0].strip("`"), "utf-8")
    whole, by_source = played(str(policy))
    chosen = by_source["agentdojo"]

    assert row[1:] == (
        f"{chosen.stopped['ok']} of {chosen.ended['ok']}",
        f"{chosen.bad_loops_caught} of {chosen.bad_loops}",
        f"{whole.stopped['ok'] - chosen.stopped['ok']} of {whole.ended['ok'] - chosen.ended['ok']}",
        f"{whole.bad_loops_caught - chosen.bad_loops_caught} of {whole.bad_loops - chosen.bad_loops}",
    )


def test_the_thresholds_are_those_of_the_code():
    counted = PAGE.split("## What is counted")[1].split("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in counted.splitlines() if line.startswith("| `")]
    told = {cells[0].strip("`"): cells[2] for cells in lines}
    by_class = [preset(name).run for name in STRICTNESS]

    assert told["consecutive_failures"].startswith(
        "by class: " + ", ".join(str(each["consecutive_failures"]) for each in by_class)
    )
    assert told["identical_calls"] == "by class: " + ", ".join(str(each["identical_calls"]) for each in by_class)
    policy = RunPolicy()
    assert told["semantic_failures"] == f"{policy.semantic_failures}, then {policy.semantic_remove_after}"
    assert told["oscillation"] == str(policy.oscillation_cycles)
    assert told["no_progress"] == str(policy.no_progress_steps)
    assert told["budget_burn"] == f"{policy.budget_burn:g}"
    assert told["unknown_tool"] == str(policy.unknown_tool)
    assert f"off below {HEALTHY_RUNS} healthy runs" in PAGE
    assert LONGEST_CIRCLE == 8 and "two to eight calls" in PAGE


def test_the_files_on_the_page_can_be_replayed(tmp_path, capsys):
    for name in ("runs.jsonl", "policy.json", "classes.json"):
        (tmp_path / name).write_text(one("run-signals.md", name), "utf-8")
    files = ["--policy", str(tmp_path / "policy.json"), "--classes", str(tmp_path / "classes.json")]

    assert main(["replay", "--json", str(tmp_path / "runs.jsonl")]) == 0
    assert json.loads(capsys.readouterr().out)["trips_by_signal"] == {"oscillation": 1}
    assert main(["replay", "--json", str(tmp_path / "runs.jsonl"), *files]) == 0
    assert json.loads(capsys.readouterr().out)["trips_by_signal"] == {}
