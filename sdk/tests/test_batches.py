"""Telemetry: sent soon, never lost, never doubled, whatever the server answers."""

from __future__ import annotations

import time
import types
from collections.abc import Callable

import pytest
from conftest import FAST, failing, until, working
from recloser import Client
from recloser.link import Pace
from recloser.testing import FakeControlPlane, Scripted, error


def calls(client: Client, n: int, fn: Callable[..., object] = working, tool: str = "web_search") -> None:
    with client.run("brief") as run:
        for k in range(n):
            run.call(tool, {"q": k}, fn)


def test_finished_calls_arrive_with_their_outcomes_and_times(plane, connect):
    client = connect()
    calls(client, 3)
    calls(client, 1, failing)

    assert client.flush(5)

    assert plane.counts("web_search") == {"ok": 3, "retryable_error": 1}
    batch = plane.batches[-1]
    assert batch["instance"] == "pod-1" and batch["format"] == 1 and batch["sdk"].startswith("python/")
    part = next(part for part in plane.stored("observations") if "retryable_error" in part["counts"])
    assert part["streak"] == 1
    assert part["samples"][0]["error"] == "ToolFailure"
    assert sum(part["latency_ms"]["hist"]) == sum(part["counts"].values())
    assert plane.stored("observations")
    assert all(part["age_s"] < 5 for part in plane.stored("observations"))


def test_a_failure_does_not_wait_for_the_next_flush(plane, connect):
    plane.flush_s = 30.0
    client = connect(pace=Pace(flush_s=30.0))
    assert until(lambda: plane.batches)  # the first, empty one: from now on 30 s are agreed
    before = time.monotonic()

    with client.run() as run:
        run.call("web_search", {}, failing)
        assert plane.wait(lambda: plane.counts("web_search") == {"retryable_error": 1}, 2.0)

    assert time.monotonic() - before < 1.0  # 50 ms and a slow machine


def test_successes_and_failures_travel_together(plane, connect):
    plane.flush_s = 30.0
    client = connect(pace=Pace(flush_s=30.0))
    assert until(lambda: plane.batches)
    with client.run() as run:
        for n in range(9):
            run.call("web_search", {"n": n}, working)
        run.call("web_search", {}, failing)
        assert plane.wait(lambda: plane.counts("web_search") == {"ok": 9, "retryable_error": 1}, 2.0)


@pytest.mark.case("C06")
def test_trips_are_stored_once_when_the_answer_to_their_batch_was_lost(plane, connect):
    """C06: 503 twice, the second after the server had stored them, then 200."""
    plane.script("batch", error(503, "unavailable", retry_after=0), Scripted(503, store=True))
    client = connect()
    runs = [client.run() for _ in range(37)]
    for run in runs:
        for n in range(3):
            run.call("web_search", {"n": n}, failing)
    for run in runs:
        run.finish()

    assert client.flush(10)

    trips = [trip for trip in plane.stored("trips") if trip["scope"] == "run" and trip["dependency"] == "web_search"]
    assert len({trip["id"] for trip in trips}) == len(trips)
    by_run = {(trip["run"], trip["signal"]) for trip in trips}
    lost_to_worker = {run["id"] for run in plane.stored("runs") if run["missing"][0]["scope"] == "worker"}
    assert len({run for run, _ in by_run} | lost_to_worker) == 37
    assert [batch["seq"] for batch in plane.batches] == list(range(1, len(plane.batches) + 1))
    assert len({run["id"] for run in plane.stored("runs") if run["status"] == "finished"}) == 37


def test_a_batch_is_sent_again_unchanged_but_for_its_ages(plane, connect):
    plane.flush_s = 30.0
    client = connect()
    assert plane.wait(lambda: plane.batches)  # the first, empty one
    plane.script("batch", *[error(503, "unavailable") for _ in range(3)])
    calls(client, 4)
    assert client.flush(5)

    first, again = plane.attempts[1], plane.attempts[2]
    assert first["seq"] == again["seq"] == 2
    assert [part["counts"] for part in first["observations"]] == [part["counts"] for part in again["observations"]]
    assert first["observations"]
    assert all(
        later["age_s"] >= sooner["age_s"]
        for sooner, later in zip(first["observations"], again["observations"], strict=True)
    )
    assert plane.counts("web_search") == {"ok": 4}


def test_counts_go_on_merging_while_nothing_can_be_sent(plane, connect):
    plane.script("batch", *[error(503, "unavailable") for _ in range(8)])
    client = connect()
    for _ in range(20):
        calls(client, 10)
    assert client.flush(10)
    assert plane.counts("web_search") == {"ok": 200}


