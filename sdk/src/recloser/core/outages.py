"""Real outage histories played through the core: how soon a circuit opens, and what its synthetic probes prove.

A history is one dependency's checks over time. It says when the dependency was down, never what called it, so the
calls and the probes are synthetic; `ASSUMPTIONS` says how, and whoever prints a figure prints them too.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recloser.core.circuit import Circuit
from recloser.core.replay import Call, Fleet, ProbeEnd, ProbeStart, opened
from recloser.core.schema import CircuitPolicy
from recloser.core.types import Outcome, State, Verdict

UP, DOWN, DEGRADED = "up", "down", "degraded"
WORKERS = ("a", "b", "c")
CALL_EVERY_S = 3.0
WARM_UP_S = 120.0
PROBE_S = 1.0
TOO_EARLY_S = 1800.0
DEPENDENCY = "it"
ASSUMPTIONS = (
    "a state holds until the next check",
    "down is an outage; degraded is one only where asked (--degraded)",
    "an outage ends at the first check that says up",
    f"traffic is synthetic: {60 / CALL_EVERY_S:.0f} calls a minute from {len(WORKERS)} workers, all failing while down",
    f"a probe is started when it is due and answers what is true {PROBE_S:.0f} s later",
    f"closed too early: down again within {TOO_EARLY_S / 60:.0f} minutes of closing",
    "an outage that begins while the circuit is still open needs no opening; the wait is taken from the last recovery",
)


class BadHistory(ValueError):
    """What was read is not a history; the message names the field and the mend."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One outage; `ends` is infinite where the history stops first."""

    begins: float
    ends: float


