"""What the bench of the SDK's hot path calls, and how it takes the time of it.

The time is the processor's, of all threads of this process: on a busy machine a wall clock is the harder on a contender
the longer its round is, because a short round fits between two interruptions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

Timed = Callable[[int], float]


def bare(query: str, page: int) -> str:
    """What every contender calls."""
    return "found"


async def bare_async(query: str, page: int) -> str:
    """The same, to be awaited."""
    return "found"


def failing(query: str, page: int) -> str:
    """What opens a breaker."""
    raise ConnectionError


async def failing_async(query: str, page: int) -> str:
    """The same, to be awaited."""
    raise ConnectionError


def timed(call: Callable[[int], Any]) -> Timed:
    """Processor seconds for n calls, the loop's own included for all alike."""

    def run(n: int) -> float:
        began = time.process_time()
        for k in range(n):
            call(k)
        return time.process_time() - began

    return run


def timed_async(call: Callable[[int], Awaitable[Any]]) -> Timed:
    """The same for awaited calls, in one event loop."""

    async def loop(n: int) -> float:
        began = time.process_time()
        for k in range(n):
            await call(k)
        return time.process_time() - began

    return lambda n: asyncio.run(loop(n))


def swallowed(call: Callable[..., Any], kind: type[BaseException]) -> Callable[[int], None]:
    """A rejected call, as its caller meets it: raised and caught."""

    def rejected(k: int) -> None:
        try:  # noqa: SIM105 what a caller would write
            call("acme", k)
        except kind:
            pass

    return rejected


def swallowed_async(call: Callable[..., Awaitable[Any]], kind: type[BaseException]) -> Callable[[int], Awaitable[None]]:
    """The same, awaited."""

    async def rejected(k: int) -> None:
        try:  # noqa: SIM105 what a caller would write
            await call("acme", k)
        except kind:
            pass

    return rejected
