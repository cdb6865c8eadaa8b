"""What waits to be told: observations that merge, trips and runs, and the one numbered batch in flight.

Counts merge, so memory stays bounded while nothing can be sent; a batch that was sent once is sent again unchanged
until it is
acknowledged, because nobody can know whether it was stored. The caller holds a lock; nothing here waits or talks.
All instants are of a monotonic clock; ages are made when a body is.
"""

from __future__ import annotations

import dataclasses
import os
import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from recloser.core.types import FAILURES, SUCCESSES, Outcome
from recloser.core.window import Steps

BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)
MAX_OBSERVATIONS = 500
MAX_TRIPS = 200
MAX_RUNS = 200
MAX_SAMPLES = 5
MAX_HINTS = 200
MAX_KEYS = 1000
MAX_HELD_TRIPS = 5000
MAX_HELD_RUNS = 2000
MAX_HELD_STEP_LINES = 50_000
_OK = Outcome.OK
_MARKS = (0xF << 76) | (0b11 << 62)
_VERSION_4 = (0x4 << 76) | (0b10 << 62)
OTHER = "(other)"
"""Stands for every tool beyond `MAX_KEYS`, so that names without end cannot fill the memory."""

Key = tuple[str, str, int]
Kept = TypeVar("Kept")


class Entry(Protocol):
    """A trip or a run: something with an id that can be written for the wire at an instant."""

    @property
    def id(self) -> str:
        """Unique; the same entry is never told twice."""
        ...

    def to_wire(self, now: float) -> dict[str, Any]:
        """As an entry of a batch that is sent now."""
        ...


class RunEntry(Entry, Protocol):
    """A run's report; the highest revision wins."""

    @property
    def revision(self) -> int:
        """Rises with every report."""
        ...

    @property
    def step_lines(self) -> int:
        """How long its step log is."""
        ...

    def without_step_log(self) -> RunEntry:
        """The same without it."""
        ...

    def without(self, part: str) -> RunEntry | None:
        """The same without a list that was refused; None where there is nothing to leave out."""
        ...


