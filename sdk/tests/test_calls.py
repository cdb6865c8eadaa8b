"""Recloser raises nothing of its own; an async tool counts when it has ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import failing, working

NAN, HUGE = float("nan"), 10**400


class Unprintable:
    """Neither printed, hashed nor true."""

    def __str__(self) -> str:
        raise RuntimeError("do not print")

    __repr__ = __str__

    def __hash__(self) -> int:
        raise RuntimeError("do not hash")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")


def test_a_name_that_will_not_be_printed_is_a_name_all_the_same(plane, connect):
    client = connect()
    with client.run() as run:
        run.tools([{"name": Unprintable()}])
        assert run.call(Unprintable(), {}, working) == "found"
        assert run.call(Unprintable(), {}, None)["status"] == "unknown_tool"
        assert asyncio.run(run.acall(Unprintable(), {}, working)) == "found"
        assert run.check(Unprintable()) is None
        assert run.record(Unprintable(), "ok") is None
        run.replaced(Unprintable(), Unprintable())
    assert client.flush(5)
    assert plane.counts("(Unprintable)") == {"ok": 3}


@pytest.mark.parametrize("amount", [HUGE, -HUGE, NAN, float("inf"), "many", None, True], ids=range(7))
def test_amounts_that_are_none_stop_no_step(plane, connect, amount):
    client = connect()
    with client.run() as run:
        run.step(amount)
        run.step({"tokens": amount, "cost": amount})
        run.used(amount, seconds=amount, cost=amount)
        run.used(5, cost=0.5)
        run.record("tool", "ok", seconds=amount, attempts=amount, retry_after_s=amount, status=200)
    assert client.flush(5)
    [told] = [one for one in plane.stored("runs") if one["id"] == run.id]
    assert 5 <= told["tokens"] <= 2**53 and 0.5 <= told["cost"] <= 1e15
    assert plane.counts("tool") == {"ok": 1}


def test_a_text_and_a_kind_that_will_not_be_printed_end_the_run(plane, connect):
    client = connect()
    run = client.run(Unprintable(), id=Unprintable(), parent=Unprintable())
    for k in range(3):
        run.step()
        run.call("tool", {"k": k}, failing)
    result = run.finish(Unprintable())
    assert result.degraded and not result.disclosed
    assert client.flush(5)
    assert [one["status"] for one in plane.stored("runs")][-1] == "finished"


@pytest.mark.parametrize("tools", [5, NAN, Unprintable(), object()], ids=range(4))
def test_what_is_no_array_of_tools_is_an_empty_one(local, tools):
    with local.run() as run:
        assert run.tools(tools) == []


def test_an_exception_of_the_callers_own_generator_is_its_own(local):
    def listing() -> Any:
        yield {"name": "tool"}
        raise ZeroDivisionError

    with local.run() as run, pytest.raises(ZeroDivisionError):
        run.tools(listing())


async def found(**_: Any) -> str:
    await asyncio.sleep(0)
    return "found"


async def timing_out(**_: Any) -> str:
    await asyncio.sleep(0)
    raise TimeoutError


@pytest.mark.parametrize("before", [0, 1], ids=["first", "on the short way"])
def test_an_async_tool_given_to_call_counts_when_it_has_ended(plane, connect, caplog, before):
    client = connect()
    with client.run() as run:
        for k in range(before):
            assert run.call("tool", {"before": k}, working) == "found"
        waiting = run.call("tool", {"k": 1}, timing_out)
        assert client.flush(5)
        assert plane.counts("tool") == ({"ok": before} if before else {})
        assert asyncio.run(_awaited(waiting))["status"] == "error"
        assert asyncio.run(_awaited(run.call("tool", {"k": 2}, found))) == "found"
    assert client.flush(5)
    assert plane.counts("tool") == {"timeout": 1, "ok": before + 1}
    warned = [one for one in caplog.records if "acall" in one.getMessage()]
    assert len(warned) == 1


async def _awaited(waiting: Any) -> Any:
    return await waiting


def test_an_async_tool_given_to_call_raises_where_errors_are_raised(local):
    run = local.run(raise_errors=True)
    with pytest.raises(TimeoutError):
        asyncio.run(_awaited(run.call("tool", {}, timing_out)))


def test_by_default_the_second_call_of_a_tool_takes_the_short_way_and_is_compared(local):
    """What run.py and guard.py say of the hot path."""
    with local.run() as run:
        run.call("tool", {"k": 1}, working)
        tap = run._taps["tool"]
        assert tap.hashes and not tap.plain