@dataclass(slots=True)
class Figures:
    """What came of it; waits in seconds."""

    episodes: int = 0
    episodes_missed: int = 0
    closings: int = 0
    closed_too_early: int = 0
    probes: int = 0
    lockouts: int = 0
    waits: list[float] = field(default_factory=list)
    opening_waits: list[float] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Take another history's figures in."""
        for name in ("episodes", "episodes_missed", "closings", "closed_too_early", "probes", "lockouts"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.waits += other.waits
        self.opening_waits += other.opening_waits

    def to_dict(self) -> dict[str, Any]:
        """As JSON: shares are 0 to 1, None where nothing was counted."""
        return {
            "episodes": self.episodes,
            "episodes_missed": self.episodes_missed,
            "open_after_recovery_s": {"p50": _quantile(self.waits, 0.5), "p90": _quantile(self.waits, 0.9)},
            "opened_after_s": {"p50": _quantile(self.opening_waits, 0.5), "p90": _quantile(self.opening_waits, 0.9)},
            "closings": self.closings,
            "closed_too_early": self.closed_too_early,
            "closed_too_early_share": round(self.closed_too_early / self.closings, 4) if self.closings else None,
            "probes": self.probes,
            "lockouts": self.lockouts,
        }


def episodes(checks: Any, *, degraded_counts: bool = False) -> list[Episode]:
    """The outages in `checks`, a list of [unix seconds, state, ...]. Raises `BadHistory`."""
    bad = {DOWN, DEGRADED} if degraded_counts else {DOWN}
    found: list[Episode] = []
    began: float | None = None
    for at, state in _read(checks):
        if began is None and state in bad:
            began = at
        elif began is not None and state == UP:
            if at > began:
                found.append(Episode(began, at))
            began = None
    if began is not None:
        found.append(Episode(began, math.inf))
    return found


def _read(checks: Any) -> Iterator[tuple[float, str]]:
    if not isinstance(checks, Sequence) or isinstance(checks, str):
        raise BadHistory('checks: give a list of [unix seconds, "up", "down" or "degraded"]')
    before = -math.inf
    for place, check in enumerate(checks):
        at, state = _check(check, f"checks[{place}]")
        if at < before:
            raise BadHistory(f"checks[{place}]: earlier than the one before it; sort them by time")
        before = at
        yield at, state


def _check(check: Any, where: str) -> tuple[float, str]:
    if not isinstance(check, Sequence) or isinstance(check, str) or len(check) < 2:
        raise BadHistory(f"{where}: give [unix seconds, state, status code or null, milliseconds or null]")
    at, state = check[0], check[1]
    if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
        raise BadHistory(f"{where}: the time is not a number of unix seconds")
    if state not in (UP, DOWN, DEGRADED):
        raise BadHistory(f'{where}: the state is none of "up", "down" and "degraded"')
    return float(at), state


def replayed(
    history: Mapping[str, Any],
    policy: CircuitPolicy | None = None,
    *,
    degraded_counts: bool = False,
    jitter: Callable[[], float] = lambda: 0.0,
) -> Figures:
    """One history's figures under `policy`, by default the built-in one. Raises `BadHistory`.

    `jitter` draws from -1 to 1; the policy scales it.
    """
    found = episodes(history.get("checks"), degraded_counts=degraded_counts)
    last = float(history["checks"][-1][0]) if history["checks"] else 0.0
    return _Player(found, last, policy or CircuitPolicy(), jitter).play()


class _Player:
    """One dependency's circuit from outage to outage; between them nothing happens, and nothing is played."""

    def __init__(self, found: list[Episode], last: float, policy: CircuitPolicy, jitter: Callable[[], float]) -> None:
        self._episodes = found
        self._last = last
        self._fleet = Fleet(lambda name: policy, lambda tool: (DEPENDENCY,), jitter=jitter)
        self._figures = Figures(episodes=len(found))
        self._at = -math.inf

    def play(self) -> Figures:
        """The figures of all outages in turn."""
        place = 0
        while place < len(self._episodes):
            place = self._outage(place)
        return self._figures

    def _outage(self, place: int) -> int:
        """One outage until its circuit has closed; the place of the next one that finds it closed."""
        episode = self._episodes[place]
        opened_at = self._called_until_open(episode)
        if opened_at is None:
            self._figures.episodes_missed += 1
            return place + 1
        self._figures.opening_waits.append(opened_at - episode.begins)
        closed_at = self._probed_until_closed()
        return self._closed(place, closed_at)

    def _called_until_open(self, episode: Episode) -> float | None:
        """Call it, well at first, until the circuit opens; None where the outage is over before."""
        self._at = max(self._at, episode.begins - WARM_UP_S)
        turn = 0
        while (at := self._at + CALL_EVERY_S) < min(episode.ends, self._last + WARM_UP_S):
            self._at, turn = at, turn + 1
            outcome = Outcome.RETRYABLE_ERROR if at >= episode.begins else Outcome.OK
            call = Call(at, "call", outcome, worker=WORKERS[turn % len(WORKERS)], run=f"run-{turn}")
            if trips := opened(self._fleet.feed(call).changes):
                return trips[0].at
        return None

    def _probed_until_closed(self) -> float | None:
        """Probe it whenever that is due; None where the history ends before it closes."""
        locked_out, circuit = False, self._circuit
        while circuit.due_at is not None and circuit.due_at <= self._last:
            self._at = max(self._at, circuit.due_at)
            circuit = self._probed()
            locked_out = locked_out or circuit.locked_out_at is not None
        self._figures.lockouts += locked_out
        return self._at if circuit.state is State.CLOSED else None

    def _probed(self) -> Circuit:
        """One probe from now on; the circuit after its verdict."""
        self._figures.probes += 1
        probe = f"probe-{self._figures.probes}"
        self._fleet.feed(ProbeStart(self._at, DEPENDENCY, probe))
        self._at += PROBE_S
        verdict = Verdict.BAD if self._is_down(self._at) else Verdict.GOOD
        self._fleet.feed(ProbeEnd(self._at, DEPENDENCY, probe, verdict))
        return self._circuit

    @property
    def _circuit(self) -> Circuit:
        return self._fleet.circuit(DEPENDENCY)

    def _is_down(self, at: float) -> bool:
        place = bisect_right(self._episodes, at, key=lambda episode: episode.begins) - 1
        return place >= 0 and at < self._episodes[place].ends

    def _closed(self, place: int, closed_at: float | None) -> int:
        if closed_at is None:
            return len(self._episodes)
        following = place
        while following < len(self._episodes) and self._episodes[following].begins <= closed_at:
            following += 1
        self._figures.closings += 1
        self._figures.waits.append(closed_at - self._episodes[following - 1].ends)
        if following < len(self._episodes) and self._episodes[following].begins - closed_at <= TOO_EARLY_S:
            self._figures.closed_too_early += 1
        return following


def _quantile(values: Iterable[float], share: float) -> float | None:
    """The nearest-rank quantile, rounded to a tenth."""
    ordered = sorted(values)
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 1) if ordered else None
