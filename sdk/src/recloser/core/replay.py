"""One driver: events in, verdicts out. Conformance cases, recorded runs, outages and backtests all go through it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from recloser.core.budget import Spend
from recloser.core.circuit import (
    Breach,
    Circuit,
    admitted_share,
    effective_of,
    finish_round,
    force_close,
    force_closed,
    force_open,
    grant_round,
    in_share,
    is_current,
    is_ramping,
    judge,
    lengthen,
    release,
    shift,
    sweep,
)
from recloser.core.run import RunDecision, RunState
from recloser.core.schema import CircuitPolicy
from recloser.core.types import FAILURES, Mode, Outcome, State, Verdict
from recloser.core.window import Window, is_slow


@dataclass(frozen=True, slots=True)
class Call:
    """One finished call; `at` is when its outcome became known."""

    at: float
    tool: str
    outcome: Outcome
    worker: str = ""
    run: str = ""
    started: float | None = None
    duration_s: float | None = None
    retry_after_s: float | None = None
    step: int | None = None
    fingerprint: str | None = None
    result: Hashable = None
    progress: bool | None = None
    at_fault: tuple[str, ...] | None = None
    slow: bool | None = None
    """Told by the record; None: derived from the duration."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A run asks whether it may call a tool."""

    at: float
    tool: str
    run: str = ""
    step: int | None = None
    fingerprint: str | None = None
    worker: str = ""


@dataclass(frozen=True, slots=True)
class ProbeStart:
    """A prober asks for leave to test a dependency."""

    at: float
    dependency: str
    probe: str


@dataclass(frozen=True, slots=True)
class ProbeEnd:
    """A probe's verdict arrives."""

    at: float
    dependency: str
    probe: str
    verdict: Verdict
    operation: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Operate:
    """An operator acts: `force_close`, `force_open`, `force_closed` or `release`."""

    at: float
    dependency: str
    verb: str
    actor: str = ""
    until: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyEdit:
    """A dependency's policy is exchanged; state, samples and deadlines stay."""

    at: float
    dependency: str
    policy: CircuitPolicy


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The wall clock jumps; elapsed time does not."""

    at: float
    by_s: float


@dataclass(frozen=True, slots=True)
class Compaction:
    """A run's context is shortened."""

    at: float
    run: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A run asks leave for one model call."""

    at: float
    run: str = ""
    estimate: Spend | None = None


@dataclass(frozen=True, slots=True)
class Bill:
    """What a run's model call really cost."""

    at: float
    run: str = ""
    used: Spend = field(default_factory=Spend)


Event = Call | Ask | ProbeStart | ProbeEnd | Operate | PolicyEdit | ClockStep | Compaction | Turn | Bill


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a circuit's state or mode, or a note of what would have tripped."""

    at: float
    dependency: str
    before: Circuit
    after: Circuit
    breach: Breach | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """The verdicts on one event."""

    at: float
    admitted: bool | None = None
    granted: bool | None = None
    changes: tuple[Change, ...] = ()
    decisions: tuple[RunDecision, ...] = ()


@dataclass(slots=True)
class _Track:
    """One dependency on its way through the events."""

    name: str
    policy: CircuitPolicy
    window: Window
    circuit: Circuit = field(default_factory=Circuit)
    generations: list[tuple[float, int]] = field(default_factory=lambda: [(float("-inf"), 0)])

    def admitted_under(self, at: float) -> int:
        """The generation at the moment of an admission."""
        return self.generations[bisect_right(self.generations, (at, float("inf"))) - 1][1]


def _admits(track: _Track, now: float, worker: str) -> bool:
    if effective_of(track.circuit, track.policy.delivery, now).admits:
        return True
    share = admitted_share(track.circuit, track.policy, now)
    return track.circuit.mode is Mode.AUTO and in_share(worker, track.circuit.generation, share)


def _is_judged(circuit: Circuit) -> bool:
    return circuit.state is State.CLOSED or is_ramping(circuit)