class Slice:
    """What one (tool, dependency, generation) saw in one slice of time."""

    __slots__ = (
        "attempts", "began", "counts", "dependency", "ended", "generation", "hist", "max_ms", "operation",
        "retry_after_s", "samples", "slow", "slow_failures", "steps", "streak", "sum_ms", "tool",
    )  # fmt: skip

    def __init__(
        self, tool: str, dependency: str, generation: int, operation: str | None, began: float, steps: Steps
    ) -> None:
        self.tool = tool
        self.dependency = dependency
        self.generation = generation
        self.operation = operation
        self.began = began
        self.ended = began
        self.counts: dict[Outcome, int] = {}
        self.attempts = 0
        self.slow = 0
        self.slow_failures = 0
        self.sum_ms = 0.0
        self.max_ms = 0.0
        self.hist = [0] * (len(BOUNDS_MS) + 1)
        self.streak = 0
        self.steps = steps
        self.retry_after_s: float | None = None
        self.samples: list[tuple[Outcome, str | None, int | None, str | None, int | None, float]] = []

    def add(
        self,
        outcome: Outcome,
        *,
        at: float,
        seconds: float,
        slow: bool = False,
        attempts: int = 1,
        retry_after_s: float | None = None,
        error: str | None = None,
        status: int | None = None,
        run: str | None = None,
        step: int | None = None,
    ) -> None:
        """Count one finished call that was known `at`. Of one step's failures only the first extends the streak."""
        self.began, self.ended = min(self.began, at), max(self.ended, at)
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        if outcome is Outcome.REJECTED:
            return
        self.attempts += attempts
        milliseconds = seconds * 1000.0
        self.sum_ms += milliseconds
        self.max_ms = max(self.max_ms, milliseconds)
        self.hist[bisect_left(BOUNDS_MS, milliseconds)] += 1
        self.slow += slow
        if outcome in FAILURES:
            self.slow_failures += slow
            self.streak += self.steps.first(None if run is None or step is None else (run, step))
        elif outcome in SUCCESSES:
            self._succeeded()
        if retry_after_s is not None:
            self.retry_after_s = max(self.retry_after_s or 0.0, retry_after_s)
        if outcome not in SUCCESSES and len(self.samples) < MAX_SAMPLES:
            self.samples.append((outcome, error, status, run, step, at))

    def add_good(
        self, calls: int, at: float, seconds: float, longest_s: float, slow: int, hist: Iterable[tuple[int, int]]
    ) -> None:
        """Count calls that all went well, the last of them known `at`: what `add` does, for many in one stroke."""
        self.ended = max(self.ended, at)
        self.counts[_OK] = self.counts.get(_OK, 0) + calls
        self.attempts += calls
        self.sum_ms += seconds * 1000.0
        self.max_ms = max(self.max_ms, longest_s * 1000.0)
        self.slow += slow
        for bucket, count in hist:
            self.hist[bucket] += count
        self._succeeded()

    def add_rejected(self, calls: int, at: float) -> None:
        """Count calls that were answered without being made; they are no evidence."""
        self.ended = max(self.ended, at)
        self.counts[Outcome.REJECTED] = self.counts.get(Outcome.REJECTED, 0) + calls

    def _succeeded(self) -> None:
        self.streak = 0
        self.steps.clear()

    def shift(self, by_s: float) -> None:
        """All of it happened that much later, or earlier by a negative number."""
        self.began, self.ended = self.began + by_s, self.ended + by_s
        self.samples = [(*sample[:5], sample[5] + by_s) for sample in self.samples]

    def merge(self, later: Slice) -> None:
        """Take over what a later slice of the same key saw."""
        self.began, self.ended = min(self.began, later.began), max(self.ended, later.ended)
        broken = any(later.counts.get(outcome) for outcome in SUCCESSES)
        for outcome, n in later.counts.items():
            self.counts[outcome] = self.counts.get(outcome, 0) + n
        self.attempts += later.attempts
        self.slow += later.slow
        self.slow_failures += later.slow_failures
        self.sum_ms += later.sum_ms
        self.max_ms = max(self.max_ms, later.max_ms)
        self.hist = [a + b for a, b in zip(self.hist, later.hist, strict=True)]
        self.streak = later.streak if broken else self.streak + later.streak
        if later.retry_after_s is not None:
            self.retry_after_s = max(self.retry_after_s or 0.0, later.retry_after_s)
        self.samples = (self.samples + later.samples)[:MAX_SAMPLES]

    def without_samples(self) -> Slice:
        """The counts alone."""
        self.samples = []
        return self

    def to_wire(self, now: float) -> dict[str, Any]:
        """As one entry of a batch's `observations`."""
        return {
            "tool": self.tool,
            "dependency": self.dependency,
            "generation": self.generation,
            "operation": self.operation or self.tool,
            "age_s": age(self.ended, now),
            "span_s": round(self.ended - self.began, 3),
            "counts": {outcome.value: n for outcome, n in self.counts.items()},
            "attempts": self.attempts,
            "slow": self.slow,
            "slow_failures": self.slow_failures,
            "latency_ms": {"sum": round(self.sum_ms, 3), "max": round(self.max_ms, 3), "hist": trimmed(self.hist)},
            "streak": self.streak,
            "retry_after_s": self.retry_after_s,
            "samples": [
                {
                    "outcome": outcome.value,
                    "error": error,
                    "status": status,
                    "run": run,
                    "step": step,
                    "age_s": age(at, now),
                }
                for outcome, error, status, run, step, at in self.samples
            ],
        }


