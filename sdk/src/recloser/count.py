"""Counts finished calls, into this worker's breakers and into the outbox: many at a time, under the client's lock.

A caller leaves one line per call in one queue, in the order in which calls end. Lines that went well, and those that
were answered from memory, name the `Tap` they came through and are counted in one stroke each; any other line is read
by itself, after all that ended before it.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from recloser.classify import Reading
from recloser.config_sync import DependencyRule, Snapshot, ToolRule
from recloser.core.types import FAILURES, Action, Delivery, Outcome, Scope
from recloser.core.window import is_slow
from recloser.guard import Tap
from recloser.outbox import BOUNDS_MS, Outbox, new_id
from recloser.report import TripReport
from recloser.worker import WorkerBreakers, WorkerTrip

if TYPE_CHECKING:
    from recloser.run import Run

AT_ONCE = 4096
"""So many lines are taken from the queue at a time."""


class Mark:
    """What a line in a step log says of its tool; a `Tap` says the same of many."""

    __slots__ = ("attempts", "name", "outcome")

    def __init__(self, name: str, outcome: Outcome, attempts: int) -> None:
        self.name = name
        self.outcome = outcome
        self.attempts = attempts


Line = tuple[Any, ...]
"""Whose call (a `Tap` or a `Mark`), in which step, began, ended; where calls are compared, the keys of arguments and
result, too."""

Seen = tuple[
    None,
    ToolRule,
    Snapshot,
    "Run | None",
    "int | None",
    float,
    float,
    Outcome,
    "str | None",
    "str | None",
    "Reading | None",
]
"""Any other finished call: rule, snapshot, run, step, began, ended, outcome, keys, its reading."""

_whose = itemgetter(0)


class Counter:
    """Takes lines from the queue; returns the trips of the worker's breakers."""

    def __init__(self, breakers: WorkerBreakers) -> None:
        self._breakers = breakers

    def count(self, seen: list[Any], outbox: Outbox | None) -> list[TripReport]:
        """Count everything that was seen so far."""
        trips: list[TripReport] = []
        while batch := _taken(seen):
            self._count(batch, outbox, trips)
        return trips

    def _count(self, batch: list[Any], outbox: Outbox | None, trips: list[TripReport]) -> None:
        plain: dict[Tap, list[Line]] = {}
        for tap, lines in groupby(batch, _whose):
            if tap is not None:
                plain.setdefault(tap, []).extend(lines)
                continue
            for line in lines:
                self._count_plain(plain, outbox)
                self._count_other(line, outbox, trips)
        self._count_plain(plain, outbox)

    def _count_plain(self, plain: dict[Tap, list[Line]], outbox: Outbox | None) -> None:
        for tap, lines in plain.items():
            tap.run.log.extend(lines)
            if tap.answer is not None:
                tap.run.refused(tap.name, len(lines))
                self._observe_rejected(tap, lines, outbox)
            else:
                self._count_good(tap, lines, outbox)
        plain.clear()

    def _count_good(self, tap: Tap, lines: list[Line], outbox: Outbox | None) -> None:
        spans = [line[3] - line[2] for line in lines]
        seconds, longest = sum(spans), max(spans)
        tap.run.tool_seconds += seconds
        hist = _histogram(spans, longest) if outbox is not None else ()
        for rule in tap.rule.dependencies:
            if outbox is not None:
                part = outbox.slice_of(
                    tap.name, rule.name, tap.snapshot.generation(rule.name), tap.rule.operation, lines[0][3]
                )
                slow_s = rule.policy.slow_call_ms / 1000.0
                slow = sum(span > slow_s for span in spans) if longest > slow_s else 0
                part.add_good(len(lines), lines[-1][3], seconds, longest, slow, hist)
            if self._breakers.failing(rule.name):
                self._end_streak(rule, tap, lines)

    def _end_streak(self, rule: DependencyRule, tap: Tap, lines: list[Line]) -> None:
        for _, step, began, ended, *_ in lines:
            self._judge(rule, tap.rule, tap.run, step, began, ended, Outcome.OK, None)
            if not self._breakers.failing(rule.name):
                return

    def _observe_rejected(self, tap: Tap, lines: list[Line], outbox: Outbox | None) -> None:
        for rule in tap.rule.dependencies if outbox is not None else ():
            assert outbox is not None
            generation, first, last = tap.snapshot.generation(rule.name), lines[0][3], lines[-1][3]
            part = outbox.slice_of(tap.name, rule.name, generation, tap.rule.operation, first)
            part.add_rejected(len(lines), last)

    def _count_other(self, call: Seen, outbox: Outbox | None, trips: list[TripReport]) -> None:
        _, tool, _, run, step, began, ended, outcome, args, result, reading = call
        if run is not None:
            attempts = reading.attempts if reading is not None else int(outcome is not Outcome.REJECTED)
            run.log.append((Mark(tool.name, outcome, attempts), step, began, ended, args, result))
            run.tool_seconds += ended - began
        for rule in tool.dependencies:
            if reading is not None and not _concerns(rule, tool, reading):
                continue
            if outbox is not None:
                self._observe(outbox, rule, call)
            if (trip := self._judge(rule, tool, run, step, began, ended, outcome, reading)) is not None:
                trips.append(_worker_trip(trip, tool, run, step, ended))

    def _observe(self, outbox: Outbox, rule: DependencyRule, call: Seen) -> None:
        _, tool, snapshot, run, step, began, ended, outcome, _, _, reading = call
        part = outbox.slice_of(tool.name, rule.name, snapshot.generation(rule.name), tool.operation, ended)
        slow = is_slow(ended - began, rule.policy.slow_call_ms)
        if reading is None:
            part.add(outcome, at=ended, seconds=ended - began, slow=slow)
            return
        part.add(
            outcome,
            at=ended,
            seconds=ended - began,
            slow=slow,
            attempts=reading.attempts,
            retry_after_s=reading.retry_after_s if outcome in FAILURES else None,
            error=reading.error,
            status=reading.status,
            run=None if run is None else run.id,
            step=step,
        )

    def _judge(
        self,
        rule: DependencyRule,
        tool: ToolRule,
        run: Run | None,
        step: int | None,
        began: float,
        ended: float,
        outcome: Outcome,
        reading: Reading | None,
    ) -> WorkerTrip | None:
        return self._breakers.record(
            rule,
            outcome,
            began_at=began,
            at=ended,
            slow=is_slow(ended - began, rule.policy.slow_call_ms),
            step=None if run is None or step is None else (run.id, step),
            operation=tool.operation or tool.name,
            retry_after_s=None if reading is None else reading.retry_after_s,
        )