class Fleet:
    """The shared circuits of a set of dependencies. Times are elapsed seconds; the wall clock may step."""

    def __init__(
        self,
        policy_of: Callable[[str], CircuitPolicy],
        dependencies_of: Callable[[str], tuple[str, ...]],
        *,
        jitter: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._policy_of = policy_of
        self._dependencies_of = dependencies_of
        self._jitter = jitter
        self._tracks: dict[str, _Track] = {}
        self._clock_offset = 0.0

    def feed(self, event: Event) -> Said:
        """Take one event, at its own time, after everything that time alone has brought about."""
        changes = self.advance(event.at)
        match event:
            case Call():
                changes += self._called(event)
            case Ask():
                admitted = self.admits(event.tool, event.at, event.worker)
                return Said(event.at, admitted=admitted, changes=tuple(changes))
            case ProbeStart():
                return self._probe_asked(event, changes)
            case ProbeEnd():
                changes += self._probe_ended(event)
            case Operate():
                changes += self._operated(event)
            case PolicyEdit():
                self._edited(event)
            case ClockStep():
                self._stepped(event.by_s)
            case Compaction() | Turn() | Bill():
                pass
        return Said(event.at, changes=tuple(changes))

    def advance(self, to: float) -> list[Change]:
        """Let time alone act: leases, overrides, lockouts, and suspicions that have settled."""
        now = to + self._clock_offset
        changes: list[Change] = []
        for track in self._tracks.values():
            changes += self._settled(track, now)
            changes += self._moved(track, sweep(track.circuit, track.policy, now), now)
        return changes

    def circuit(self, dependency: str) -> Circuit:
        """The circuit as it stands."""
        return self._track(dependency).circuit

    def policy(self, dependency: str) -> CircuitPolicy:
        """The policy it is judged by."""
        return self._track(dependency).policy

    @property
    def dependencies(self) -> tuple[str, ...]:
        """Every dependency met so far."""
        return tuple(self._tracks)

    def admits(self, tool: str, at: float, worker: str = "") -> bool:
        """A tool is callable when all its dependencies are; by a ramp, to the workers of its share."""
        now = at + self._clock_offset
        tracks = [self._track(name) for name in self._dependencies_of(tool)]
        return all(_admits(track, now, worker) for track in tracks)

    def wall(self, at: float) -> float:
        """Elapsed time as the wall clock shows it."""
        return at + self._clock_offset

    def _track(self, name: str) -> _Track:
        if name not in self._tracks:
            policy = self._policy_of(name)
            self._tracks[name] = _Track(name, policy, Window(policy.window_s))
        return self._tracks[name]

    def _called(self, call: Call) -> list[Change]:
        names = self._dependencies_of(call.tool) if call.at_fault is None else call.at_fault
        changes: list[Change] = []
        for name in names:
            changes += self._counted(self._track(name), call)
        return changes

    def _counted(self, track: _Track, call: Call) -> list[Change]:
        now = call.at + self._clock_offset
        admitted_at = (call.at if call.started is None else call.started) + self._clock_offset
        if call.retry_after_s is not None and call.outcome in FAILURES:
            track.circuit = lengthen(track.circuit, call.retry_after_s, now)
        if not is_current(track.circuit, track.admitted_under(admitted_at)) or not _is_judged(track.circuit):
            return []
        slow = self._is_slow(track, call)
        step = None if call.step is None else (call.run, call.step)
        track.window.record(
            call.outcome,
            now,
            worker=call.worker,
            slow=slow,
            step=step,
            operation=call.tool,
            retry_after_s=call.retry_after_s,
        )
        bad = slow or call.outcome in FAILURES
        if not bad and track.circuit.would_be is None:
            return []  # only a bad sample may open, and a suspicion has its own time
        return self._judged(track, now, bad=bad)

    def _is_slow(self, track: _Track, call: Call) -> bool:
        if call.slow is not None:
            return call.slow
        return call.duration_s is not None and is_slow(call.duration_s, track.policy.slow_call_ms)

    def _judged(self, track: _Track, now: float, *, bad: bool) -> list[Change]:
        evidence = track.window.evidence(now, completed_by_bad_sample=bad)
        judgement = judge(track.circuit, evidence, track.policy, now)
        changes = self._moved(track, judgement.circuit, now, judgement.breach)
        if judgement.would_have_tripped:
            changes.append(Change(now, track.name, track.circuit, track.circuit, judgement.breach))
        return changes

    def _settled(self, track: _Track, now: float) -> list[Change]:
        suspected_at = track.circuit.suspected_at
        if suspected_at is None or now < suspected_at + track.policy.settle_s:
            return []
        return self._judged(track, suspected_at + track.policy.settle_s, bad=False)

    def _moved(self, track: _Track, after: Circuit, now: float, breach: Breach | None = None) -> list[Change]:
        before, track.circuit = track.circuit, after
        if before.generation == after.generation:
            return []
        track.window.clear()
        track.generations.append((now if after.changed_at is None else after.changed_at, after.generation))
        return [Change(now, track.name, before, after, breach)]

    def _probe_asked(self, event: ProbeStart, changes: list[Change]) -> Said:
        track, now = self._track(event.dependency), event.at + self._clock_offset
        grant = grant_round(track.circuit, track.policy, now, event.probe)
        changes += self._moved(track, grant.circuit, now)
        return Said(event.at, granted=grant.granted, changes=tuple(changes))

    def _probe_ended(self, event: ProbeEnd) -> list[Change]:
        track, now = self._track(event.dependency), event.at + self._clock_offset
        finish = finish_round(
            track.circuit,
            event.probe,
            event.verdict,
            track.policy,
            now,
            jitter=self._jitter(),
            operation=event.operation,
            retry_after_s=event.retry_after_s,
        )
        return self._moved(track, finish.circuit, now)

    def _operated(self, event: Operate) -> list[Change]:
        track, now = self._track(event.dependency), event.at + self._clock_offset
        until = now + 1e9 if event.until is None else event.until + self._clock_offset
        actor, reason, circuit = event.actor, "replayed", track.circuit
        match event.verb:
            case "force_close":
                after = force_close(circuit, actor=actor, reason=reason, now=now)
            case "force_open":
                after = force_open(circuit, actor=actor, reason=reason, until=until, now=now)
            case "force_closed":
                after = force_closed(circuit, actor=actor, reason=reason, until=until, now=now)
            case "release":
                after = release(circuit, actor=actor, reason=reason, now=now)
            case _:
                raise ValueError(f"no such verb: {event.verb}")
        return self._moved(track, after, now)

    def _edited(self, event: PolicyEdit) -> None:
        track = self._track(event.dependency)
        if event.policy.window_s != track.policy.window_s:
            track.window.resize(event.policy.window_s)
        track.policy = event.policy

    def _stepped(self, by_s: float) -> None:
        self._clock_offset += by_s
        for track in self._tracks.values():
            track.circuit = shift(track.circuit, by_s)
            track.window.shift(by_s)
            track.generations = [(at + by_s, generation) for at, generation in track.generations]


class Runs:
    """The run breakers of a set of runs, each made when it is first met."""

    def __init__(self, make: Callable[[str, float], RunState]) -> None:
        self._make = make
        self._runs: dict[str, RunState] = {}

    def run(self, name: str, at: float = 0.0) -> RunState:
        """One run's breaker."""
        if name not in self._runs:
            self._runs[name] = self._make(name, at)
        return self._runs[name]

    def feed(self, event: Event) -> Said:
        """Take one event; what concerns circuits alone says nothing here."""
        match event:
            case Call():
                return Said(event.at, decisions=self._called(event))
            case Ask():
                refusal = self.run(event.run, event.at).admit(event.tool, event.fingerprint, event.step, event.at)
                return Said(event.at, admitted=refusal is None, decisions=() if refusal is None else (refusal,))
            case Compaction():
                self.run(event.run, event.at).compaction()
            case Turn():
                return self._asked(event)
            case Bill():
                return Said(event.at, decisions=self.run(event.run, event.at).settle(event.used))
        return Said(event.at)

    def _asked(self, turn: Turn) -> Said:
        """A limit that is only watched is noted, and the run goes on."""
        run = self.run(turn.run, turn.at)
        answer = run.reserve(turn.estimate, turn.at)
        watched, run.noted = tuple(run.noted), []
        if isinstance(answer, RunDecision):
            return Said(turn.at, admitted=False, decisions=(answer,))
        return Said(turn.at, admitted=True, decisions=watched)

    def _called(self, call: Call) -> tuple[RunDecision, ...]:
        return self.run(call.run, call.at).record(
            call.tool,
            call.outcome,
            step=call.step,
            now=call.at,
            fingerprint=call.fingerprint,
            result=call.result,
            at_fault=call.at_fault,
            progress=call.progress,
        )


class Replay:
    """Fleet and runs together over one stream of events; either may be left out."""

    def __init__(self, *, fleet: Fleet | None = None, runs: Runs | None = None) -> None:
        self.fleet = fleet
        self.runs = runs

    def feed(self, event: Event) -> Said:
        """What all scopes say to one event: a call is admitted when each of them admits it."""
        shared = self.fleet.feed(event) if self.fleet is not None else Said(event.at)
        own = self.runs.feed(event) if self.runs is not None else Said(event.at)
        return Said(
            event.at,
            admitted=_both(shared.admitted, own.admitted),
            granted=shared.granted,
            changes=shared.changes,
            decisions=own.decisions,
        )

    def play(self, events: Iterable[Event]) -> list[Said]:
        """All of them, in the order of their times."""
        return [self.feed(event) for event in sorted(events, key=lambda event: event.at)]


def _both(one: bool | None, other: bool | None) -> bool | None:
    answers = [answer for answer in (one, other) if answer is not None]
    return all(answers) if answers else None


def fixed(policies: Mapping[str, CircuitPolicy], default: CircuitPolicy) -> Callable[[str], CircuitPolicy]:
    """A policy per dependency, from a table."""
    return lambda name: policies.get(name, default)


def opened(changes: Iterable[Change]) -> list[Change]:
    """The trips among the changes: from closed to open on evidence."""
    return [
        change
        for change in changes
        if change.before.state is State.CLOSED and change.after.state is State.OPEN and change.after.tripped_by
    ]
