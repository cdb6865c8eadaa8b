"""recloser.testing as an agent's author uses it: outages by a line, tools that fail to order, time that moves on."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from recloser.testing import (
    Clock,
    FakeControlPlane,
    ToolFailure,
    assert_degraded,
    assert_disclosed,
    assert_healthy,
    assert_notice,
    assert_unavailable,
    scripted,
)

TOOLS = [{"name": "web_search"}, {"name": "mail"}]


@pytest.fixture
def searching(plane: FakeControlPlane) -> FakeControlPlane:
    plane.tool("web_search", dependencies=["search-api"])
    plane.tool("mail", dependencies=["mail-api"], side_effect="side_effect")
    return plane


def test_inside_an_outage_the_tool_is_gone_and_after_it_later_runs_have_it(searching):
    client, tool = searching.client(), scripted("found")
    with searching.outage("search-api"), client.run("brief") as run:
        assert run.step() and run.tools(TOOLS) == [{"name": "mail"}]
        assert_unavailable(run.call("web_search", {"q": "x"}, tool), "web_search")
        assert_notice(run, "web_search")
        result = run.finish("Done.")
    assert tool.calls == []
    assert_degraded(result, "web_search")
    with client.run("brief") as run:
        assert run.tools(TOOLS) == TOOLS
        assert run.call("web_search", {"q": "x"}, tool) == "found"
        assert_healthy(run.finish("Done."))


def test_a_tool_that_fails_to_order_is_withdrawn_in_its_run(searching):
    client = searching.client()
    tool = scripted(TimeoutError(), ToolFailure(status_code=503))
    with client.run() as run:
        run.tools(TOOLS)
        for k in range(5):
            run.step()
            run.call("web_search", {"k": k}, tool)
        assert run.tools(TOOLS) == [{"name": "mail"}]
        assert_degraded(run.finish("I could not search."), "web_search")
    assert len(tool.calls) == 5
    assert searching.report(run)["missing"][0]["cause"] == "consecutive_failures"


def test_the_last_answer_of_a_script_lasts_and_awaited_tools_are_awaited(searching):
    client = searching.client()

    async def agent() -> list[object]:
        async with client.run() as run:
            run.step()
            tool = scripted(TimeoutError, "found", awaited=True)
            return [await run.acall("web_search", {"k": k}, tool) for k in range(3)]

    first, *rest = asyncio.run(agent())
    assert first["error"] == "timeout" and rest == ["found", "found"]
    with pytest.raises(ValueError, match="needs an answer"):
        scripted()


def test_each_check_fails_when_what_it_asks_for_is_not_so(searching):
    client = searching.client()
    with client.run() as run:
        run.tools(TOOLS)
        with pytest.raises(AssertionError, match="no notice"):
            assert_notice(run, "web_search")
        with pytest.raises(AssertionError, match="reached the tool"):
            assert_unavailable(run.call("web_search", {}, scripted("found")))
        healthy = run.finish("Done.")
    with pytest.raises(AssertionError, match="not degraded"):
        assert_degraded(healthy)
    assert_disclosed(healthy)
    with searching.outage("search-api"), client.run() as run:
        run.step()
        run.tools(TOOLS)
        with pytest.raises(AssertionError, match="not mail"):
            assert_unavailable(run.call("web_search", {}, scripted("found")), "mail")
        with pytest.raises(AssertionError, match="does not name mail"):
            assert_notice(run, "mail")
        degraded = run.finish("Everything went well.")
    with pytest.raises(AssertionError, match="mail was not missing"):
        assert_degraded(degraded, "mail")
    with pytest.raises(AssertionError, match="text_with_disclosure"):
        assert_disclosed(degraded)
    with pytest.raises(AssertionError, match="it lacked"):
        assert_healthy(degraded)


def test_a_control_plane_that_is_away_keeps_nobody_from_working(searching):
    client = searching.client()
    searching.open("search-api")
    with searching.away(), client.run() as run:
        assert run.tools(TOOLS) == [{"name": "mail"}]
        result = run.finish("I could not use web_search.")
    assert result.degraded
    assert searching.report(run)["missing"][0]["tool"] == "web_search"


def test_a_report_of_a_run_that_never_ended_is_an_error(searching, monkeypatch):
    monkeypatch.setattr("recloser.testing.plane.PATIENCE_S", 0.05)
    with pytest.raises(AssertionError, match="was it finished"):
        searching.report(searching.client().run())


def test_a_client_without_a_thread_hears_of_an_outage_when_its_run_begins(searching):
    client = searching.client(mode="invocation")
    with searching.outage("search-api"), client.run() as run:
        assert run.tools(TOOLS) == [{"name": "mail"}]


def test_time_moves_on_for_a_runs_wall_clock(searching):
    client, clock = searching.client(), Clock()
    with client.run(wall_clock_s=60.0) as run:
        assert run.step()
        clock.advance(59)
        assert run.step()
        clock.advance(2)
        assert not run.step() and run.end_cause == "wall_clock"
    with pytest.raises(ValueError, match="time moves on"):
        clock.advance(-1)


def test_time_moves_on_for_the_workers_own_breaker(searching):
    client, clock = searching.client(), Clock()
    for k in range(5):
        with client.run() as run:
            run.step()
            run.call("web_search", {"k": k}, scripted(TimeoutError()))
    with client.run() as run:
        assert run.tools(TOOLS) == [{"name": "mail"}]
    clock.advance(120)
    with client.run() as run:
        assert run.tools(TOOLS) == TOOLS
        assert run.call("web_search", {}, scripted("found")) == "found"


def test_time_moves_on_for_an_operators_override(searching):
    client, clock = searching.client(), Clock()
    searching.set_circuit(
        "search-api", state="closed", mode="forced_open", cause="operator", mode_expires_at=searching.now() + 300
    )
    searching.open("mail-api")  # and waits until both are known
    with client.run() as run:
        assert run.tools(TOOLS) == []
    clock.advance(301)
    with client.run() as run:
        assert run.tools(TOOLS) == [{"name": "web_search"}]


SESSION = """
    import os, sys

    TOOLS = [{"name": "web_search"}]

    def test_a(recloser_plane, recloser_client, recloser_clock):
        recloser_plane.tool("web_search", dependencies=["search-api"])
        with recloser_plane.outage("search-api"), recloser_client.run() as run:
            assert run.tools(TOOLS) == []
        recloser_clock.advance(1)
        assert os.environ["RECLOSER_URL"] == recloser_plane.url

    def test_b(recloser_plane):
        from recloser import Client
        with Client() as client:
            assert client.flush(5)

    def test_c():
        assert "RECLOSER_URL" not in os.environ
"""
BARE = """
    import sys

    def test_nothing_of_the_sdk_is_imported():
        assert [name for name in sys.modules if name.split(".")[0] == "recloser"] == []
"""


def session(folder: Path, text: str, *args: str) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, with the plugin as its entry point loads it, and warnings as errors."""
    (folder / "test_it.py").write_text(textwrap.dedent(text), encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RECLOSER", "PYTEST"))}
    clean["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the plugins of this environment are not the subject, and slow
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "recloser_pytest", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--rootdir", str(folder), *args],
        cwd=folder, env=clean, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_plugins_fixtures_work_in_a_session_of_somebody_else(tmp_path):
    done = session(tmp_path, SESSION)
    assert re.search(r"3 passed", done.stdout), done.stdout + done.stderr


def test_a_session_that_does_not_use_the_plugin_does_not_load_the_sdk(tmp_path):
    done = session(tmp_path, BARE)
    assert re.search(r"1 passed", done.stdout), done.stdout + done.stderr
