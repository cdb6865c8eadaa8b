"""The shared circuit against a slow and obvious model: every sample is kept, every rule is a plain sum over them."""

from __future__ import annotations

import math

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from recloser.core.circuit import Circuit, admitted_share, effective_of, in_share, next_change_at
from recloser.core.policy import CircuitPolicy
from recloser.core.replay import Ask, Call, Fleet, Operate, ProbeEnd, ProbeStart
from recloser.core.types import Delivery, Mode, Outcome, State, Verdict

WINDOW_S, MIN_CALLS, RATE, STREAK, COOLDOWN_S, LONGEST_S, LEASE_S, INTERVAL_S = 12.0, 4, 0.5, 3, 6.0, 24.0, 3.0, 1.0
RAMP_STEP_S = 4.0

gaps = st.sampled_from([0.0, 0.1, 0.4, 1.0, 3.0, 7.0])
outcomes = st.sampled_from(
    [Outcome.OK, Outcome.EMPTY, *[Outcome.TIMEOUT] * 4, Outcome.SEMANTIC_ERROR, Outcome.CANCELLED]
)
workers = st.sampled_from(["w1", "w2", "w3"])
verdicts = st.sampled_from([Verdict.GOOD, Verdict.BAD, Verdict.INCONCLUSIVE])
ramps = st.sampled_from([(), (0.1, 0.5, 1.0)])


