"""Functions that are frozen between invocations: no thread, a budget of time, and no age misjudged."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import pytest
from conftest import FAST, failing, working
from recloser import Client, Pace
from recloser.testing import FakeControlPlane, Scripted, config_document, error

SLOW = Pace(poll_config_s=60.0, poll_circuits_s=60.0, retry_base_s=0.05, retry_cap_s=0.1)


@pytest.fixture
def invoked(connect):
    """Make clients for a frozen function."""
    return lambda **more: connect(**({"mode": "invocation", "pace": SLOW} | more))


def invoke(client: Client, n: int = 1, fn: Any = working) -> Any:
    with client.run("handler") as run:
        run.step()
        return [run.call("web_search", {"k": k}, fn) for k in range(n)]


def sleep(client: Client, seconds: float) -> None:
    """Let the wall clock run ahead of the monotonic one, as it does for a process that is frozen."""
    wall = client._awake._wall
    client._awake._wall = lambda: wall() + seconds


def test_an_invocation_leaves_no_thread_and_has_told_everything_when_it_ends(plane, invoked):
    client = invoked()
    assert not plane.requests  # nothing is contacted by the constructor
    invoke(client, 3)
    assert plane.counts("web_search") == {"ok": 3}
    assert [one["status"] for one in plane.stored("runs")] == ["finished"]
    assert "recloser" not in {thread.name for thread in threading.enumerate()}
    assert client.status()["outbox"]["waiting"] == 0 and client.status()["feed"] == "polling"


def test_the_config_holds_for_the_first_call_and_is_kept_between_invocations(plane, invoked):
    plane.config = config_document(tools={"web_search": {"side_effect": "side_effect"}})
    client = invoked()
    for _ in range(3):
        invoke(client)
    assert len(plane.asked("config")) == len(plane.asked("circuits")) == 1
    with client.run() as run:
        for k in range(2):
            run.step()
            run.call("web_search", {"k": k}, failing)
        assert run.notice()  # two, as a `side_effect` has it

    again = invoked()  # a cold start beside the first one's cache
    assert again.status()["config"]["version"] == ["e1", 7] and again.status()["config"]["source"] == "disk"
    invoke(again)
    assert len(plane.asked("config")) == 1


def test_documents_that_are_due_are_asked_for_by_their_tag(plane, invoked):
    client = invoked(pace=Pace(poll_config_s=0.0, poll_circuits_s=0.0))
    invoke(client)
    plane.set_circuit("web_search", tell=False, state="open", cause="failure_rate")
    assert invoke(client)[0]["status"] == "unavailable"
    assert plane.asked("config")[-1][2]["if-none-match"] == '"e1-7"'


def test_trips_and_failures_wait_for_the_end_of_the_run(plane, invoked):
    client = invoked()
    with client.run() as run:
        for k in range(3):
            run.step()
            run.call("web_search", {"k": k}, failing)
        assert plane.batches == []
    assert plane.counts("web_search") == {"retryable_error": 3} and len(plane.stored("trips")) == 1


def test_nobody_at_the_other_end_costs_the_budget_once_and_loses_nothing():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(8)
        port = deaf.getsockname()[1]
        client = Client(
            f"http://127.0.0.1:{port}", "rcl_test_0123456789abcdef", cache_dir=False, mode="invocation", budget_s=0.2,
        )  # fmt: skip
        assert client._link is not None
        client._link._line.next = lambda: 30.0  # type: ignore[method-assign] # the delay is drawn from 0 up
        began = time.monotonic()
        for _ in range(20):
            assert invoke(client) == ["found"]
        assert time.monotonic() - began < 2.0
    assert client.status()["problem"]
    with FakeControlPlane(port=port) as plane:
        assert client.flush(5)
        assert plane.counts("web_search") == {"ok": 20}
        client.close()


def test_flush_tries_again_until_its_time_is_over(plane, invoked):
    plane.script("batch", error(503, "unavailable", retry_after=0.01), Scripted(503, store=True))
    client = invoked(budget_s=0.05)
    invoke(client, 2)
    assert client.flush(5)
    assert plane.counts("web_search") == {"ok": 2}
    plane.script("batch", *[error(503, "unavailable") for _ in range(500)])
    invoke(client)
    began = time.monotonic()
    assert client.flush(0.3) is False
    assert time.monotonic() - began < 2.0


def test_what_was_frozen_is_told_with_its_true_age(plane, invoked):
    plane.script("batch", *[error(503, "unavailable") for _ in range(2)])
    client = invoked()
    with client.run() as run:
        for k in range(3):
            run.step()
            run.call("web_search", {"k": k}, failing)
    assert client.status()["outbox"]["waiting"]
    sleep(client, 3600.0)
    assert client.flush(5)
    assert plane.stored("observations") and plane.stored("trips") and plane.stored("runs")
    assert all(3600 <= part["age_s"] < 3660 for part in plane.stored("observations"))
    assert all(3600 <= part["samples"][0]["age_s"] < 3660 for part in plane.stored("observations"))
    assert all(3600 <= trip["age_s"] < 3660 for trip in plane.stored("trips"))
    assert all(one["started_age_s"] >= one["ended_age_s"] >= 3600 for one in plane.stored("runs"))


def test_after_a_sleep_the_documents_are_asked_for_again(plane, invoked):
    client = invoked()
    invoke(client)
    plane.set_circuit("web_search", tell=False, state="open", cause="failure_rate", due_at=plane.now() + 7200)
    sleep(client, 3600.0)
    client._look_at = 0.0
    [answer] = invoke(client)
    assert answer["status"] == "unavailable" and 7100 < answer["retry_after_s"] < 7300
    assert len(plane.asked("config")) == 2


def test_this_workers_breaker_is_due_after_a_sleep(plane, invoked):
    client = invoked()
    for begin in (0, 3):
        with client.run() as run:
            for k in range(begin, begin + 3):
                run.step()
                run.call("web_search", {"k": k}, failing)
    assert client.status()["worker_open"] == ["web_search"]
    assert invoke(client)[0]["status"] == "unavailable"
    sleep(client, 3600.0)
    client._look_at = 0.0
    assert invoke(client) == ["found"]


def test_a_wall_clock_that_is_set_back_makes_nothing_younger(plane, invoked):
    plane.script("batch", error(503, "unavailable"))
    client = invoked()
    invoke(client)
    sleep(client, -3600.0)
    assert client.flush(5)
    assert plane.stored("observations")
    assert all(part["age_s"] < 60 for part in plane.stored("observations"))


def test_a_sleeping_process_with_a_thread_drops_its_stream_and_ages_too(plane, connect):
    client = connect(pace=FAST)
    assert plane.wait(lambda: plane.streams)
    before = len(plane.asked("stream"))
    sleep(client, 3600.0)
    assert plane.wait(lambda: len(plane.asked("stream")) > before, 5.0)


def test_several_threads_finish_at_once_and_one_errand_tells_all(plane, invoked):
    client = invoked()
    threads = [threading.Thread(target=invoke, args=(client, 20)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert client.flush(5)
    assert plane.counts("web_search") == {"ok": 160}


def test_under_an_event_loop_the_line_is_somebody_elses_wait(plane, invoked):
    client = invoked(budget_s=3.0)
    hang = threading.Event()
    plane.script("config", Scripted(503, hang_until=hang))
    ticks = 0

    async def beat() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1
            if ticks == 20:
                hang.set()

    async def handler() -> None:
        beating = asyncio.create_task(beat())
        async with client.run() as run:
            await run.acall("web_search", {}, found)
        beating.cancel()

    async def found(**_: Any) -> str:
        return "found"

    asyncio.run(handler())
    assert ticks >= 20
    assert plane.counts("web_search") == {"ok": 1}


def test_a_client_that_ends_sends_what_is_left(plane, invoked):
    client = invoked()
    client.run().call("web_search", {}, working)
    client.close()
    assert plane.counts("web_search") == {"ok": 1}


def test_an_unknown_mode_is_an_error():
    with pytest.raises(ValueError, match="invocation"):
        Client(mode="serverless", cache_dir=False)  # type: ignore[arg-type]
