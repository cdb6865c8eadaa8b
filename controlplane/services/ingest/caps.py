"""What one key may claim. A key's evidence is a claim: beyond a cap it is recorded, not counted, and said so."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

NEW_WORKERS_A_MINUTE = 600
DISCOVERED_TOOLS = 500
DISCOVERED_DEPENDENCIES = 500
OVERRIDES_AN_HOUR = 1_000
CALLS_A_SECOND = 5_000
BURST_S = 10.0
"""Calls of so many seconds may arrive at once."""


class Capped(Exception):
    """Too many new workers: nothing of the batch was taken; it may be sent again after a while."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("too many new workers a minute")
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


@dataclass(slots=True)
class CallCap:
    """Calls that a key may still claim, refilled by elapsed time.

    Each process has a bucket of its own and answers from it at once. What it admitted it tells the others (`claimed`),
    and what they admitted it takes out of its own (`heard`); where nobody passes that on, each process caps for itself.
    """

    _buckets: dict[int, _Bucket] = field(default_factory=dict)
    _claimed: dict[int, int] = field(default_factory=dict)
    _totals: dict[int, int] = field(default_factory=dict)

    def admits(self, key_id: int, calls: int, now_s: float | None = None) -> bool:
        """Take `calls` from the key's bucket; False, and nothing taken, if there are not as many left."""
        bucket = self._filled(key_id, now_s)
        if calls > bucket.left:
            return False
        bucket.left -= calls
        self._claimed[key_id] = self._claimed.get(key_id, 0) + calls
        return True

    def left(self, key_id: int) -> float:
        """How many calls the key may claim at once."""
        return self._filled(key_id, None).left

    def claimed(self) -> dict[int, int]:
        """What was admitted here since this was last asked, by key."""
        claimed, self._claimed = self._claimed, {}
        return claimed

    def heard(self, key_id: int, claimed: int, total: int) -> None:
        """Everybody's total stands there after our `claimed` was added: what others added since is theirs."""
        before = self._totals.get(key_id)
        self._totals[key_id] = total
        if before is not None and total >= before + claimed:
            self._filled(key_id, None).left -= total - before - claimed

    def _filled(self, key_id: int, now_s: float | None) -> _Bucket:
        now_s = time.monotonic() if now_s is None else now_s
        most = CALLS_A_SECOND * BURST_S
        bucket = self._buckets.setdefault(key_id, _Bucket(most, now_s))
        bucket.left = min(most, bucket.left + (now_s - bucket.at) * CALLS_A_SECOND)
        bucket.at = now_s
        return bucket
