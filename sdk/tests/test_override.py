"""The break-glass file: it forces here and now, says so later, and never costs a run anything."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import FAST, failing, until, working
from recloser import Client
from recloser.testing import FakeControlPlane, config_document

TOOL = {"name": "web_search"}
DAY = 86_400.0


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "override.json"
    monkeypatch.setenv("RECLOSER_OVERRIDE", str(path))
    monkeypatch.setattr("recloser.client.LOOK_EVERY_S", 0.0)
    return path


def write(path: Path, *entries: Any) -> None:
    """As an editor does: a new file in the place of the old one."""
    whole = path.with_suffix(".new")
    whole.write_text(json.dumps({"overrides": list(entries)}), "utf-8")
    whole.replace(path)


def force(mode: str = "forced_open", *, seconds: float = DAY, **more: Any) -> dict[str, Any]:
    given = {"tool": "web_search"} if "dependency" not in more else {}
    return {**given, "mode": mode, "expires_at": time.time() + seconds, "reason": "leaks", "who": "dana", **more}


def answer(client: Client) -> Any:
    with client.run() as run:
        run.tools([TOOL])
        return run.call("web_search", {}, working)


def test_a_forced_tool_is_gone_at_the_next_step_and_back_when_the_file_is(file, local):
    with local.run() as run:
        run.step()
        assert run.tools([TOOL]) == [TOOL]
        write(file, force())
        run.step()
        assert run.tools([TOOL]) == [] and "operator" in run.notice()
        assert run.call("web_search", {}, working)["status"] == "unavailable"
        result = run.finish()
    assert result.block["items"][0]["cause"] == "operator"
    assert answer(local)["status"] == "unavailable"
    file.unlink()
    assert answer(local) == "found"


def test_a_forced_dependency_takes_all_its_tools(file, plane, connect):
    plane.config = config_document(tools={name: {"dependencies": ["search-api"]} for name in ("web_search", "news")})
    client = connect()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7])
    write(file, force(dependency="search-api"))
    with client.run() as run:
        assert run.tools([TOOL, {"name": "news"}, {"name": "mail"}]) == [{"name": "mail"}]


def test_forced_closed_admits_though_the_fleets_circuit_is_open(file, plane, connect):
    client = connect()
    plane.set_circuit("web_search", state="open", cause="failure_rate")
    assert until(lambda: answer(client) != "found")
    write(file, force("forced_closed"))
    assert answer(client) == "found"


def test_forced_closed_never_overrides_a_runs_own_memory(file, local):
    write(file, force("forced_closed"))
    with local.run() as run:
        for k in range(3):
            run.step()
            run.call("web_search", {"k": k}, failing)
        run.step()
        assert run.call("web_search", {}, working)["status"] == "unavailable"


def test_an_override_ends_by_itself(file, local):
    write(file, force(seconds=0.2))
    assert answer(local)["status"] == "unavailable"
    assert until(lambda: answer(local) == "found", 5.0)
    write(file, force(seconds=-5))
    assert answer(local) == "found"


def test_a_date_with_its_zone_is_an_instant(file, local):
    write(file, force(expires_at="2999-01-01T00:00:00Z"))
    assert answer(local)["status"] == "unavailable"
    [told] = local.status()["overrides"]["in_force"]
    assert told["who"] == "dana" and told["reason"] == "leaks" and told["mode"] == "forced_open"


BAD: list[tuple[Any, str]] = [
    ("{", "not JSON"),
    ("[]", "overrides"),
    ('{"overides": []}', "overrides"),
    ([3], "overrides[0] must be an object"),
    ([force(mood="bad")], "overrides[0].mood"),
    ([force(), force("open")], "overrides[1].mode"),
    ([{"tool": "a", "mode": "forced_open"}], "overrides[0].expires_at is required"),
    ([force(expires_at="2026-11-30T04:00:00")], "overrides[0].expires_at"),
    ([force(expires_at=True)], "overrides[0].expires_at"),
    ([force(tool=3)], "overrides[0].tool"),
    ([force(tool="")], "overrides[0].tool"),
    ([force(reason="x" * 501)], "overrides[0].reason"),
    ([{**force(), "dependency": "x"}], "a tool or a dependency"),
    ([{"mode": "forced_open", "expires_at": 1}], "a tool or a dependency"),
    ("[" * 100_000, "not JSON"),
    ([force()] * 201, "at most 200"),
    (" " * 1_100_000, "1 MiB"),
]


@pytest.mark.parametrize(("content", "field"), BAD, ids=range(len(BAD)))
def test_a_bad_file_is_one_warning_that_names_the_field(file, local, caplog, content, field):
    text = content if isinstance(content, str) else json.dumps({"overrides": content})
    file.write_text(text, "utf-8")
    with caplog.at_level(logging.WARNING, "recloser"):
        for _ in range(3):
            assert answer(local) == "found"
    [record] = caplog.records
    assert field in record.getMessage()
    assert local.status()["overrides"]["problem"]


def test_bytes_that_are_no_text_and_a_folder_are_bad_files(file, local, caplog):
    file.write_bytes(b"\xff\xfe\x00")
    assert answer(local) == "found"
    file.unlink()
    file.mkdir()
    assert answer(local) == "found"
    assert local.status()["overrides"]["problem"]


def test_a_bad_file_leaves_what_the_last_good_one_said(file, local):
    write(file, force())
    assert answer(local)["status"] == "unavailable"
    file.write_text("{", "utf-8")
    assert answer(local)["status"] == "unavailable"


def test_it_is_read_again_only_when_it_has_changed(file, local, monkeypatch):
    write(file, force())
    assert answer(local)["status"] == "unavailable"
    read: list[object] = []
    opened: Callable[..., Any] = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *a, **k: (read.append(self), opened(self, *a, **k))[1])
    for _ in range(5):
        answer(local)
    assert file not in read
    os.utime(file, ns=(1, 1))
    answer(local)
    assert read.count(file) == 1


def test_it_is_told_to_the_control_plane_when_there_is_one_again(tmp_path, file):
    with FakeControlPlane() as plane:
        port, key = plane.port, plane.key
    client = Client(f"http://127.0.0.1:{port}", key, cache_dir=False, pace=FAST)
    write(file, force(), force("forced_closed", dependency="mail-api", reason="line\nbreak"))
    assert answer(client)["status"] == "unavailable"
    file.unlink()
    assert answer(client) == "found"
    with FakeControlPlane(port=port) as plane:
        assert plane.wait(lambda: any("overrides" in batch for batch in plane.batches), 10.0)
        told = [one for batch in plane.batches for one in batch.get("overrides", [])]
        client.close(0.5)
    assert [(one["tool"], one["dependency"], one["mode"], one["who"]) for one in told] == [
        ("web_search", None, "forced_open", "dana"),
        (None, "mail-api", "forced_closed", "dana"),
    ]
    assert told[1]["reason"] == "line break" and told[0]["age_s"] >= 0 and DAY - 60 < told[0]["expires_in_s"] <= DAY


def test_a_process_that_only_calls_hears_of_it_too(file, plane, connect):
    client = connect()
    run = client.run()
    assert run.call("web_search", {}, working) == "found"
    write(file, force())
    k = iter(range(10**9))
    assert until(lambda: run.call("web_search", {"k": next(k)}, working) != "found", 5.0)
