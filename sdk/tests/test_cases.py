"""Cases of the casebook that need an agent's whole way: a control plane, real sockets, a run from beginning to end."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from typing import Any

import pytest
from conftest import failing, until, working
from recloser import notices
from recloser.testing import Scripted, config_document

SEARCH = {"name": "web_search", "input_schema": {}}
OTHER = {"name": "db_lookup", "input_schema": {}}


def governed(plane, connect, *, circuit: dict[str, Any] | None = None, **tools: dict[str, Any]) -> Any:
    """A client that goes by this config already."""
    plane.config = config_document(tools=tools, circuit=circuit)
    client = connect()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7])
    return client


@pytest.mark.case("A09")
def test_a_run_that_lost_its_search_at_step_4_says_what_answered_at_step_6_and_the_record_says_so_too(plane, connect):
    client = governed(plane, connect, web_search={"run": {"consecutive_failures": 4}}, db_lookup={})
    with client.run("degraded") as run:
        for k in range(4):
            run.tools([SEARCH, OTHER])
            run.step()
            run.call("web_search", {"k": k}, failing)
        run.step()
        assert run.tools([SEARCH, OTHER]) == [OTHER]
        run.step()
        run.call("db_lookup", {}, working)
        run.replaced("web_search", by="db_lookup")
        result = run.finish("Here is the brief.")
    with client.run("healthy") as run:
        run.step()
        run.call("db_lookup", {}, working)
        healthy = run.finish("Here is the brief.")

    [item] = result.block["items"]
    assert (item["tool"], item["cause"], item["step"], item["replaced_by"]) == (
        "web_search", "consecutive_failures", 4, "db_lookup",
    )  # fmt: skip
    assert (result.degraded, result.disclosed, healthy.degraded) == (True, False, False)
    shown = result.text_with_disclosure("Here is the brief.")
    assert "web_search" in shown and "db_lookup" in shown
    assert client.flush(5)
    told = {one["task_kind"]: one for one in plane.stored("runs") if one["status"] == "finished"}
    assert (told["degraded"]["degraded"], told["degraded"]["missing"][0]["tool"]) == (True, "web_search")
    assert (told["healthy"]["degraded"], told["healthy"]["missing"]) == (False, [])


@pytest.mark.case("A10")
@pytest.mark.parametrize(("estimate", "admitted"), [(40, 0), (20, 1)])
def test_three_that_ask_at_once_for_what_is_left_of_a_budget_never_spend_more_than_one_of_them(
    plane, connect, estimate, admitted
):
    """100 units, 80 are spent; what will cost 40 is asked for at its price, and by who thinks that it is cheaper."""
    client = connect()
    run = client.run(token_budget=100)
    for _ in range(2):
        assert run.step(40)
        run.used(tokens=40)
    barrier, answers = threading.Barrier(3), []

    def agent() -> None:
        barrier.wait(5)
        answers.append(run.step(estimate))
        if answers[-1]:
            run.used(tokens=40)

    threads = [threading.Thread(target=agent) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)

    assert sum(answers) == admitted
    assert run.end_cause == "token_budget"
    run.finish()
    assert client.flush(5)
    assert plane.stored("runs")[-1]["tokens"] == 80 + 40 * admitted <= 120


@pytest.mark.case("A11")
def test_a_server_that_accepts_a_call_and_never_answers_costs_one_timeout_for_run_and_dependency(plane, connect):
    """The limit is a hundredth of the case's 20 s; the answer comes when all has been told."""
    client = governed(plane, connect, web_search={"dependencies": ["search-api"], "run": {"call_timeout_s": 0.2}})
    accepted: list[socket.socket] = []
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def asking(**_: Any) -> bytes:
            with socket.create_connection(server.getsockname()) as connection:
                connection.sendall(b"a question")
                answer = connection.recv(100)
            ended.set()
            return answer

        with client.run() as run:
            run.step()
            assert run.call("web_search", {}, asking)["error"] == "timeout"
            assert client.flush(5)
            assert plane.counts("web_search") == {"timeout": 1}
            accepted.append(server.accept()[0])
            accepted[0].sendall(b"a late answer")
            assert ended.wait(10)
            run.step()
            assert run.call("web_search", {"k": 2}, lambda **_: "in time") == "in time"
        accepted[0].close()
    assert client.flush(5)

    assert plane.counts("web_search") == {"timeout": 1, "ok": 1}
    observed = [part for part in plane.stored("observations") if part["counts"].get("timeout")]
    assert {part["dependency"] for part in observed} == {"search-api"}
    assert 200 <= max(part["latency_ms"]["max"] for part in observed) < 2000


