"""A sliding window of sixty buckets: the arithmetic that the server's counters share, and one kept in memory."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from recloser.core.evidence import Evidence, OwnStreak, WorkerEvidence
from recloser.core.types import FAILURES, SUCCESSES, Outcome

BUCKETS = 60
"""So a window's edge is off by at most one sixtieth of its length."""
MOST_STEPS = 512
"""So many steps a streak tells apart: more than run at the same time and fail together."""


def bucket_width(window_s: float) -> float:
    """Seconds per bucket."""
    return window_s / BUCKETS


def bucket_of(at: float, window_s: float) -> int:
    """The number of the bucket that an instant falls into."""
    return math.floor(at / bucket_width(window_s))


def live_buckets(now: float, window_s: float) -> range:
    """The numbers of the buckets that make up the window ending now."""
    newest = bucket_of(now, window_s)
    return range(newest - BUCKETS + 1, newest + 1)


def is_slow(duration_s: float, slow_call_ms: float) -> bool:
    """Above the policy's limit, whatever the outcome."""
    return duration_s * 1000.0 > slow_call_ms


@dataclass(slots=True)
class Counts:
    """Calls of one worker in one bucket."""

    ok: int = 0
    empty: int = 0
    failures: int = 0
    slow: int = 0

    def add(self, outcome: Outcome, slow: bool) -> None:
        """Count one call that says something about health."""
        if outcome in FAILURES:
            self.failures += 1
        elif outcome is Outcome.EMPTY:
            self.empty += 1
        else:
            self.ok += 1
        self.slow += slow

    def merge(self, other: Counts, sign: int = 1) -> None:
        """Add another count, or take it away again."""
        self.ok += sign * other.ok
        self.empty += sign * other.empty
        self.failures += sign * other.failures
        self.slow += sign * other.slow

    @property
    def calls(self) -> int:
        """All calls that say something about health."""
        return self.ok + self.empty + self.failures


class Steps:
    """The steps that a streak has counted, so that each counts once: the latest, a bounded number of them."""

    __slots__ = ("_counted",)

    def __init__(self) -> None:
        self._counted: dict[Hashable, None] = {}

    def first(self, step: Hashable) -> bool:
        """Is this the step's first failure in the streak? One of no known step always is."""
        if step is None:
            return True
        if step in self._counted:
            return False
        if len(self._counted) >= MOST_STEPS:
            del self._counted[next(iter(self._counted))]
        self._counted[step] = None
        return True

    def clear(self) -> None:
        """A success: the next failure begins a streak."""
        self._counted.clear()

    def __len__(self) -> int:
        return len(self._counted)


@dataclass(slots=True)
class _Streak:
    """Failures since the last success, each step once, and who they came from last."""

    length: int = 0
    steps: Steps = field(default_factory=Steps)
    workers: set[str] = field(default_factory=set)

    def failed(self, worker: str, step: Hashable) -> None:
        self.workers.add(worker)
        self.length += self.steps.first(None if step is None else (worker, step))

    def ended(self) -> None:
        if self.length:
            self.length = 0
            self.steps.clear()
            self.workers.clear()


@dataclass(slots=True)
class _Own:
    """One worker's failures in a row, each step once."""

    length: int = 0
    steps: Steps = field(default_factory=Steps)

    def failed(self, step: Hashable) -> None:
        self.length += self.steps.first(step)


