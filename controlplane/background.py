"""One event loop per process, on a thread of its own, for work that mostly waits for the network.

Made on first use, so a fork starts with none of its parent's. Its threads are daemons: nothing waits for them at exit.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_owner = 0


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start `work` on the process' loop."""
    return asyncio.run_coroutine_threadsafe(work, _running())


async def in_thread(work: Callable[[], T]) -> T:
    """Run a blocking call beside the loop, in a thread that nobody has to wait for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    threading.Thread(target=_carry_out, args=(work, loop, done), daemon=True).start()
    return await done


def _carry_out(work: Callable[[], T], loop: asyncio.AbstractEventLoop, done: asyncio.Future[T]) -> None:
    try:
        result = work()
    except Exception as error:
        _tell(loop, done, done.set_exception, error)
    else:
        _tell(loop, done, done.set_result, result)


def _tell(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[T], settle: Callable[[Any], None], value: object
) -> None:
    """Hand the result over, if somebody still waits for it."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(lambda: None if done.done() else settle(value))


def _running() -> asyncio.AbstractEventLoop:
    global _loop, _owner
    with _lock:
        if _loop is None or _owner != os.getpid():
            _loop, _owner = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="background-loop", daemon=True).start()
        return _loop
