"""Notices that the process slept: a laptop's lid, a frozen function, a paused machine.

The monotonic clock may stand still meanwhile, and every age would be told too young. The wall clock goes on; where it
has run ahead by more than `TOLERANCE_S`, that is how long nothing ran. A wall clock that is set forward looks the same:
then evidence is told older than it is and documents are asked for again, which errs to the safe side.
"""

from __future__ import annotations

import time
from collections.abc import Callable

TOLERANCE_S = 2.0


class Awake:
    """Compares the two clocks from one look to the next."""

    def __init__(
        self, *, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._ahead = wall() - monotonic()

    def slept(self) -> float:
        """Seconds slept since the last look; 0.0 mostly. A wall clock that was set back is no sleep."""
        ahead = self._wall() - self._monotonic()
        gap, self._ahead = ahead - self._ahead, ahead
        return gap if gap > TOLERANCE_S else 0.0