@pytest.mark.parametrize(
    "cut", [Scripted(200, body=b""), Scripted(200, body=b'{"ack": 1', cut=True), Scripted(200, body=b"[1]")]
)
def test_an_answer_that_cannot_be_read_is_no_acknowledgement(plane, connect, cut):
    cut.store = True
    plane.script("batch", cut)
    client = connect()
    calls(client, 5)
    assert client.flush(5)
    assert plane.counts("web_search") == {"ok": 5}


def test_the_entry_that_a_422_names_is_dropped_and_the_rest_is_sent_with_the_same_number(plane, connect):
    plane.flush_s = 30.0
    client = connect(pace=Pace(flush_s=30.0))
    assert until(lambda: plane.batches)
    plane.script("batch", error(422, "bad_field", field="observations[0].counts.ok"))
    calls(client, 1, tool="first")
    calls(client, 1, tool="second")
    assert client.flush(5)
    assert plane.attempts[-1]["seq"] == plane.attempts[-2]["seq"]
    assert plane.counts("first") == {} and plane.counts("second") == {"ok": 1}
    assert client.status()["outbox"]["dropped"] == 1


def test_a_batch_that_is_too_large_is_split(plane, connect):
    plane.flush_s = 30.0
    client = connect(pace=Pace(flush_s=30.0))
    assert until(lambda: plane.batches)
    plane.script("batch", error(413, "too_large"), error(413, "too_large"))
    for n in range(6):
        calls(client, 1, tool=f"tool_{n}")
    assert client.flush(5)
    assert until(lambda: all(plane.counts(f"tool_{n}") == {"ok": 1} for n in range(6)))
    assert len({run["id"] for run in plane.stored("runs")}) == 6


def test_a_foreign_session_is_left_for_a_new_one(plane, connect):
    plane.script("batch", error(409, "foreign_session"))
    client = connect()
    calls(client, 2)
    assert client.flush(5)
    assert plane.counts("web_search") == {"ok": 2}
    assert plane.attempts[0]["session"] != plane.batches[0]["session"]
    assert plane.batches[0]["seq"] == 1


def test_a_revoked_key_slows_everything_down_and_says_so(plane, connect):
    plane.key = "rcl_other"
    client = Client(plane.url, "rcl_wrong", cache_dir=False, pace=FAST)
    try:
        assert until(lambda: (client.status()["problem"] or "").startswith("401"))
        asked = len(plane.requests)
        calls(client, 3)
        time.sleep(0.6)  # longer than every fast timer
        assert len(plane.requests) - asked <= 1
    finally:
        client.close(0.1)


def test_the_server_sets_the_pace_and_may_ask_for_what_is_held(plane, connect):
    client = connect(pace=Pace(flush_s=0.1))
    plane.flush_s = 60.0
    assert until(lambda: plane.batches)
    calls(client, 2)
    assert until(lambda: plane.streams)
    plane.send("flush", {"dependencies": ["web_search"], "within_ms": 50})
    assert plane.wait(lambda: plane.counts("web_search") == {"ok": 2}, 2.0)


def test_an_idle_client_says_that_it_lives_and_by_which_documents(plane, connect):
    client = connect()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7])
    assert plane.wait(lambda: plane.batches)
    assert plane.batches[0]["observations"] == []


def test_a_run_is_reported_when_it_begins_to_be_degraded_and_when_it_ends(plane, connect):
    client = connect()
    with client.run("brief", step_limit=20) as run:
        run.tools([{"name": "web_search"}, {"name": "db_lookup"}])
        for n in range(3):
            assert run.step(100)
            run.used(tokens=120, seconds=0.5, cost=0.01)
            run.call("web_search", {"n": n}, failing)
        assert plane.wait(lambda: any(one["degraded"] for one in plane.stored("runs")), 3.0)
        running = plane.stored("runs")[-1]
        run.finish("Nothing was found.")
    assert client.flush(5)

    last = plane.stored("runs")[-1]
    assert running["status"] == "running" and running["step_log"] == []
    assert last["status"] == "finished" and last["revision"] > running["revision"]
    assert last["tokens"] == 360 and last["steps"] == 3 and last["step_limit"] == 20
    assert last["missing"][0]["tool"] == "web_search" and last["missing"][0]["cause"] == "consecutive_failures"
    assert last["disclosed"] is False and "web_search" in last["disclosure"]
    assert [line["outcome"] for line in last["step_log"]] == ["retryable_error"] * 3
    assert last["tools"] == ["web_search", "db_lookup"]


def test_a_run_that_an_exception_leaves_is_reported_as_ended(plane, connect):
    client = connect()
    with pytest.raises(ZeroDivisionError), client.run() as run:
        run.call("web_search", None, working)
        raise ZeroDivisionError
    assert client.flush(5)
    last = plane.stored("runs")[-1]
    assert last["status"] == "ended" and last["end_cause"] == "error:ZeroDivisionError"
    assert last["step_log"]


