"""Whether Redis is worth asking: after a failure nobody waits for it again for a second."""

from __future__ import annotations

import time

import redis
import structlog

PAUSE_S = 1.0
FAILURES = (redis.RedisError, OSError)
"""What an absent or struggling Redis raises; time-outs are among them."""

log = structlog.get_logger(__name__)

_away_until = 0.0


def away() -> bool:
    """True for a moment after a failure."""
    return time.monotonic() < _away_until


def failed(error: BaseException) -> None:
    """Remember that Redis did not answer."""
    global _away_until
    _away_until = time.monotonic() + PAUSE_S
    log.warning("redis_away", error=type(error).__name__)


def forget() -> None:
    """Ask again at once; for tests that have just brought Redis back."""
    global _away_until
    _away_until = 0.0
