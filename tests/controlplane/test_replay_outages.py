"""`manage.py replay_outages` over real histories: figures, assumptions, errors."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

REAL = Path(__file__).parent.parent / "data" / "outages.jsonl"


def run(*arguments):
    out = StringIO()
    call_command("replay_outages", *map(str, arguments), stdout=out)
    return out.getvalue()


def test_real_histories_end_within_the_goals():
    told = json.loads(run(REAL, "--json"))
    assert told["episodes"] == 439 and told["episodes_missed"] == 0
    assert told["open_after_recovery_s"]["p50"] <= 45 and told["open_after_recovery_s"]["p90"] <= 300
    assert told["closed_too_early_share"] <= 0.05
    assert told["probes"] > 0 and told["lockouts"] > 0
    assert any("20 calls a minute from 3 workers" in line for line in told["assumptions"])
    assert set(told["by_source"]) == {"github-status", "upptime-manticore", "upptime-hagicode"}


def test_another_policy_gives_other_figures(tmp_path):
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join(REAL.read_text().splitlines()[:8]))
    usual, patient = (
        json.loads(run(few, "--json", *more)) for more in ((), ("--set", "cooldown_max_s=600", "--set", "backoff=3"))
    )
    assert usual["open_after_recovery_s"]["p50"] < patient["open_after_recovery_s"]["p50"]
    assert usual["probes"] > patient["probes"]


def test_a_table_is_printed_with_what_it_assumes(tmp_path):
    one = tmp_path / "one.jsonl"
    one.write_text('{"source": "mine", "checks": [[0, "up"], [600, "down"], [1800, "up"], [9000, "up"]]}\n\n')
    printed = run(one)
    assert "a state holds until the next check" in printed
    assert printed.splitlines()[-2].startswith("mine") and printed.splitlines()[-1].startswith("all")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "line 1: not JSON"),
        ("[]", 'line 1: give an object with "checks"'),
        ('{"checks": [[1, "gone"]]}', r"line 1: checks\[0\]"),
        ("{}", "line 1: checks"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, word):
    bad = tmp_path / "bad.jsonl"
    bad.write_text(text + "\n")
    with pytest.raises(CommandError, match=word):
        run(bad)


@pytest.mark.parametrize("setting", ["cooldown_max_s", "cooldown_max_s=soon", "cooldown_max_s=-1", "no_such_field=1"])
def test_a_bad_setting_is_named(setting):
    with pytest.raises(CommandError, match=f"--set {setting.partition('=')[0]}"):
        run(REAL, "--set", setting)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CommandError, match=r"gone\.jsonl cannot be read"):
        run(tmp_path / "gone.jsonl")
