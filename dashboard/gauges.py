"""The evidence against its thresholds, as gauges: what tripped, while it is open; the present window, while closed."""

from __future__ import annotations

from dataclasses import dataclass

from recloser.core.policy import CircuitPolicy

from controlplane.models import Trip
from controlplane.selectors.circuits import CircuitPage
from dashboard import words


@dataclass(frozen=True, slots=True)
class Gauge:
    """One measured value and its limit."""

    label: str
    value: float | None
    limit: float | None
    shown: str
    against: str
    top: float = 1.0


def rows(page: CircuitPage, policy: CircuitPolicy) -> list[Gauge]:
    """One gauge a signal that is switched on."""
    trip = _at_stake(page)
    return _of_trip(trip, policy) if trip is not None else _of_window(page, policy)


def caption(page: CircuitPage, policy: CircuitPolicy) -> str:
    """What the gauges show."""
    if _at_stake(page) is not None:
        return "The evidence that opened it, against the thresholds at that moment."
    return f"The last {words.seconds(policy.window_s)}, against the thresholds in force."


def _at_stake(page: CircuitPage) -> Trip | None:
    running = page.standing.core.tripped_by is not None
    return page.trip if running else None


def of_signal(trip: Trip) -> Gauge:
    """The one value that tripped."""
    return _rated(trip.signal, words.measured(trip), words.threshold(trip))


def _of_trip(trip: Trip, policy: CircuitPolicy) -> list[Gauge]:
    value, limit = words.measured(trip), words.threshold(trip)
    evidence = trip.evidence if isinstance(trip.evidence, dict) else {}
    gauges = [_rated(trip.signal, value, limit)]
    witnesses = words.number(evidence.get("witnesses"))
    if witnesses is not None:
        wanted = words.number(trip.threshold.get("min_workers")) or policy.min_workers
        gauges.append(_counted("workers saw it", witnesses, wanted, "needed"))
    calls = words.number(evidence.get("calls"))
    if calls is not None and trip.signal != "consecutive_failures":
        gauges.append(_counted("calls in the window", calls, words.number(trip.threshold.get("min_calls")), "at least"))
    return gauges


def _of_window(page: CircuitPage, policy: CircuitPolicy) -> list[Gauge]:
    calls = page.calls
    gauges = [_rated("failure_rate", calls.rate, policy.failure_rate)]
    slow = calls.slow / calls.judged if calls.judged else None
    gauges.append(_rated("slow_call_rate", slow, policy.slow_call_rate))
    gauges.append(_counted("calls in the window", float(calls.judged), float(policy.min_calls), "judged from"))
    return gauges


def _rated(signal: str, value: float | None, limit: float | None) -> Gauge:
    label = words.RATES.get(signal)
    if label is None:
        return _counted(words.COUNTS.get(signal, signal), value or 0, limit, "trips at")
    against = f"trips at {words.percent(limit)}" if limit is not None else "off"
    return Gauge(label, value, limit, words.percent(value), against)


def _counted(label: str, value: float, limit: float | None, word: str) -> Gauge:
    against = f"{word} {limit:g}" if limit is not None else "off"
    return Gauge(label, value, limit, f"{value:g}", against, top=max(value, (limit or 0) * 1.5, 1))
