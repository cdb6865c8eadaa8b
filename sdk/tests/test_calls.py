"""Recloser raises nothing of its own; an async tool counts when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import failing, working
from recloser import Client
from recloser.testing.documents import config_document

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


def told_off(run: Any, way: str, args: dict[str, Any], **more: Any) -> bool:
    """Make a call of `tool` in one of two ways; was it stopped before it ran?"""
    if way == "call":
        answer = run.call("tool", args, working, **more)
    else:
        answer = asyncio.run(run.acall("tool", args, found, **more))
    return answer != "found" and answer["status"] == "blocked"


@pytest.fixture
def run_of() -> Iterator[Any]:
    """A run whose tool has this policy; two calls went well, so the next take the short way."""

    made = []

    def make(side_effect: str = "read_only", **policy: Any) -> Any:
        tools = {"tool": {"side_effect": side_effect, "run": policy}}
        made.append(Client(cache_dir=False, bootstrap=config_document(tools=tools)))
        run = made[-1].run()
        run.step()
        for k in range(2):
            run.call("tool", {"warming": k}, working)
        return run

    yield make
    for client in made:
        client.close()


@pytest.mark.parametrize("way", ["call", "acall"])
@pytest.mark.parametrize("args", [{"q": "storm", "n": 1}, {"q": "storm", "deep": [1]}], ids=["short", "hashed"])
def test_a_repetition_on_the_short_way_is_stopped(run_of, way, args):
    run = run_of(identical_calls=2)
    again = {"n": 1.0, **args, "q": " storm "} if "n" in args else dict(reversed(args.items()))
    assert [told_off(run, way, one) for one in (args, again, args)] == [False, False, True]
    assert not told_off(run, way, {"q": "another"})
    assert told_off(run, way, again)


@pytest.mark.parametrize("way", ["call", "acall"])
def test_a_side_effect_on_the_short_way_is_not_made_twice(run_of, way):
    run = run_of("side_effect", identical_calls=None)
    assert [told_off(run, way, {"to": "x"}) for _ in range(2)] == [False, True]
    assert not told_off(run, way, {"to": "x"}, idempotency_key="k")


@pytest.mark.parametrize("way", ["call", "acall"])
def test_what_may_have_happened_is_not_made_again_on_the_short_way(run_of, way):
    run = run_of(retry_ambiguous=False)
    run.call("tool", {"to": "x"}, timing_out_at_once)
    assert [told_off(run, way, {"to": to}) for to in ("y", "z", "x")] == [False, False, True]


def timing_out_at_once(**_: Any) -> Any:
    raise TimeoutError