def test_memory_is_bounded_by_names_not_by_calls(local):
    from recloser.core.types import Outcome
    from recloser.outbox import MAX_KEYS, OTHER, Outbox

    outbox = Outbox()
    for n in range(MAX_KEYS * 2):
        outbox.slice_of(f"tool-{n}", f"tool-{n}", 0, None, 1.0).add(Outcome.OK, at=1.0, seconds=0.1)
    for second in range(500):
        outbox.slice_of("tool-1", "tool-1", 0, None, second).add(Outcome.OK, at=second, seconds=0.1)
        outbox.cut(float(second), window_s=60.0)
    assert outbox.waiting <= 3 * MAX_KEYS
    sent: list[dict] = []
    while (batch := outbox.seal()) is not None:
        sent += batch.to_wire(600.0)["observations"]
        outbox.acknowledge(batch.seq)
    assert sum(part["counts"]["ok"] for part in sent) == MAX_KEYS * 2 + 500
    assert any(part["tool"] == OTHER for part in sent)


def test_a_fake_plane_speaks_for_itself(plane: FakeControlPlane):
    assert plane.url.startswith("http://127.0.0.1:")


def test_a_call_that_ended_just_before_the_close_is_told(plane, connect):
    plane.flush_s = 60.0
    client = connect()
    assert plane.wait(lambda: plane.batches)
    client.run().call("web_search", {}, working)
    client.close(5.0)
    assert plane.counts("web_search") == {"ok": 1}


def test_the_parents_report_holds_what_its_child_lacked(plane, connect):
    client = connect()
    with client.run("supervise") as parent:
        with client.run("search", parent=parent) as child:
            for k in range(3):
                child.step()
                child.call("web_search", {"k": k}, failing)
        assert plane.wait(lambda: any(one["id"] == parent.id and one["degraded"] for one in plane.stored("runs")), 5.0)
    assert client.flush(5)
    last = [one for one in plane.stored("runs") if one["id"] == parent.id][-1]
    assert last["degraded"] and last["missing"][0]["tool"] == "web_search" and last["missing"][0]["run"] == child.id


class HostileTool:
    """Nothing can be asked of it."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


READS = {"readOnlyHint": True, "openWorldHint": False}


def test_what_a_tool_says_of_itself_is_told_once_with_its_first_call(plane, connect):
    """MCP's annotations, in whatever shape the array has; of tools that nobody calls, nothing."""
    client = connect()
    annotated = types.SimpleNamespace(readOnlyHint=False, destructiveHint=True, idempotentHint=None, title="Drop")
    array = [
        {"name": "search", "annotations": {**READS, "title": "Search", "idempotentHint": "yes"}},
        types.SimpleNamespace(name="drop", annotations=annotated),
        {"type": "function", "function": {"name": "plain"}},
        {"name": "never_called", "annotations": READS},
    ]
    for _ in range(2):
        with client.run() as run:
            assert run.tools(array) == array
            for name in ("search", "drop", "plain"):
                run.call(name, {}, working)
        assert client.flush(5)
    assert sorted(plane.stored("hints"), key=str) == [
        {"tool": "drop", "readOnlyHint": False, "destructiveHint": True},
        {"tool": "search", **READS},
    ]


def test_hints_of_a_listing_are_told_without_an_array_and_again_where_they_change(plane, connect):
    client = connect()
    client.hints([{"name": "search", "annotations": READS}])
    for told in (READS, READS, {"readOnlyHint": False}):
        client.hints([{"name": "search", "annotations": told}])
        client.run().call("search", {}, working)
        assert client.flush(5)
    assert plane.stored("hints") == [{"tool": "search", **READS}, {"tool": "search", "readOnlyHint": False}]


@pytest.mark.parametrize("refusal", [error(422, "bad_field", field="hints[0].tool"), error(413, "too_large")])
def test_hints_that_are_refused_cost_no_observation(plane, connect, refusal):
    plane.flush_s = 30.0
    client = connect(pace=Pace(flush_s=30.0))
    assert until(lambda: plane.batches)
    plane.script("batch", refusal)
    client.hints([{"name": "search", "annotations": READS}])
    calls(client, 1, tool="search")
    assert client.flush(5)
    assert plane.stored("hints") == [] and plane.counts("search") == {"ok": 1}


@pytest.mark.parametrize("tools", [None, 5, [5], [{"name": "search", "annotations": 5}], [HostileTool()]])
def test_hints_that_cannot_be_read_say_nothing(plane, connect, tools):
    client = connect()
    client.hints(tools)
    client.run().call("search", {}, working)
    assert client.flush(5)
    assert plane.stored("hints") == []
