"""The memories behind a run's signals: each counts one thing, and none knows what follows from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

LONGEST_CIRCLE = 6
MOST_REMEMBERED = 1024


class Repeats:
    """How often the same call brought the same result, in a row, for each call."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Hashable, int]] = {}

    def saw(self, call: str, result: Hashable) -> int:
        """Count one result; a changed one is progress and starts over."""
        last, count = self._seen.pop(call, (None, 0))
        count = count + 1 if last == result else 1
        self._seen[call] = (result, count)
        if len(self._seen) > MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return count

    def clear(self) -> None:
        """Forget all."""
        self._seen.clear()


class Circles:
    """Whether the latest calls go round in a circle of two or more calls whose results never change."""

    __slots__ = ("_cycles", "_matches", "_recent")

    def __init__(self, cycles: int) -> None:
        self._cycles = cycles
        self._recent: deque[tuple[str, str, Hashable]] = deque(maxlen=LONGEST_CIRCLE + 1)
        self._matches = [0] * (LONGEST_CIRCLE + 1)

    def saw(self, tool: str, call: str | None, result: Hashable) -> tuple[str, ...]:
        """The tools of a circle that has just been closed for the last time allowed; empty if there is none."""
        if call is None or result is None:
            self.clear()  # what cannot be compared may be progress
            return ()
        entry = (tool, call, result)
        self._recent.append(entry)
        found = [period for period in range(2, LONGEST_CIRCLE + 1) if self._closes(entry, period)]
        return self._tools(found[0]) if found else ()

    def clear(self) -> None:
        """Forget all."""
        self._recent.clear()
        self._matches = [0] * (LONGEST_CIRCLE + 1)

    def _closes(self, entry: tuple[str, str, Hashable], period: int) -> bool:
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
        return self.moved(step, worked and (result is None or self._is_new(result)))

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

    def _is_new(self, result: Hashable) -> bool:
        if result in self._results:
            return False
        self._results[result] = None
        if len(self._results) > MOST_REMEMBERED:
            del self._results[next(iter(self._results))]
        return True


class Share:
    """The share of failures among the latest calls."""

    __slots__ = ("_latest",)

    def __init__(self, calls: int) -> None:
        self._latest: deque[bool] = deque(maxlen=calls)

    def saw(self, failed: bool) -> float | None:
        """The share, once there are enough calls; only a failing call is answered."""
        self._latest.append(failed)
        if not failed or len(self._latest) < (self._latest.maxlen or 0):
            return None
        return sum(self._latest) / len(self._latest)
