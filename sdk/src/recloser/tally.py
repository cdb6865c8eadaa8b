"""What a policy would have done to many recorded runs, counted: by signal, and by how the runs had ended in fact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from recloser.core.decision import RunDecision
from recloser.core.hindsight import Verdict, is_looping
from recloser.core.types import Signal
from recloser.recorded import RecordedRun


@dataclass(slots=True)
class OfSignal:
    """What one signal did."""

    trips: int = 0
    runs: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    """The runs that it tripped in, by how they had ended in fact."""
    stopped: int = 0
    """Of these runs, those that lost a tool to it or were ended by it."""

    def wire(self) -> dict[str, int]:
        """As `--json` has it."""
        return {
            "trips": self.trips, "runs": self.runs, "stopped": self.stopped,
            **{final: self.ended[final] for final in ("ok", "fail", "unknown")},
        }  # fmt: skip


@dataclass(slots=True)
class Tally:
    """What a policy would have done to a set of runs."""

    runs: int = 0
    steps: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    bad_loops: int = 0
    bad_loops_caught: int = 0
    calls_blocked: int = 0
    signals: dict[Signal, OfSignal] = field(default_factory=dict)
    watched: dict[Signal, OfSignal] = field(default_factory=dict)

    def add(self, run: RecordedRun, verdict: Verdict) -> None:
        """Count one run."""
        self.runs += 1
        self.steps += len(run.steps)
        self.ended[run.final] += 1
        self.stopped[run.final] += verdict.stopped
        self.calls_blocked += verdict.blocked
        if run.final == "fail" and is_looping(run.steps):
            self.bad_loops += 1
            self.bad_loops_caught += verdict.caught
        _count(self.signals, verdict.trips, run.final, verdict)
        _count(self.watched, verdict.watched, run.final, None)

    def wire(self) -> dict[str, Any]:
        """As `--json` has it. A share of nothing is null."""
        return {
            "runs": self.runs,
            "steps": self.steps,
            "ok_runs": self.ended["ok"],
            "ok_runs_stopped": self.stopped["ok"],
            "ok_runs_stopped_share": share(self.stopped["ok"], self.ended["ok"]),
            "failed_runs": self.ended["fail"],
            "failed_runs_stopped": self.stopped["fail"],
            "bad_loops": self.bad_loops,
            "bad_loops_caught": self.bad_loops_caught,
            "bad_loops_caught_share": share(self.bad_loops_caught, self.bad_loops),
            "calls_blocked": self.calls_blocked,
            "trips_by_signal": {signal.value: of.trips for signal, of in _in_order(self.signals)},
            "signals": {signal.value: of.wire() for signal, of in _in_order(self.signals)},
            "would_have_tripped": {signal.value: of.wire() for signal, of in _in_order(self.watched)},
        }


def _count(table: dict[Signal, OfSignal], found: Iterable[RunDecision], final: str, verdict: Verdict | None) -> None:
    trips = Counter(trip.signal for trip in found if trip.signal is not None)
    took = {trip.signal for trip in found if trip.tools or (verdict and trip.signal is verdict.ended_by)}
    for signal, times in trips.items():
        of = table.setdefault(signal, OfSignal())
        of.trips += times
        of.runs += 1
        of.ended[final] += 1
        of.stopped += verdict is not None and signal in took


def _in_order(table: Mapping[Signal, OfSignal]) -> Iterator[tuple[Signal, OfSignal]]:
    return ((signal, table[signal]) for signal in Signal if signal in table)


def share(part: int, whole: int) -> float | None:
    """A part of a whole; of nothing there is none."""
    return round(part / whole, 6) if whole else None
