"""How long clients may wait before their next batch: load is shed by asking for bigger ones."""

from __future__ import annotations

LEAST_S = 2.0
MOST_S = 20.0
"""Well under the minute after which a silent session is taken for dead."""
SHARE = 40.0
"""Of a client's time between two batches, at most one part in so many is spent on being answered."""
WEIGHT = 0.1


class Load:
    """A moving average of what one batch takes from its first byte to its answer, waiting included."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def took(self, seconds: float) -> None:
        """Learn from one batch."""
        self._seconds += WEIGHT * (seconds - self._seconds)

    @property
    def flush_s(self) -> float:
        """The longest that a client may wait before its next batch."""
        return round(min(MOST_S, max(LEAST_S, SHARE * self._seconds)), 1)
