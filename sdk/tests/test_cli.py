"""The commands of `recloser` through their front door: what they print, how they end, what they never show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import until
from recloser import cli
from recloser.testing import KEY, FakeControlPlane, Scripted, error


@pytest.fixture
def asked(plane: FakeControlPlane, monkeypatch: pytest.MonkeyPatch) -> FakeControlPlane:
    """The plane that RECLOSER_URL and RECLOSER_KEY name."""
    monkeypatch.setenv("RECLOSER_URL", plane.url)
    monkeypatch.setenv("RECLOSER_KEY", plane.key)
    plane.tool("web_search", dependencies=["search-api"], consecutive_failures=4)
    return plane


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """(status, stdout, stderr) of one command; the key is nowhere in them."""
    status = cli.main(args)
    printed = capsys.readouterr()
    assert KEY not in printed.out + printed.err
    return status, printed.out, printed.err


def ran_json(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, dict]:
    status, out, err = run(capsys, *args, "--json")
    assert err == ""
    return status, json.loads(out)


def save_documents(asked: FakeControlPlane, **options: object) -> None:
    """A client of this machine keeps its documents where the commands look."""
    from recloser.cache import default_directory

    client = asked.client(cache_dir=default_directory(), **options)
    assert until(lambda: list(default_directory().glob("*.json")))
    client.close()


def test_status_tells_the_agent_its_versions_and_what_is_open(asked, capsys):
    asked.open("search-api")
    status, out, _ = run(capsys, "status")
    assert status == 0
    assert "agent     research in prod" in out and f"version e1-{asked.config['version']}, 1 tools" in out
    assert "stream    live" in out
    assert "search-api: open (state open, mode auto), by failure_rate" in out and "tools web_search" in out


@pytest.mark.parametrize(("probed", "said"), [(True, "next probe in 30 s"), (False, "no probe is set up")])
def test_status_promises_a_probe_only_where_there_is_one(asked, capsys, probed, said):
    asked.open("search-api", probed=probed, due_in_s=30.4)
    assert said in run(capsys, "status")[1]
    (one,) = ran_json(capsys, "status")[1]["not_closed"]
    assert (one["probed"], one["next_probe_in_s"] is None) == (probed, not probed)


def test_status_as_json_has_every_circuit_that_is_not_closed(asked, capsys):
    asked.open("search-api", signal="operator", mode="forced_open")
    status, found = ran_json(capsys, "status")
    assert (status, found["source"], found["stream"], found["agent"]) == (0, "server", True, "research")
    (one,) = found["not_closed"]
    assert (one["dependency"], one["effective"], one["mode"], one["tripped_by"]) == (
        "search-api", "open", "forced_open", "operator",
    )  # fmt: skip
    assert one["tools"] == ["web_search"] and 0 <= one["open_for_s"] < 60


def test_a_quiet_fleet_is_said_to_be_quiet(asked, capsys):
    assert "every circuit is closed" in run(capsys, "status")[1]


def test_status_of_a_control_plane_that_is_away_comes_from_the_disk_and_says_so(asked, capsys):
    save_documents(asked)
    with asked.away():
        status, out, _ = run(capsys, "status")
        assert (status, "agent     research in prod" in out) == (3, True)
        assert "gives no usable answer" in out and "what follows was saved" in out
        status, found = ran_json(capsys, "status")
    assert (status, found["source"], found["agent"]) == (3, "disk", "research")
    assert found["error"]["mend"] and found["age_s"] >= 0


def test_without_anything_saved_an_absent_control_plane_is_one_line(asked, capsys):
    with asked.away():
        status, out, err = run(capsys, "status")
    assert (status, out) == (3, "") and err.startswith("recloser status: ") and "look whether the address" in err


def test_check_passes_when_everything_works(asked, capsys):
    status, out, _ = run(capsys, "check")
    assert status == 0
    assert [line.split()[:2] for line in out.splitlines()[:5]] == [
        ["ok", "sdk"], ["ok", "key"], ["ok", "config"], ["ok", "circuits"], ["ok", "stream"],
    ]  # fmt: skip


def test_check_fails_when_no_stream_comes_through(asked, capsys):
    asked.streaming = False
    status, out, _ = run(capsys, "check", "--timeout", "0.5")
    assert status == 1 and "FAIL  stream" in out and "buffers /agent/v1/stream" in out
    assert ran_json(capsys, "check", "--timeout", "0.5")[1]["ok"] is False


def test_check_with_a_key_that_is_not_taken_names_the_mend(asked, capsys, monkeypatch):
    monkeypatch.setenv("RECLOSER_KEY", "rcl_other_secretsecret")
    status, out, err = run(capsys, "check")
    assert (status, out) == (4, "") and "bad_key" in err and "RECLOSER_KEY" in err and "secretsecret" not in err


@pytest.mark.parametrize("command", ["status", "check", "explain x"])
@pytest.mark.parametrize(("name", "mend"), [("URL", "set RECLOSER_URL"), ("KEY", "set RECLOSER_KEY")])
def test_a_missing_setting_is_named(asked, capsys, monkeypatch, command, name, mend):
    monkeypatch.delenv(f"RECLOSER_{name}")
    status, _, err = run(capsys, *command.split())
    assert status == 2 and mend in err
    status, found = ran_json(capsys, *command.split())
    assert status == 2 and mend in found["error"]["mend"]


@pytest.mark.parametrize("url", ["ftp://x", "localhost:8000", "http://", "http://[::1"])
def test_an_address_that_is_none_is_said_to_be_none(asked, capsys, url):
    assert run(capsys, "check", "--url", url)[0] == 2


@pytest.mark.parametrize("url", ["ftp://ann:hunter22@x", "http://ann:hunter22@127.0.0.1:1", "http://ann:hunter22@[::1"])
def test_a_password_in_the_address_is_not_printed(asked, capsys, url):
    status, out, err = run(capsys, "check", "--url", url)
    assert status in (2, 3) and err
    assert "hunter22" not in out + err


def test_a_key_with_strange_letters_is_refused_without_being_shown(asked, capsys, monkeypatch):
    monkeypatch.setenv("RECLOSER_KEY", "rcl_ключ")
    status, _, err = run(capsys, "check")
    assert status == 2 and "ключ" not in err


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (error(503, "unavailable", retry_after=2), 3),
        (error(403, "wrong_environment"), 4),
        (Scripted(200, body=b"<html>a portal</html>"), 3),
        (Scripted(200, body=b"[]"), 3),
        (Scripted(200, body=b'{"format": 99}'), 3),
        (Scripted(404, body=b"nothing here"), 3),
    ],
)
def test_every_answer_that_is_none_ends_with_its_status_and_a_mend(asked, capsys, answer, status):
    asked.script("config", answer)
    found = ran_json(capsys, "check")
    assert found[0] == status and found[1]["error"]["message"] and found[1]["error"]["mend"]


def test_explain_says_where_each_value_comes_from(asked, capsys):
    status, out, _ = run(capsys, "explain", "web_search")
    assert status == 0
    assert "web_search in prod: class read_only, confirmed, handled as read_only" in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.startswith("  ") and "(" not in line}
    assert rows["consecutive_failures"][1:] == ["4", "tool"] and rows["identical_calls"][1:] == ["3", "class"]
    assert "never_open" not in rows and "built-in defaults; --all shows them" in out
    assert "never_open" in run(capsys, "explain", "web_search", "--all")[1]


def test_explain_as_json_has_the_circuits_behind_the_tool(asked, capsys):
    asked.open("search-api")
    status, found = ran_json(capsys, "explain", "web_search")
    assert (status, found["source"]) == (0, "server")
    assert found["run"]["consecutive_failures"] == {"value": 4, "from": "tool"}
    assert found["dependencies"][0]["circuit"]["state"] == "open"


def test_a_tool_that_nobody_knows_gets_what_would_hold_and_status_1(asked, capsys):
    status, out, _ = run(capsys, "explain", "web_serch")
    assert status == 1 and "knows no such tool" in out and "handled as unknown" in out


def test_explain_works_from_the_disk_without_origins_and_says_so(asked, capsys):
    save_documents(asked)
    with asked.away():
        status, out, _ = run(capsys, "explain", "web_search")
        assert status == 3 and "where values come from is not saved" in out and "consecutive_failures" in out
        found = ran_json(capsys, "explain", "web_search")[1]
    assert found["source"] == "disk" and found["run"]["consecutive_failures"] == {"value": 4, "from": None}


def test_a_hostile_name_does_not_reach_the_terminal(asked, capsys):
    status, out, _ = run(capsys, "explain", "a\x1b[2J\nb/../?tool=web_search&x=%00")
    assert status == 1 and "\x1b" not in out
    assert run(capsys, "explain", "x" * 201)[0] == 2
    assert run(capsys, "explain", "")[0] == 2


LISTING = [
    {"server": "github", "tool": "get_me", "annotations": {"readOnlyHint": True}},
    {"server": "github", "tool": "delete_file", "annotations": {"readOnlyHint": False}},
    {"server": "shop", "tool": "frobnicate", "annotations": {"readOnlyHint": True}},
    {"server": "shop", "name": "orders", "annotations": None},
    {"server": "shop", "tool": "list_all", "annotations": {"readOnlyHint": False}},
]


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    path = tmp_path / "tools.jsonl"
    path.write_text("\n\n".join(map(json.dumps, LISTING)) + "\n", encoding="utf-8")
    return path


def test_classify_gives_each_tool_a_class_and_scores_the_names_with_the_hints_hidden(listing, capsys):
    status, found = ran_json(capsys, "classify", str(listing))
    assert status == 0
    assert [(one["tool"], one["class"], one["handled_as"]) for one in found["tools"]] == [
        ("get_me", "read_only", "unknown"),
        ("delete_file", "destructive", "destructive"),
        ("frobnicate", "unknown", "unknown"),
        ("orders", "unknown", "unknown"),
        ("list_all", "side_effect", "side_effect"),
    ]
    score = found["score"]
    assert (score["writes"], score["writes_caught"], score["writes_missed"]) == (2, 1, ["shop/list_all"])
    assert (score["reads"], score["reads_over_classified"]) == (2, 1)
    assert found["tools"][1]["line"] == 3 and found["classes"]["unknown"] == 2


def test_hints_loosen_for_a_trusted_server_only(listing, capsys):
    tools = ran_json(capsys, "classify", str(listing), "--trust", "shop")[1]["tools"]
    assert [(one["tool"], one["class"], one["handled_as"]) for one in tools][:3:2] == [
        ("get_me", "read_only", "unknown"), ("frobnicate", "read_only", "read_only"),
    ]  # fmt: skip
    status, _, err = run(capsys, "classify", str(listing), "--trust", "shopp")
    assert status == 2 and "no server 'shopp'" in err


def test_a_tool_that_is_listed_twice_is_one_tool_with_its_strictest_hints(tmp_path, capsys):
    path = tmp_path / "twice.jsonl"
    lines = [{"server": "g", "tool": "get_x", "annotations": {"readOnlyHint": says}} for says in (False, True)]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = ran_json(capsys, "classify", str(path))[1]
    assert [(one["class"], one["listed"]) for one in found["tools"]] == [("side_effect", 2)] * 2
    assert (found["score"]["writes"], found["score"]["reads"]) == (1, 0)
    assert "listed 2 times" in run(capsys, "classify", str(path))[1]


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b'"x"', b"{}", b'{"tool": 7}', b'{"tool": ""}', b'{"tool": "a", "annotations": [1]}', b"\xff\xfe",
     b'{"tool": "a", "server": 7}', b"[" * 100_000],
)  # fmt: skip
def test_a_bad_line_is_named_by_its_number(tmp_path, capsys, line):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"tool": "get_x"}\n\n' + line + b"\n")
    status, out, err = run(capsys, "classify", str(path))
    assert (status, out) == (2, "") and "line 3 " in err and "one object a line" in err


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path, capsys):
    status, _, err = run(capsys, "classify", str(tmp_path / "none.jsonl"))
    assert status == 2 and "No such file" in err
    assert run(capsys, "classify", str(tmp_path))[0] == 2


def test_hostile_names_are_classified_and_never_printed_raw(tmp_path, capsys):
    path = tmp_path / "hostile.jsonl"
    names = ["a\x1b[2J", "x" * 1_000_000, "\u202eresu_eteled", "a\nread_only  b", "\ud800"]
    path.write_text("\n".join(json.dumps({"tool": name}) for name in names), encoding="utf-8")
    status, out, _ = run(capsys, "classify", str(path))
    assert status == 0 and "\x1b" not in out and "\u202e" not in out and len(out) < 5_000
    assert len(out.splitlines()) == len(names) + 2
    assert "cannot be scored" in out


def test_the_installed_command_ends_quietly_when_its_reader_does(listing):
    done = subprocess.run(
        f"{sys.executable} -m recloser.cli classify {listing} | head -c 10",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout and done.stderr == ""


def test_a_terminal_that_lacks_a_letter_gets_its_number(tmp_path):
    path = tmp_path / "tools.jsonl"
    path.write_text('{"tool": "取得する"}\n', encoding="utf-8")
    command = [sys.executable, "-m", "recloser.cli", "classify", str(path)]
    done = subprocess.run(command, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, check=False)
    assert done.returncode == 0 and b"unknown" in done.stdout and b"\\u53d6" in done.stdout, done.stderr