class Batch:
    """One numbered batch. Its content never changes once it may have been received."""

    def __init__(
        self,
        seq: int,
        observations: list[Slice],
        trips: list[Entry],
        runs: list[RunEntry],
        session: str,
        overrides: list[Entry] | None = None,
        hints: dict[str, dict[str, bool]] | None = None,
    ) -> None:
        self.seq = seq
        self.session = session
        self.observations = observations
        self.trips = trips
        self.runs = runs
        self.overrides = overrides or []
        self.hints = hints or {}
        self.fresh = True
        self.sealed_at = 0.0

    def __len__(self) -> int:
        return len(self.observations) + len(self.trips) + len(self.runs) + len(self.overrides)

    def to_wire(self, now: float) -> dict[str, Any]:
        """The body's numbered part, ages as of `now`."""
        return {
            "session": self.session,
            "seq": self.seq,
            "observations": [part.to_wire(now) for part in self.observations],
            "trips": [trip.to_wire(now) for trip in self.trips],
            "runs": [run.to_wire(now) for run in self.runs],
            **({"overrides": [one.to_wire(now) for one in self.overrides]} if self.overrides else {}),
            **({"hints": [{"tool": name, **told} for name, told in self.hints.items()]} if self.hints else {}),
        }

    def shift(self, by_s: float) -> None:
        """The process slept: what is in it is older than it was made."""
        self.sealed_at += by_s
        for part in self.observations:
            part.shift(by_s)
        self.trips = [_shifted(trip, by_s) for trip in self.trips]
        self.runs = [_shifted(run, by_s) for run in self.runs]
        self.overrides = [_shifted(one, by_s) for one in self.overrides]