def _taken(seen: list[Any]) -> list[Any]:
    """A bounded number of lines. Only the holder of the client's lock takes any; what is appended meanwhile stays."""
    batch = seen[:AT_ONCE]
    del seen[: len(batch)]
    return batch


def _histogram(spans: list[float], longest: float) -> tuple[tuple[int, int], ...]:
    """How many fall under each bound; mostly all under one."""
    high = bisect_left(BOUNDS_MS, longest * 1000.0)
    low = bisect_left(BOUNDS_MS, min(spans) * 1000.0) if high else 0
    if low == high:
        return ((low, len(spans)),)
    found: dict[int, int] = {}
    for span in spans:
        at = bisect_left(BOUNDS_MS, span * 1000.0, low, high)
        found[at] = found.get(at, 0) + 1
    return tuple(found.items())


def _concerns(rule: DependencyRule, tool: ToolRule, reading: Reading) -> bool:
    """An outcome counts for every dependency, unless somebody knows the one at fault; the others then learn nothing."""
    if reading.at_fault is None or reading.outcome not in FAILURES:
        return True
    named = {one.name for one in tool.dependencies}
    return reading.at_fault not in named or reading.at_fault == rule.name


def _worker_trip(trip: WorkerTrip, tool: ToolRule, run: Run | None, step: int | None, ended: float) -> TripReport:
    signal = trip.breach.signal
    return TripReport(
        id=new_id(),
        scope=Scope.WORKER,
        signal=signal,
        tool=tool.name,
        dependency=trip.rule.name,
        run=None if run is None else run.id,
        step=step,
        action=Action.REMOVE_TOOL,
        delivery=Delivery.ENFORCE if trip.enforced else Delivery.OBSERVE,
        evidence={signal.value: trip.breach.value},
        threshold={signal.value: trip.breach.threshold},
        policy=trip.rule.digest,
        at=ended,
    )
