"""Awaited calls: the same rules, no event loop held up, time limits and cancellations told apart."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

import pytest
from conftest import FAST, ToolFailure, failing, until, working
from recloser import CallTimeout, Client, Outcome
from recloser.testing import Scripted, config_document

T = TypeVar("T")


def awaited(work: Coroutine[Any, Any, T]) -> T:
    """Run it in a loop of its own, in debug mode: a callback of ours that takes long is a failure of the test."""
    return asyncio.run(work)


async def found(**_: Any) -> str:
    await asyncio.sleep(0)
    return "found"


async def broken(**_: Any) -> str:
    await asyncio.sleep(0)
    raise ToolFailure


class Callable:
    async def __call__(self, **_: Any) -> str:
        return "found"


@pytest.mark.parametrize(
    "fn",
    [found, working, partial(found), Callable(), lambda **args: found(**args), Callable().__call__],
    ids=["coroutine", "plain", "partial", "object", "lambda", "method"],
)
def test_whatever_can_be_called_can_be_awaited(plane, connect, fn):
    client = connect()

    async def loop() -> None:
        async with client.run() as run:
            for k in range(3):
                run.step()
                assert await run.acall("web_search", {"k": k}, fn) == "found"
            assert await run.acall("web_search", '{"k": 9}', fn) == "found"

    awaited(loop())
    assert client.flush(5)
    assert plane.counts("web_search") == {"ok": 4}


def test_arguments_of_other_shapes_reach_a_coroutine(local):
    async def echo(*args: Any, **named: Any) -> Any:
        return args, named

    async def loop() -> None:
        run = local.run()
        assert await run.acall("tool", None, echo) == ((), {})
        assert await run.acall("tool", "plain words", echo) == (("plain words",), {})
        assert await run.acall("tool", None, echo) == ((), {})
        assert (await run.acall("tool", '{"cut', echo))["error"] == "semantic_error"
        assert (await run.acall("nobody", {}, None))["status"] == "unknown_tool"

    awaited(loop())


def test_failures_take_the_tool_and_the_answer_comes_from_memory(local):
    async def loop() -> None:
        async with local.run() as run:
            for k in range(3):
                run.step()
                assert (await run.acall("web_search", {"k": k}, broken))["status"] == "error"
            for _ in range(4):
                answer = await run.acall("web_search", {"k": 9}, found)
                assert answer["status"] == "unavailable"
                answer["spoiled"] = True  # every caller has its own
            assert "spoiled" not in await run.acall("web_search", {"k": 9}, found)
            result = run.finish()
        assert result.block["items"][0]["calls_refused"] == 5

    awaited(loop())


def test_the_same_call_is_blocked_when_it_brings_nothing_new(local):
    calls = []

    async def same(**_: Any) -> str:
        calls.append(1)
        return "nothing new"

    async def loop() -> list[Any]:
        run, results = local.run(), []
        for _ in range(5):
            run.step()
            results.append(await run.acall("db_lookup", {"q": "a", "n": 1}, same))
        return results

    results = awaited(loop())
    assert len(calls) == 3 and [one["status"] for one in results[3:]] == ["blocked"] * 2


def test_the_parallel_failures_of_one_step_are_one_observation(plane, connect):
    client = connect()

    async def loop() -> None:
        async with client.run() as run:
            for wave in range(3):
                assert run.notice() is None
                run.step()
                await asyncio.gather(*(run.acall("web_search", {"w": wave, "k": k}, broken) for k in range(8)))
            assert "web_search" in run.notice()

    awaited(loop())
    assert client.flush(5)
    assert client.status()["worker_open"] == []
    assert plane.counts("web_search")["retryable_error"] == 24
    assert max(part["streak"] for part in plane.stored("observations")) <= 3


def test_a_time_limit_is_one_timeout_and_the_coroutine_is_cancelled(local):
    ended = []

    async def hanging(**_: Any) -> str:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(1)
        return "too late"

    async def loop() -> Any:
        run = local.run()
        run.step()
        began = time.monotonic()
        answer = await run.acall("web_search", {}, hanging, call_timeout=0.05)
        assert time.monotonic() - began < 5 and ended == [1]
        local.fold()
        assert [line[0].outcome for line in run.log] == [Outcome.TIMEOUT]
        return answer

    assert awaited(loop())["error"] == "timeout"


def test_the_policys_time_limit_holds_for_awaited_calls_too(plane, connect):
    plane.config = config_document(tools={"web_search": {"run": {"call_timeout_s": 0.05}}})
    client = connect()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7])

    async def loop() -> Any:
        async with client.run() as run:
            first = await run.acall("web_search", {"k": 1}, found)
            return first, await run.acall("web_search", {"k": 2}, _forever)

    first, second = awaited(loop())
    assert first == "found" and second["error"] == "timeout"


@pytest.mark.case("A11")
def test_what_will_not_be_cancelled_and_answers_late_is_a_timeout_all_the_same(local):
    async def stubborn(**_: Any) -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "too late"

    async def wrapping(**_: Any) -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError as problem:
            raise ValueError("wrapped") from problem
        return ""

    async def loop() -> None:
        run = local.run()
        assert (await run.acall("one", {}, stubborn, call_timeout=0.02))["error"] == "timeout"
        assert (await run.acall("two", {}, wrapping, call_timeout=0.02))["error"] == "timeout"
        assert asyncio.current_task().cancelling() == 0

    awaited(loop())


def test_a_time_limit_raises_where_errors_are_raised(local):
    async def loop() -> None:
        run = local.run(raise_errors=True)
        with pytest.raises(CallTimeout):
            await run.acall("tool", {}, partial(asyncio.sleep, 30), call_timeout=0.01)
        with pytest.raises(CallTimeout):
            await run.acall("tool", {"seconds": 30}, lambda seconds: asyncio.sleep(seconds), call_timeout=0.01)

    awaited(loop())


def test_the_tools_own_time_out_is_a_timeout_and_not_ours(local):
    async def own(**_: Any) -> None:
        raise TimeoutError("upstream")

    async def loop() -> None:
        run = local.run(raise_errors=True)
        with pytest.raises(TimeoutError) as caught:
            await run.acall("tool", {}, own, call_timeout=30)
        assert type(caught.value) is TimeoutError
        local.fold()
        assert run.log[-1][0].outcome is Outcome.TIMEOUT

    awaited(loop())


def test_a_plain_function_holds_up_no_event_loop_and_may_be_given_up(local):
    release, finished = threading.Event(), threading.Event()

    def blocking(**_: Any) -> str:
        release.wait(10)
        finished.set()
        return "too late"

    async def loop() -> None:
        run = local.run()
        run.step()
        hanging = asyncio.create_task(run.acall("slow", {}, blocking, call_timeout=0.2))
        for k in range(20):
            assert await run.acall("quick", {"k": k}, found) == "found"
        assert not hanging.done()
        assert (await hanging)["error"] == "timeout"
        local.fold()
        before = len(run.log)
        release.set()
        assert finished.wait(5)
        await asyncio.sleep(0.02)
        local.fold()
        assert len(run.log) == before

    awaited(loop())


def test_a_cancellation_is_recorded_and_goes_on(plane, connect):
    client = connect()

    async def loop() -> None:
        async with client.run() as run:
            for k, fn in enumerate((partial(_forever), lambda **_: _forever(), _forever)):
                run.step()
                await run.acall("web_search", {"warm": k}, found)
                task = asyncio.create_task(run.acall("web_search", {"k": k}, fn))
                await asyncio.sleep(0.02)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert task.cancelled()
            assert run.notice() is None

    awaited(loop())
    assert client.flush(5)
    assert plane.counts("web_search") == {"ok": 3, "cancelled": 3}


async def _forever(**_: Any) -> str:
    await asyncio.sleep(60)
    return "never"


def test_a_cancellation_beats_a_time_limit(local):
    async def loop() -> None:
        run = local.run()
        task = asyncio.create_task(run.acall("tool", {}, _forever, call_timeout=30))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        local.fold()
        assert [line[0].outcome for line in run.log] == [Outcome.CANCELLED]

    awaited(loop())


def test_one_client_serves_loops_and_threads_at_once(plane, connect):
    client = connect()

    async def agent(name: str) -> None:
        async with client.run() as run:
            run.step()
            await asyncio.gather(*(run.acall(name, {"k": k}, found) for k in range(50)))

    async def agents(name: str) -> None:
        await asyncio.gather(*(agent(name) for _ in range(4)))

    def plain() -> None:
        with client.run() as run:
            for k in range(200):
                run.call("plain", {"k": k}, working)

    threads = [threading.Thread(target=asyncio.run, args=(agents(f"loop_{n}"),)) for n in range(3)]
    threads += [threading.Thread(target=plain) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert client.flush(10)
    assert [plane.counts(f"loop_{n}") for n in range(3)] == [{"ok": 200}] * 3
    assert plane.counts("plain") == {"ok": 400}


def test_a_run_that_an_exception_leaves_is_reported_as_ended(plane, connect):
    client = connect()

    async def loop() -> None:
        async with client.run() as run:
            await run.acall("web_search", {}, found)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        awaited(loop())
    assert client.flush(5)
    assert plane.stored("runs")[-1]["end_cause"] == "error:ZeroDivisionError"


def test_a_control_plane_that_hangs_holds_up_no_event_loop(plane, connect):
    hang = threading.Event()
    plane.script("batch", *[Scripted(503, hang_until=hang) for _ in range(3)])
    client = connect(timeout_s=10.0)
    assert plane.wait(lambda: plane.attempts)
    longest = 0.0

    async def heartbeat() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - before)

    async def loop() -> None:
        beating = asyncio.create_task(heartbeat())
        for n in range(10):
            async with client.run() as run:
                for k in range(20):
                    run.step()
                    run.tools([{"name": "web_search"}])
                    await run.acall("web_search", {"k": k}, found if n % 2 else broken)
        beating.cancel()

    began = time.monotonic()
    awaited(loop())
    assert time.monotonic() - began < 5.0 and longest < 2.0  # the line hangs for 10 s
    hang.set()
    assert client.flush(10)


def test_a_client_can_be_awaited_to_its_end(plane):
    async def loop() -> None:
        async with Client(plane.url, plane.key, cache_dir=False, pace=FAST) as client:
            async with client.run() as run:
                await run.acall("web_search", {}, found)
            assert await client.aflush(5)
            assert plane.counts("web_search") == {"ok": 1}

    awaited(loop())


def test_a_mistake_of_ours_costs_no_awaited_call(local, monkeypatch, caplog):
    run = local.run()
    monkeypatch.setattr(run, "_ask", lambda *a: 1 / 0)
    assert awaited(run.acall("tool", {}, found)) == "found"
    monkeypatch.undo()
    assert awaited(run.acall("tool", {"k": 1}, found)) == "found"
    monkeypatch.setattr(run, "_settle", lambda *a: 1 / 0)
    assert awaited(run.acall("tool", {"k": 2}, broken))["status"] == "error"
    assert caplog.records


def test_the_sync_and_the_awaited_way_share_one_run(local):
    async def loop() -> None:
        run = local.run()
        for k in range(3):
            run.step()
            if k % 2:
                run.call("web_search", {"k": k}, failing)
            else:
                await run.acall("web_search", {"k": k}, broken)
        assert run.call("web_search", {}, working)["status"] == "unavailable"

    awaited(loop())