class Window:
    """The sliding window of one scope, in memory: the worker's own breaker, conformance and replay."""

    __slots__ = ("_buckets", "_by_worker", "_operations", "_own", "_retry_until", "_streak", "_total", "window_s")

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self._buckets: dict[int, dict[str, Counts]] = {}
        self._operations: dict[int, set[str | None]] = {}
        self._by_worker: dict[str, Counts] = {}
        self._total = Counts()
        self._streak = _Streak()
        self._own: dict[str, _Own] = {}
        self._retry_until: float | None = None

    def record(
        self,
        outcome: Outcome,
        at: float,
        *,
        worker: str = "",
        slow: bool = False,
        step: Hashable = None,
        operation: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        """Count one finished call. What says nothing about health leaves no mark."""
        failed = outcome in FAILURES
        if not failed and outcome not in SUCCESSES:
            return
        number = bucket_of(at, self.window_s)
        for counts in (self._cell(number, worker), self._of_worker(worker), self._total):
            counts.add(outcome, slow)
        if failed:
            self._streak.failed(worker, step)
            self._own_of(worker).failed(step)
            self._operations.setdefault(number, set()).add(operation)
            self._remember_wait(at, retry_after_s)
        else:
            self._streak.ended()
            self._own.pop(worker, None)

    def evidence(
        self,
        now: float,
        *,
        completed_by_bad_sample: bool = True,
        live_workers: int | None = None,
        live_sessions: int | None = None,
    ) -> Evidence:
        """The snapshot at this moment."""
        self._drop_old(now)
        total = self._total
        return Evidence(
            ok=total.ok,
            empty=total.empty,
            failures=total.failures,
            slow=total.slow,
            calls=total.calls,
            streak=self._streak.length,
            workers=tuple(self._workers()),
            own_streaks=tuple(self._own_streaks()),
            active_sessions=len(self._by_worker),
            live_workers=live_workers,
            live_sessions=live_sessions,
            completed_by_bad_sample=completed_by_bad_sample,
            operation=self._operation(),
            retry_until=self._retry_until,
        )

    def clear(self) -> None:
        """Start clean, as every transition does."""
        self._buckets.clear()
        self._operations.clear()
        self._by_worker.clear()
        self._total = Counts()
        self._streak.ended()
        self._own.clear()
        self._retry_until = None

    def shift(self, by_s: float) -> None:
        """Follow a step of the clock, so that no sample grows older or younger by it."""
        by = round(by_s / bucket_width(self.window_s))
        self._buckets = {number + by: counts for number, counts in self._buckets.items()}
        self._operations = {number + by: names for number, names in self._operations.items()}
        self._retry_until = None if self._retry_until is None else self._retry_until + by_s

    def resize(self, window_s: float) -> None:
        """Follow an edited policy; the samples stay, each in the bucket of its time."""
        old_width, old = bucket_width(self.window_s), self._buckets
        names = {number: self._operations.get(number, set()) for number in old}
        self.window_s, self._buckets, self._operations = window_s, {}, {}
        for number, bucket in old.items():
            target = bucket_of((number + 0.5) * old_width, window_s)
            for worker, counts in bucket.items():
                self._buckets.setdefault(target, {}).setdefault(worker, Counts()).merge(counts)
            if names[number]:
                self._operations.setdefault(target, set()).update(names[number])

    @property
    def streak(self) -> int:
        """Failures since the last success."""
        return self._streak.length

    def _cell(self, number: int, worker: str) -> Counts:
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = {}
            if len(self._buckets) > 2 * BUCKETS:
                self._drop_before(number - BUCKETS + 1)
        if worker not in bucket:
            bucket[worker] = Counts()
        return bucket[worker]

    def _of_worker(self, worker: str) -> Counts:
        if worker not in self._by_worker:
            self._by_worker[worker] = Counts()
        return self._by_worker[worker]

    def _own_of(self, worker: str) -> _Own:
        if worker not in self._own:
            self._own[worker] = _Own()
        return self._own[worker]

    def _own_streaks(self) -> Iterator[OwnStreak]:
        """A worker of a window in memory is one session."""
        for worker, own in self._own.items():
            if worker in self._by_worker:
                yield OwnStreak(worker, worker, own.length)

    def _drop_old(self, now: float) -> None:
        self._drop_before(live_buckets(now, self.window_s).start)

    def _drop_before(self, oldest: int) -> None:
        for number in [number for number in self._buckets if number < oldest]:
            self._operations.pop(number, None)
            for worker, counts in self._buckets.pop(number).items():
                self._forget(worker, counts)

    def _forget(self, worker: str, counts: Counts) -> None:
        self._total.merge(counts, -1)
        rest = self._by_worker[worker]
        rest.merge(counts, -1)
        if not rest.calls:
            del self._by_worker[worker]

    def _workers(self) -> Iterator[WorkerEvidence]:
        yield from (self._of(worker, counts) for worker, counts in self._by_worker.items())
        # A streak does not age: who failed in it stays a witness after the calls have left the window.
        for worker in self._streak.workers.difference(self._by_worker):
            yield WorkerEvidence(worker, last_failed=True)

    def _of(self, worker: str, counts: Counts) -> WorkerEvidence:
        return WorkerEvidence(
            worker=worker,
            ok=counts.ok + counts.empty,
            failures=counts.failures,
            slow=counts.slow,
            calls=counts.calls,
            last_failed=worker in self._streak.workers,
        )

    def _operation(self) -> str | None:
        names = set().union(*self._operations.values())
        return names.pop() if len(names) == 1 else None

    def _remember_wait(self, at: float, retry_after_s: float | None) -> None:
        if retry_after_s is not None:
            self._retry_until = max(self._retry_until or 0.0, at + retry_after_s)