class Model:
    """The rules as one would tell them, with no thought of speed."""

    def __init__(self, settle_s: float, needed: int, ramp: tuple[float, ...] = ()) -> None:
        self.settle_s, self.needed, self.ramp = settle_s, needed, ramp
        self.ramping: float | None = None
        self.state, self.mode, self.until = "closed", "auto", 0.0
        self.samples: list[tuple[float, str, bool]] = []
        self.epochs = [(-99.0, 0)]
        self.suspected: float | None = None
        self.due = self.lease = 0.0
        self.probe: str | None = None
        self.good = 0
        self.wait: float | None = None
        self.closed_at: float | None = None

    def change(self, now: float, state: str) -> None:
        self.state = state
        self.samples, self.suspected, self.probe, self.ramping = [], None, None, None
        self.epochs.append((now, self.epochs[-1][1] + 1))

    def pass_time(self, now: float) -> None:
        if self.suspected is not None and now >= self.suspected + self.settle_s:
            at = self.suspected + self.settle_s
            if self.breached(at):
                self.trip(at)
            self.suspected = None
        if self.mode != "auto" and now >= self.until:
            self.end_override(self.until)
        if self.ramping is not None and now >= self.lease and self.suspected is None:
            self.change(self.lease, "closed")
            self.closed_at, self.good = self.lease, 0
        elif self.probe is not None and self.ramping is None and now >= self.lease:
            self.change(self.lease, "open")
            self.due = self.lease + COOLDOWN_S

    def end_override(self, at: float) -> None:
        was, self.mode = self.mode, "auto"
        self.change(at, "open" if was == "forced_open" else "closed")
        if was == "forced_open":
            self.due = at
        else:
            self.closed_at = at

    def breached(self, now: float) -> bool:
        live = [s for s in self.samples if bucket(now) - 60 < bucket(s[0]) <= bucket(now)]
        failures = [s for s in live if s[2]]
        if self.stuck_everywhere({s[1] for s in live}):
            return True
        if len(live) >= MIN_CALLS:
            seeing = [name for name in {s[1] for s in live} if share(live, name) >= RATE]
            return len(failures) >= RATE * len(live) and len(seeing) >= self.quorum(live)
        tail: list[str] = []
        for _, name, failed in reversed(self.samples):
            if not failed:
                break
            tail.append(name)
        return len(tail) >= STREAK and len(set(tail)) >= self.quorum(live)

    def quorum(self, live: list[tuple[float, str, bool]]) -> int:
        return 2 if self.ramping is None else max(1, min(2, len({s[1] for s in live})))

    def trip(self, at: float) -> None:
        if self.ramping is None:
            self.open(at)
            return
        self.change(at, "open")
        self.wait = min(LONGEST_S, 2 * (COOLDOWN_S if self.wait is None else self.wait))
        self.due, self.good = at + self.wait, 0

    def stuck_everywhere(self, calling: set[str]) -> bool:
        """Each of four in five workers that call has failed STREAK times running, and they are two or more."""
        ends = {name: [s[2] for s in self.samples if s[1] == name][-STREAK:] for name in calling}
        stuck = [name for name, end in ends.items() if len(end) == STREAK and all(end)]
        return len(stuck) >= 2 and len(stuck) >= 0.8 * len(calling)

    def open(self, at: float) -> None:
        rested = self.closed_at is None or at - self.closed_at >= 600
        if self.wait is None or rested:
            self.wait = COOLDOWN_S
        self.change(at, "open")
        self.due, self.good = at + self.wait, 0

    def call(self, now: float, worker: str, outcome: Outcome, started: float) -> None:
        epoch = [number for at, number in self.epochs if at <= started][-1]
        judged = outcome in (Outcome.OK, Outcome.EMPTY, Outcome.TIMEOUT)
        if (self.state != "closed" and self.ramping is None) or epoch != self.epochs[-1][1] or not judged:
            return
        failed = outcome is Outcome.TIMEOUT
        self.samples.append((now, worker, failed))
        if failed and self.mode == "auto" and self.suspected is None and self.breached(now):
            self.suspected = now
        if failed and self.suspected is not None and now >= self.suspected + self.settle_s and self.breached(now):
            self.trip(now)

    def grant(self, now: float, probe: str) -> bool:
        free = self.mode == "auto" and self.state == "open" and self.probe is None and now >= self.due
        if free:
            self.change(now, "half_open")
            self.probe, self.lease = probe, now + LEASE_S
        return free

    def finish(self, now: float, probe: str, verdict: Verdict) -> None:
        if self.probe != probe or self.ramping is not None:
            return
        self.good = self.good + 1 if verdict is Verdict.GOOD else (0 if verdict is Verdict.BAD else self.good)
        if self.good >= self.needed and self.ramp:
            self.change(now, "half_open")
            self.probe, self.ramping, self.lease = probe, now, now + RAMP_STEP_S * len(self.ramp)
            return
        if self.good >= self.needed:
            self.change(now, "closed")
            self.closed_at, self.good = now, 0
            return
        self.change(now, "open")
        if verdict is Verdict.BAD:
            self.wait = min(LONGEST_S, 2 * (COOLDOWN_S if self.wait is None else self.wait))
        gap = {Verdict.GOOD: INTERVAL_S, Verdict.INCONCLUSIVE: COOLDOWN_S, Verdict.BAD: self.wait}[verdict]
        self.due = now + gap

    def force(self, now: float, verb: str, until: float) -> None:
        if verb == "release":
            if self.mode != "auto":
                self.end_override(now)
            return
        self.mode = {"force_close": "auto", "force_open": "forced_open", "force_closed": "forced_closed"}[verb]
        self.until, self.good = until, 0
        self.change(now, "open" if verb == "force_open" else "closed")
        if verb == "force_open":
            self.due = until
        else:
            self.wait, self.closed_at = None, now

    def admits(self, worker: str, now: float) -> bool:
        if self.ramping is None:
            return self.state == "closed"
        step = min(int((now - self.ramping) // RAMP_STEP_S), len(self.ramp) - 1)
        return in_share(worker, self.epochs[-1][1], self.ramp[step])


def bucket(at: float) -> int:
    """Which sixtieth of a window it falls into; `//` would put 12.0 before 60 times 0.2."""
    return math.floor(at / (WINDOW_S / 60))


def share(live: list[tuple[float, str, bool]], name: str) -> float:
    own = [sample[2] for sample in live if sample[1] == name]
    return sum(own) / len(own) if sum(own) else -1.0


class CircuitMachine(RuleBasedStateMachine):
    """Feeds the same events to the core, through its driver, and to the model."""

    @initialize(
        settle_s=st.sampled_from([0.0, 0.5]),
        needed=st.sampled_from([1, 2]),
        ramp=st.sampled_from([(), (0.1, 0.5, 1.0)]),
    )
    def start(self, settle_s: float, needed: int, ramp: tuple[float, ...]) -> None:
        self.policy = CircuitPolicy(
            window_s=WINDOW_S,
            min_calls=MIN_CALLS,
            failure_rate=RATE,
            consecutive_failures=STREAK,
            thin_sample_streak=None,
            settle_s=settle_s,
            cooldown_s=COOLDOWN_S,
            cooldown_max_s=LONGEST_S,
            jitter=0.0,
            probe_timeout_s=LEASE_S,
            probe_interval_s=INTERVAL_S,
            probe_successes=needed,
            lockout_after_s=None,
            ramp=ramp,
            ramp_step_s=RAMP_STEP_S,
        )
        self.fleet = Fleet(lambda name: self.policy, lambda tool: ("api",))
        self.fleet.circuit("api")
        self.model = Model(settle_s, needed, ramp)
        self.now = 0.0
        self.probes = 0
        self.generation = 0

    def tick(self, gap: float) -> float:
        self.now = round(self.now + gap, 3)
        self.model.pass_time(self.now)
        return self.now

    @rule(gap=gaps, worker=workers, outcome=outcomes, late=st.sampled_from([0.0, 0.0, 0.0, 5.0]))
    def call(self, gap: float, worker: str, outcome: Outcome, late: float) -> None:
        now = self.tick(gap)
        self.fleet.feed(Call(now, "search", outcome, worker=worker, started=now - late))
        self.model.call(now, worker, outcome, now - late)

    @rule(gap=gaps)
    def wait(self, gap: float) -> None:
        self.fleet.advance(self.tick(gap))

    @rule(gap=gaps)
    def probe_start(self, gap: float) -> None:
        now = self.tick(gap)
        self.probes += 1
        said = self.fleet.feed(ProbeStart(now, "api", f"p{self.probes}"))
        assert said.granted is self.model.grant(now, f"p{self.probes}")

    @rule(gap=gaps, verdict=verdicts, age=st.sampled_from([0, 0, 0, 1]))
    def probe_end(self, gap: float, verdict: Verdict, age: int) -> None:
        now, probe = self.tick(gap), f"p{self.probes - age}"
        self.fleet.feed(ProbeEnd(now, "api", probe, verdict))
        self.model.finish(now, probe, verdict)

    @rule(gap=gaps, verb=st.sampled_from(["force_close", "force_open", "force_closed", "release"]), held=gaps)
    def operate(self, gap: float, verb: str, held: float) -> None:
        now = self.tick(gap)
        self.fleet.feed(Operate(now, "api", verb, "ada", until=now + held + 0.05))
        self.model.force(now, verb, now + held + 0.05)

    @rule(worker=workers)
    def ask(self, worker: str) -> None:
        said = self.fleet.feed(Ask(self.now, "search", worker=worker))
        assert said.admitted is self.model.admits(worker, self.now)

    @invariant()
    def same_as_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        circuit = self.fleet.circuit("api")
        assert (circuit.state, circuit.mode) == (self.model.state, self.model.mode)
        assert circuit.generation == self.model.epochs[-1][1]
        assert (circuit.suspected_at is None) == (self.model.suspected is None)
        if circuit.state is not State.CLOSED:
            assert abs(circuit.due_at - self.model.due) < 1e-6

    @invariant()
    def sound_in_itself(self) -> None:
        if not hasattr(self, "model"):
            return
        circuit = self.fleet.circuit("api")
        assert (circuit.round is not None) == (circuit.state is State.HALF_OPEN)
        assert (circuit.opened_at is None) == (circuit.state is State.CLOSED)
        assert (circuit.mode_expires_at is None) == (circuit.mode is Mode.AUTO)
        assert circuit.generation >= self.generation
        ramps = circuit.round is not None and circuit.round.ramp_started_at is not None
        assert circuit.suspected_at is None or circuit.state is State.CLOSED or ramps
        assert ramps is (self.model.ramping is not None)
        assert ramps or admitted_share(circuit, self.policy, self.now) == 0.0
        assert never_stuck(circuit, self.policy)
        assert effective_of(circuit, Delivery.ENFORCE, self.now).admits == (self.model.state == "closed")
        self.generation = circuit.generation


def never_stuck(circuit: Circuit, policy: CircuitPolicy) -> bool:
    """Whatever is not closed in auto mode has a moment at which time alone moves it on."""
    at_rest = circuit.state is State.CLOSED and circuit.mode is Mode.AUTO and circuit.suspected_at is None
    return at_rest or next_change_at(circuit, policy) is not None


CircuitMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestTheCircuitAgainstItsModel = CircuitMachine.TestCase
