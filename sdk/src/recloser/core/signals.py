"""The memories behind a run's signals: each counts one thing, and none knows what follows from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from itertools import islice
from typing import TypeVar

LONGEST_CIRCLE = 8
_MOST_CALLS = 128
MOST_REMEMBERED = 1024
"""At least so many are remembered, and never more than twice as many."""

Value = TypeVar("Value")


class Repeats:
    """How often the same call brought the same result, in a row, for each call."""

    __slots__ = ("_counts", "_seen")

    def __init__(self) -> None:
        self._seen: dict[Hashable, Hashable] = {}
        self._counts: dict[Hashable, int] = {}

    def saw(self, call: Hashable, result: Hashable) -> int:
        """Count one result; a changed one is progress and starts over."""
        seen = self._seen
        if call not in seen:
            seen[call] = result
            if len(seen) > 2 * MOST_REMEMBERED:
                self._seen = _latest(seen)
                self._counts = {one: n for one, n in self._counts.items() if one in self._seen}
            return 1
        count = self._counts.get(call, 1) + 1 if seen.pop(call) == result else 1
        seen[call], self._counts[call] = result, count
        return count

    def clear(self) -> None:
        """Forget all."""
        self._seen.clear()
        self._counts.clear()


def _latest(seen: dict[Hashable, Value]) -> dict[Hashable, Value]:
    """The younger half; all at once, because a dictionary that loses its first entry again and again grows slow."""
    return dict(islice(seen.items(), len(seen) - MOST_REMEMBERED, None))


class Circles:
    """Whether the latest calls go round in a circle of two or more calls whose results never change."""

    __slots__ = ("_calls", "_cycles", "_matches", "_matching", "_recent")

    def __init__(self, cycles: int) -> None:
        self._cycles = cycles
        self._recent: deque[tuple[str, Hashable, Hashable]] = deque(maxlen=LONGEST_CIRCLE + 1)
        self._calls: dict[Hashable, None] = {}
        """The latest calls and some before them: what is not among these closes no circle."""
        self._matches = [0] * (LONGEST_CIRCLE + 1)
        self._matching = False

    def saw(self, tool: str, call: Hashable, result: Hashable) -> tuple[str, ...]:
        """The tools of a circle that has just been closed for the last time allowed; empty if there is none."""
        if call is None or result is None:
            self.clear()  # what cannot be compared may be progress
            return ()
        entry = (tool, call, result)
        calls, recent = self._calls, self._recent
        known = call in calls
        calls[call] = None
        recent.append(entry)
        if not known:  # it closes nothing, and breaks what was about to close
            if len(calls) > _MOST_CALLS:
                self._calls = {seen[1]: None for seen in recent}
            if self._matching:
                self._matches, self._matching = [0] * (LONGEST_CIRCLE + 1), False
            return ()
        self._matching = True
        found = [period for period in range(2, LONGEST_CIRCLE + 1) if self._closes(entry, period)]
        return self._tools(found[0]) if found else ()

    def clear(self) -> None:
        """Forget all."""
        self._recent.clear()
        self._calls.clear()
        self._matches, self._matching = [0] * (LONGEST_CIRCLE + 1), False

    def _closes(self, entry: tuple[str, Hashable, Hashable], period: int) -> bool:
        recent, matches = self._recent, self._matches
        same = len(recent) > period and recent[-1 - period] == entry
        matches[period] = matches[period] + 1 if same else 0
        if matches[period] < period * (self._cycles - 1):
            return False
        return len({seen[:2] for seen in list(recent)[-period:]}) > 1

    def _tools(self, period: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(seen[0] for seen in list(self._recent)[-period:]))


class Standstill:
    """The steps in a row that changed nothing."""

    __slots__ = ("_moved_in", "_results", "_state", "_still", "supplied")

    def __init__(self) -> None:
        self._results: dict[Hashable, None] = {}
        self._still: set[Hashable] = set()
        self._moved_in: Hashable = None
        self._state: Hashable = None
        self.supplied = False
        """The agent tells its state itself; results are then no measure."""

    def call(self, step: Hashable, worked: bool, result: Hashable) -> int:
        """Count by results: new content is progress; a failure, an empty or a known answer is none."""
        if not worked or (result is not None and result in self._results):
            return self.moved(step, False)
        if result is not None:
            self._remember(result)
        return self.moved(step, True)

    def state(self, step: Hashable, fingerprint: Hashable) -> int:
        """Count by the state fingerprint that the agent supplies."""
        changed = not self.supplied or fingerprint != self._state
        self.supplied, self._state = True, fingerprint
        return self.moved(step, changed)

    def moved(self, step: Hashable, progress: bool) -> int:
        """Count one observation; a step that moved at all is a step that moved."""
        if progress:
            self._still.clear()
            self._moved_in = step
        elif step != self._moved_in and len(self._still) < MOST_REMEMBERED:
            self._still.add(step)
        return len(self._still)

    def _remember(self, result: Hashable) -> None:
        self._results[result] = None
        if len(self._results) > 2 * MOST_REMEMBERED:
            self._results = _latest(self._results)


class Share:
    """The share of failures among the latest calls."""

    __slots__ = ("_latest", "calls")

    def __init__(self, calls: int) -> None:
        self.calls = calls
        self._latest: deque[bool] = deque(maxlen=calls)

    def saw(self, failed: bool) -> float | None:
        """The share, once there are enough calls; only a failing call is answered."""
        self._latest.append(failed)
        if not failed or len(self._latest) < (self._latest.maxlen or 0):
            return None
        return sum(self._latest) / len(self._latest)
