"""Time that a test moves on: the SDK's clock in this process runs ahead by what was asked, and never goes back."""

from __future__ import annotations

import sys
import time
from typing import Any

_real = time.monotonic
_ahead_s = 0.0


def monotonic() -> float:
    """The monotonic clock, ahead by what tests have moved it."""
    return _real() + _ahead_s


class Clock:
    """Moves time on for every client and run of this process, and for the control planes of `recloser.testing`.

    What is due after a while (a breaker's test, a run's wall clock, an override's end) is due at once after `advance`.
    The line to the control plane is real: it is not waited for less.
    """

    def __init__(self) -> None:
        _install()

    def now(self) -> float:
        """Seconds on the monotonic clock as the SDK sees it."""
        return monotonic()

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass at once."""
        global _ahead_s
        if not seconds >= 0.0:
            raise ValueError(f"time moves on, not by {seconds!r} s; give 0 or more")
        _ahead_s += seconds


class _Moved:
    """The `time` module as the SDK's modules see it while a test moves time."""

    monotonic = staticmethod(monotonic)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def _install() -> None:
    """Give the SDK's modules the moved clock. It stays: a clock that went back would break clients that live on."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("recloser.") or name.startswith("recloser.testing"):
            continue
        if vars(module).get("time") is time:
            module.time = _Moved()  # type: ignore[attr-defined]
        if vars(module).get("monotonic") is _real:
            module.monotonic = monotonic  # type: ignore[attr-defined]
