"""Tools that answer, or fail, in the order that a test wrote down."""

from __future__ import annotations

import asyncio
from typing import Any


class ToolFailure(Exception):
    """What a tool raises. The map from it to an outcome is the policy's, as with any exception.

    `status_code`, `retry_after` (seconds), `retryable` and `attempts` are what real clients' errors carry.
    """

    def __init__(
        self,
        message: str = "no answer",
        *,
        status_code: int | None = None,
        retry_after: float | None = None,
        retryable: bool | None = True,
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status_code = status_code
        self.retry_after = retry_after
        self.retryable = retryable
        self.attempts = attempts


class ScriptedTool:
    """A tool's function that gives its answers one by one, the last of them for ever; exceptions are raised.

    `calls` holds the arguments of every call that reached it, which none does that Recloser rejected.
    """

    def __init__(self, answers: tuple[Any, ...]) -> None:
        if not answers:
            raise ValueError('a script needs an answer; write scripted("found") or scripted(TimeoutError(), "found")')
        self._answers = answers
        self.calls: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The next answer."""
        return self._next(args, kwargs)

    def _next(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        answer = self._answers[min(len(self.calls), len(self._answers) - 1)]
        self.calls.append(args[0] if args else kwargs)
        if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
            raise answer
        return answer


class AsyncScriptedTool(ScriptedTool):
    """The same, to be awaited."""

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The next answer, after a turn of the event loop."""
        await asyncio.sleep(0)
        return self._next(args, kwargs)


def scripted(*answers: Any, awaited: bool = False) -> ScriptedTool:
    """A tool that answers so: `scripted(TimeoutError(), ToolFailure(status_code=503), "found")`."""
    return AsyncScriptedTool(answers) if awaited else ScriptedTool(answers)
