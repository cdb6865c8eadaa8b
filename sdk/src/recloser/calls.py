"""How a tool's function is called: arguments as models give them, a time limit, on a thread or on an event loop.

What a call brings after its time limit is dropped, never delivered twice and never counted.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

CO_COROUTINE = inspect.CO_COROUTINE


class CallTimeout(TimeoutError):
    """A call passed its own time limit; whatever it brings later changes nothing."""


def invoke(fn: Callable[..., Any], args: Any) -> Any:
    """Call with the arguments as models and loops give them."""
    if isinstance(args, str) and args.lstrip()[:1] in ("{", ""):
        args = _read_arguments(args)
    if args is None:
        return fn()
    if isinstance(args, Mapping) and all(isinstance(name, str) for name in args):
        return fn(**args)
    return fn(args)


def limited(fn: Callable[..., Any], args: Any, limit_s: float) -> Any:
    """Run it in a thread of its own and give up after the limit."""
    box: list[tuple[bool, Any]] = []
    thread = _thread(fn, args, lambda worked, value: box.append((worked, value)))
    thread.join(limit_s)
    if not box:
        raise CallTimeout(f"no answer within {limit_s:g} s")
    return _opened(*box[0])


async def awaited(fn: Callable[..., Any], args: Any, limit_s: float | None) -> Any:
    """Await it, as `asyncio.timeout` would: at the limit it is cancelled, and its end is a `CallTimeout`.

    A plain function runs in a thread of its own, so that it holds up no event loop; what it returns is awaited here
    where it can be. Where such a thread does not end, it is left behind.
    """
    if limit_s is None:
        return await _value(fn, args)
    import asyncio

    late = f"no answer within {limit_s:g} s"
    scope = asyncio.timeout(limit_s)
    try:
        async with scope:
            result = await _value(fn, args)
    except Exception as problem:
        if scope.expired():
            raise CallTimeout(late) from problem
        raise
    if scope.expired():  # it would not be cancelled, and answered all the same
        raise CallTimeout(late)
    return result


def is_async(fn: Callable[..., Any]) -> bool:
    """Is it a coroutine function, or an object that is called like one?"""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


async def _value(fn: Callable[..., Any], args: Any) -> Any:
    result = invoke(fn, args) if is_async(fn) else await _threaded(fn, args)
    return await result if inspect.isawaitable(result) else result


async def _threaded(fn: Callable[..., Any], args: Any) -> Any:
    import asyncio

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[bool, Any]] = loop.create_future()

    def tell(worked: bool, value: Any) -> None:
        if not ended.done():
            ended.set_result((worked, value))

    def tell_from_thread(worked: bool, value: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, worked, value)

    _thread(fn, args, tell_from_thread)
    return _opened(*await ended)


def _thread(fn: Callable[..., Any], args: Any, tell: Callable[[bool, Any], None]) -> threading.Thread:
    context = contextvars.copy_context()

    def work() -> None:
        try:
            told = True, context.run(invoke, fn, args)
        except BaseException as problem:
            told = False, problem
        tell(*told)

    thread = threading.Thread(target=work, name="recloser-call", daemon=True)
    thread.start()
    return thread


def _opened(worked: bool, value: Any) -> Any:
    if worked:
        return value
    raise value


def _read_arguments(text: str) -> Any:
    """JSON text of an object; what is not is the model's mistake, and reads as a rejected argument."""
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the arguments are nested too deeply") from None
