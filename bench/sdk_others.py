"""Other libraries that guard calls, each as its own documentation shows it: for the bench of the SDK's hot path.

Those that cost tens of microseconds a call are asked for a share of the calls only.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench.sdk_tools import (
    Timed,
    bare,
    bare_async,
    failing,
    failing_async,
    swallowed,
    swallowed_async,
    timed,
    timed_async,
)

Ways = dict[str, Timed]
TRIES = 12
"""Failures that open any of them."""


def circuitbreaker() -> Ways:
    """The decorator, sync and async."""
    library = importlib.import_module("circuitbreaker")
    settings = {"failure_threshold": 5, "recovery_timeout": 3600}
    closed = library.circuit(**settings, name="c")(bare)
    closed_async = library.circuit(**settings, name="ca")(bare_async)
    opened = library.circuit(**settings, name="o")(failing)
    opened_async = library.circuit(**settings, name="oa")(failing_async)
    return _four(closed, closed_async, opened, opened_async, library.CircuitBreakerError)


def purgatory() -> Ways:
    """The factories of both kinds, in memory."""
    library = importlib.import_module("purgatory")
    refused = importlib.import_module("purgatory.domain.model").OpenedState
    sync = library.SyncCircuitBreakerFactory(default_threshold=5, default_ttl=3600)
    loose = library.AsyncCircuitBreakerFactory(default_threshold=5, default_ttl=3600)
    return _four(
        sync("c")(bare), loose("c")(bare_async), sync("o")(failing), loose("o")(failing_async), refused
    )  # fmt: skip


def pybreaker() -> Ways:
    """Sync only: its async calls need Tornado."""
    library = importlib.import_module("pybreaker")
    closed = library.CircuitBreaker(fail_max=5, reset_timeout=3600)
    opened = library.CircuitBreaker(fail_max=5, reset_timeout=3600)
    return _two(
        lambda query, page: closed.call(bare, query, page),
        lambda query, page: opened.call(failing, query, page),
        library.CircuitBreakerError,
    )


def interlock() -> Ways:
    """interlock-cb: one class for both kinds."""
    library = importlib.import_module("interlock")

    config = library.Config(minimum_number_of_calls=5, wait_duration_in_open=3600.0)

    def breaker(name: str) -> Any:
        return library.CircuitBreaker(name=name, config=config)

    ways = _four(
        breaker("c")(bare), breaker("ca")(bare_async), breaker("o")(failing), breaker("oa")(failing_async),
        library.CircuitOpenError,
    )  # fmt: skip
    return {way: _fewer(run, 4) for way, run in ways.items()}


def fluxgate() -> Ways:
    """Two classes; the default window when closed, five failures in a row to open."""
    library = importlib.import_module("fluxgate")
    streak = importlib.import_module("fluxgate.trippers").FailureStreak
    cooldown = importlib.import_module("fluxgate.retries").Cooldown
    opening = {"tripper": streak(5), "retry": cooldown(3600.0)}
    ways = _four(
        library.CircuitBreaker()(bare),
        library.AsyncCircuitBreaker()(bare_async),
        library.CircuitBreaker(**opening)(failing),
        library.AsyncCircuitBreaker(**opening)(failing_async),
        library.CallNotPermittedError,
    )
    return {way: _fewer(run, 4) for way, run in ways.items()}


def aura_guard() -> Ways:
    """`AgentGuard.run`, sync only (its async guard is its hooks alone); a new guard each time, as for each run.

    In shadow mode where calls are to be admitted: it takes the bench's varied arguments for a loop.
    """
    library = importlib.import_module("aura_guard")
    logging.getLogger("aura_guard").setLevel(logging.CRITICAL)

    def closed(n: int) -> float:
        guard = library.AgentGuard(secret_key=b"b" * 32, shadow_mode=True)
        return timed(lambda k: guard.run("search", bare, query="acme", page=k))(n)

    opened = library.AgentGuard(secret_key=b"b" * 32)
    call = swallowed(lambda query, page: opened.run("search", failing, query=query, page=page), Exception)
    for k in range(TRIES):
        call(k)
    return {"closed": _fewer(closed, 20), "rejected": _fewer(timed(call), 20)}


def runbound() -> Ways:
    """The decorator within a session; a tool that is blocked stands for one that is out."""
    library = importlib.import_module("runbound")
    logging.getLogger("runbound").setLevel(logging.CRITICAL)
    library.init(on_anomaly="raise")
    closed, opened = library.tool(bare), library.tool(blocked=True, name="out")(bare)
    rejected = swallowed(opened, library.ExecutionRefused)

    def within(call: Callable[[int], Any]) -> Timed:
        def run(n: int) -> float:
            with library.session(f"bench-{time.monotonic_ns()}"):
                return timed(call)(n)

        return _fewer(run, 20)

    return {"closed": within(lambda k: closed("acme", k)), "rejected": within(rejected)}


def guardloop() -> Ways:
    """`ctx.call_tool` inside a run, async only."""
    library = importlib.import_module("guardloop")

    def within(name: str, tool: Callable[..., Any], *, lose: bool) -> Timed:
        async def agent(context: Any, n: int) -> float:
            refused = swallowed_async(lambda query, page: context.call_tool(name, tool, query, page), Exception)
            admitted = lambda k: context.call_tool(name, tool, "acme", k)  # noqa: E731 the two are told apart once
            for k in range(TRIES if lose else 0):
                await refused(k)
            began = time.perf_counter()
            await _each(refused if lose else admitted, n)
            return time.perf_counter() - began

        runtime = library.GuardLoop()
        return _fewer(lambda n: float(asyncio.run(runtime.run(agent, n)).output), 10)

    return {
        "closed async": within("search", bare_async, lose=False),
        "rejected async": within("out", failing_async, lose=True),
    }


OTHERS: dict[str, Callable[[], Ways]] = {
    "circuitbreaker": circuitbreaker,
    "purgatory": purgatory,
    "pybreaker": pybreaker,
    "interlock-cb": interlock,
    "fluxgate": fluxgate,
    "aura-guard": aura_guard,
    "runbound": runbound,
    "guardloop": guardloop,
}


def found() -> tuple[dict[str, Ways], list[str]]:
    """Those that are installed and work as expected here, and what is missing."""
    ways: dict[str, Ways] = {}
    missing = []
    for name, make in OTHERS.items():
        try:
            ways[name] = make()
        except ModuleNotFoundError as problem:
            missing.append(f"{name} ({problem.name} is not installed)")
        except Exception as problem:
            missing.append(f"{name} ({type(problem).__name__}: {problem})"[:200])
    return ways, missing


def _two(closed: Callable[..., Any], opened: Callable[..., Any], refused: type[BaseException]) -> Ways:
    for k in range(TRIES):
        with contextlib.suppress(ConnectionError, refused):
            opened("acme", k)
    return {"closed": timed(lambda k: closed("acme", k)), "rejected": timed(swallowed(opened, refused))}


def _four(
    closed: Callable[..., Any],
    closed_async: Callable[..., Awaitable[Any]],
    opened: Callable[..., Any],
    opened_async: Callable[..., Awaitable[Any]],
    refused: type[BaseException],
) -> Ways:
    async def lose() -> None:
        for k in range(TRIES):
            with contextlib.suppress(ConnectionError, refused):
                await opened_async("acme", k)

    asyncio.run(lose())
    return _two(closed, opened, refused) | {
        "closed async": timed_async(lambda k: closed_async("acme", k)),
        "rejected async": timed_async(swallowed_async(opened_async, refused)),
    }


def _fewer(run: Timed, by: int) -> Timed:
    """A share of the calls, and the time that all would take."""
    return lambda n: run(max(1, n // by)) * n / max(1, n // by)


async def _each(call: Callable[[int], Awaitable[Any]], n: int) -> None:
    for k in range(n):
        await call(k)
