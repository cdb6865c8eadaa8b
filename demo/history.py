"""A recorded history of checks, played back faster."""

import json
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from demo.cast import DATA

SPEED = 60.0
"""A recorded minute passes in one second."""
FIRST_EPISODE = 1787048557
"""The outage the demo starts with: 35.7 minutes of unanswered connections, then 103 minutes up, then 502s."""
LEAD_S = 20.0
"""Played seconds of health before it begins."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What the service does now: `code` is the recorded status, None where nothing answered."""

    down: bool
    code: int | None


class History:
    """A state holds until the next check."""

    def __init__(self, path: Path = DATA / "outage.json") -> None:
        checks = json.loads(path.read_text(encoding="utf-8"))["checks"]
        self._times = [check[0] for check in checks]
        self._moments = [Moment(down=check[1] == "down", code=check[2]) for check in checks]

    def at(self, played_s: float) -> Moment:
        """The state after `played_s` seconds of the demo."""
        recorded = FIRST_EPISODE + (played_s - LEAD_S) * SPEED
        return self._moments[max(0, bisect_right(self._times, recorded) - 1)]