class Outbox:
    """Everything this session still owes the control plane."""

    def __init__(self, session: str | None = None) -> None:
        self.session = session or new_id()
        self.dropped = 0
        self._seq = 0
        self._open: dict[Key, Slice] = {}
        self._held: dict[Key, list[Slice]] = {}
        self._steps: dict[tuple[str, int], Steps] = {}
        self._trips: dict[str, Entry] = {}
        self._runs: dict[str, RunEntry] = {}
        self._overrides: dict[str, Entry] = {}
        self._hints: dict[str, dict[str, bool]] = {}
        self._ready: list[Batch] = []

    def slice_of(self, tool: str, dependency: str, generation: int, operation: str | None, at: float) -> Slice:
        """The open slice of this key, made where there is none."""
        key = (tool, dependency, generation)
        found = self._open.get(key)
        if found is None:
            if len(self._open) >= MAX_KEYS or (key not in self._held and len(self._held) >= MAX_KEYS):
                tool = dependency = OTHER
                key = (tool, dependency, generation := 0)
            steps = self._steps_of(dependency, generation)
            found = self._open.get(key) or Slice(tool, dependency, generation, operation, at, steps)
            self._open[key] = found
        return found

    def _steps_of(self, dependency: str, generation: int) -> Steps:
        """What the present streak of a dependency has counted, in this slice, in those before it, by all its tools."""
        key = (dependency, generation)
        found = self._steps.get(key)
        if found is None:
            if len(self._steps) >= MAX_KEYS:
                del self._steps[next(iter(self._steps))]
            found = self._steps[key] = Steps()
        return found

    def add_trip(self, trip: Entry) -> None:
        """Keep a trip until it is acknowledged; beyond the bound the oldest is dropped and counted."""
        if len(self._trips) >= MAX_HELD_TRIPS:
            self._trips.pop(next(iter(self._trips)))
            self.dropped += 1
        self._trips[trip.id] = trip

    def add_override(self, override: Entry) -> None:
        """Keep an operator's local override until it is acknowledged."""
        if len(self._overrides) < MAX_TRIPS:
            self._overrides[override.id] = override

    def add_hints(self, tool: str, told: dict[str, bool]) -> None:
        """Keep what a tool says of itself until it has been called: one that nobody calls is nobody's business."""
        if tool in self._hints or len(self._hints) < MAX_KEYS:
            self._hints[tool] = told

    def shift(self, by_s: float) -> None:
        """The process slept for -`by_s` seconds: everything that waits is that much older."""
        for part in (*self._open.values(), *(part for parts in self._held.values() for part in parts)):
            part.shift(by_s)
        for batch in self._ready:
            batch.shift(by_s)
        self._trips = {key: _shifted(entry, by_s) for key, entry in self._trips.items()}
        self._runs = {key: _shifted(entry, by_s) for key, entry in self._runs.items()}
        self._overrides = {key: _shifted(entry, by_s) for key, entry in self._overrides.items()}

    def add_run(self, run: RunEntry) -> None:
        """Keep a run's latest report; step logs go first when there are too many."""
        known = self._runs.pop(run.id, None)
        if known is not None and known.revision > run.revision:
            run = known
        if len(self._runs) >= MAX_HELD_RUNS:
            self._runs.pop(next(iter(self._runs)))
            self.dropped += 1
        self._runs[run.id] = run
        if sum(kept.step_lines for kept in self._runs.values()) > MAX_HELD_STEP_LINES:
            self._runs = {key: kept.without_step_log() for key, kept in self._runs.items()}

    def cut(self, now: float, window_s: float) -> None:
        """Close the open slices; what is older than the window, and so will not be counted, merges into one."""
        for key, part in self._open.items():
            parts = self._held.setdefault(key, [])
            while len(parts) >= 2 and now - parts[1].ended > window_s:
                parts[0].merge(parts.pop(1))
            parts.append(part)
        self._open.clear()

    @property
    def in_flight(self) -> Batch | None:
        """The batch that is being sent, again and again if need be."""
        return self._ready[0] if self._ready else None

    @property
    def waiting(self) -> int:
        """How many entries are not acknowledged yet."""
        held = sum(len(parts) for parts in self._held.values())
        kept = len(self._trips) + len(self._runs) + len(self._overrides)
        return sum(map(len, self._ready)) + len(self._open) + held + kept

    def holds(self, dependencies: Iterable[str]) -> bool:
        """Is there anything unsent about one of these?"""
        named = set(dependencies)
        return any(key[1] in named for key in self._open) or any(key[1] in named for key in self._held)

    @property
    def full(self) -> bool:
        """More waits than the last batch could hold."""
        return bool(self._ready or self._held or self._trips or self._runs or self._overrides)

    def seal(self, *, beat: bool = False) -> Batch | None:
        """The batch to send now: the one in flight, else a new one from all that waits.

        None when nothing waits, unless a `beat` is due: an empty batch that says this process lives, and by which
        documents.
        """
        if not self._ready:
            observations = self._take_slices()
            trips, runs = _take(self._trips, MAX_TRIPS), _take(self._runs, MAX_RUNS)
            overrides = _take(self._overrides, MAX_TRIPS)
            if observations or trips or runs or overrides or beat:
                self._seq += 1
                hints = self._take_hints(observations)
                self._ready.append(Batch(self._seq, observations, trips, runs, self.session, overrides, hints))
        return self.in_flight

    def acknowledge(self, ack: int) -> None:
        """Forget what is stored: the batch in flight, if the acknowledged number reaches it."""
        while self._ready and self._ready[0].seq <= ack:
            self._ready.pop(0)

    def drop(self, field: str | None) -> bool:
        """After a 422: remove what the field names; False if it names nothing here.

        That is the part where one is named that can be missed (a run's lists, an observation's samples), else the
        entry.
        """
        found = re.match(r"(observations|trips|runs|overrides)\[(\d+)\](?:\.(\w+))?", field or "")
        batch = self.in_flight
        if batch is not None and batch.hints and (field or "").startswith("hints"):
            batch.hints = {}
            return True
        if found is None or batch is None:
            return False
        entries: list[Any] = getattr(batch, found[1])
        at = int(found[2])
        if at >= len(entries):
            return False
        if (smaller := _without(entries[at], found[3])) is not None:
            entries[at] = smaller
            return True
        del entries[at]
        self.dropped += 1
        return True

    def split(self) -> bool:
        """After a 413 or a 400: two batches of half the entries; of a single one the step log goes, then the entry.

        False where there is nothing to split.
        """
        batch = self.in_flight
        if not batch:
            return False
        self._hints, batch.hints = {**batch.hints, **self._hints}, {}  # they go with a later call of their tools
        if len(batch) < 2:
            return self._shrink(batch)
        first, second = (Batch(batch.seq + n, [], [], [], batch.session) for n in (0, 1))
        for part in (first, second):  # what is in them was known when the whole was sealed, and not when they are sent
            part.fresh, part.sealed_at = batch.fresh, batch.sealed_at
        for name in ("observations", "trips", "runs", "overrides"):
            entries = getattr(batch, name)
            half = len(entries) // 2 if len(entries) > 1 else len(entries) * (name == "observations")
            getattr(first, name).extend(entries[:half])
            getattr(second, name).extend(entries[half:])
        self._ready[0:1] = [first, second]
        for n, later in enumerate(self._ready):
            later.seq = first.seq + n
        self._seq = self._ready[-1].seq
        return True

    def restart(self) -> None:
        """After a 409: a new session takes over what was not acknowledged, numbered from one."""
        self.session = new_id()
        for n, batch in enumerate(self._ready, start=1):
            batch.session, batch.seq = self.session, n
        self._seq = len(self._ready)

    def _shrink(self, batch: Batch) -> bool:
        if batch.runs and batch.runs[0].step_lines:
            batch.runs[0] = batch.runs[0].without_step_log()
        else:
            self.dropped += len(batch)
            batch.observations, batch.trips, batch.runs, batch.overrides = [], [], [], []
        return True

    def _take_hints(self, observations: list[Slice]) -> dict[str, dict[str, bool]]:
        """Of tools that are known by this batch, or by one before it."""
        called = {part.tool for part in observations} if self._hints else set()
        return {name: self._hints.pop(name) for name in [one for one in self._hints if one in called][:MAX_HINTS]}

    def _take_slices(self) -> list[Slice]:
        """Up to a batch's worth of slices, the oldest of each key first; what is left stays for the next batch."""
        for key, part in self._open.items():
            self._held.setdefault(key, []).append(part)
        self._open.clear()
        taken: list[Slice] = []
        for key in list(self._held):
            parts = self._held[key]
            room = MAX_OBSERVATIONS - len(taken)
            taken += parts[:room]
            if len(parts) > room:
                self._held[key] = parts[room:]
                break
            del self._held[key]
        return taken