@pytest.mark.case("A12")
def test_the_notice_of_a_loop_repeats_nothing_of_the_call_and_stands_once_a_request(plane, connect):
    """web_search opens by identical calls at step 7."""
    removing = {"identical_calls": 3, "identical_calls_action": "remove_tool"}
    client = governed(plane, connect, web_search={"run": removing})
    call = {"query": "acme quarterly figures", "secret": "hunter2"}
    with client.run() as run:
        for k in range(4):
            run.tools([SEARCH, OTHER])
            run.step()
            run.call("db_lookup", {"k": k}, lambda k: k)
        for _ in range(3):
            assert run.notice() is None
            run.step()
            run.call("web_search", call, lambda **_: ["the same"])
        requests = []
        for _ in range(3):
            run.tools([SEARCH, OTHER])
            requests.append(run.notice())
            run.step()
        result = run.finish("Done without the search; web_search was unavailable.")

    assert (result.block["items"][0]["cause"], result.block["items"][0]["step"]) == ("identical_calls", 7)
    assert len(set(requests)) == 1, "the same one, whole, for each request: nothing piles up"
    [text] = set(requests)
    assert text.count("web_search") == 1 and "rest of this task" in text
    assert not any(word in text for word in ("acme", "hunter2", "query", "secret"))
    assert any(way in text.lower() for way in ("without", "instead", "ask", "answer")), "it names a way on"
    assert len(text) <= 400 and notices.inviting(text) is None


@pytest.mark.case("G01")
def test_a_lone_tool_without_a_fallback_opens_like_any_other(plane, connect):
    client = governed(
        plane, connect,
        circuit={"worker_consecutive_failures": None},
        web_search={"run": {"consecutive_failures": 4}},
        exempt={"run": {"consecutive_failures": 4, "dependency_consecutive_failures": 4, "never_open": True}},
    )  # fmt: skip
    with client.run() as run:
        run.tools([SEARCH])
        for k in range(4):
            assert run.tools([SEARCH]) == [SEARCH]
            run.step()
            run.call("web_search", {"k": k}, failing)
        assert run.tools([SEARCH]) == []
        assert run.call("web_search", {"k": 9}, working)["status"] == "unavailable"
        for k in range(9):
            run.step()
            run.call("exempt", {"k": k}, failing)
        assert run.call("exempt", {"k": 99}, working) == "found"


@pytest.mark.case("C02")
def test_after_an_older_answer_that_came_late_the_next_request_bears_the_newer_tag(plane, connect):
    plane.streaming = False
    plane.config = config_document(version=13)
    client = connect()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 13])
    late = json.dumps(config_document(version=12)).encode()
    asked = len(plane.asked("config"))
    plane.script("config", *[Scripted(200, body=late, headers={"ETag": '"e1-12"'}) for _ in range(3)])

    assert plane.wait(lambda: len(plane.asked("config")) >= asked + 5, 10.0)

    assert client.status()["config"]["version"] == ["e1", 13]
    assert {headers["if-none-match"] for _, _, headers, _ in plane.asked("config")[asked:]} == {'"e1-13"'}


@pytest.mark.case("C06")
def test_thirty_seven_trips_and_an_upload_that_fails_twice(plane, connect):
    """37 wait; 503; 503 after they were stored; 200: each is there exactly once."""
    tools = {f"tool_{n}": {"run": {"consecutive_failures": 1}} for n in range(37)}
    client = governed(plane, connect, **tools)
    held = threading.Event()
    plane.script("batch", Scripted(503, body=b"{}", hang_until=held), Scripted(503, body=b"{}", store=True))
    with client.run() as run:
        for name in tools:
            run.step()
            run.call(name, {}, failing)
        held.set()
    assert client.flush(10)

    assert set(Counter(trip["id"] for trip in plane.stored("trips")).values()) == {1}
    withdrawn = [trip["tool"] for trip in plane.stored("trips") if trip["signal"] == "consecutive_failures"]
    assert sorted(withdrawn) == sorted(tools)


@pytest.mark.case("B21")
def test_a_flood_of_dependencies_leaves_this_workers_open_breakers_alone(local):
    """Twenty thousand names that fail once each, three that are down."""
    down = [f"down_{n}" for n in range(3)]
    for k in range(5):
        with local.run() as run:
            for name in down:
                run.call(name, {"k": k}, failing)
    for first in range(0, 20_000, 1000):
        with local.run() as run:
            for n in range(first, first + 1000):
                run.call(f"name_{n}", {}, failing)
        local.fold()
        assert len(local.breakers) <= 500
    assert local.status()["worker_open"] == down
    with local.run() as run:
        assert [run.call(name, {}, working)["status"] for name in down] == ["unavailable"] * 3
        assert run.call("name_0", {}, working) == "found"
    for k in range(5):
        with local.run() as run:
            run.call("newcomer", {"k": k}, failing)
    local.fold()
    assert "newcomer" in local.status()["worker_open"], "after the flood a new dependency is protected as ever"