def new_id() -> str:
    """A new unique id: a random UUID, without the weight of the module that makes them."""
    text = f"{int.from_bytes(os.urandom(16)) & ~_MARKS | _VERSION_4:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def age(at: float, now: float) -> float:
    """Seconds before now."""
    return round(max(0.0, now - at), 3)


def trimmed(hist: list[int]) -> list[int]:
    """Without trailing zeros; the reader pads."""
    last = max((n for n, count in enumerate(hist) if count), default=-1)
    return hist[: last + 1]


def _without(entry: Any, part: str | None) -> Any:
    """The same entry without the part that was refused; None where only the whole can go."""
    if isinstance(entry, Slice):
        return entry.without_samples() if part == "samples" and entry.samples else None
    without = getattr(entry, "without", None)
    return None if without is None or part is None else without(part)


def _shifted(entry: Kept, by_s: float) -> Kept:
    """A trip's, a run's or an override's report, with its instants moved."""
    named = [name for name in ("at", "started_at", "ended_at", "until") if getattr(entry, name, None) is not None]
    moved: Kept = dataclasses.replace(entry, **{name: getattr(entry, name) + by_s for name in named})  # type: ignore[type-var]
    return moved


def _take(held: dict[str, Kept], limit: int) -> list[Kept]:
    return [held.pop(key) for key in list(held)[:limit]]
