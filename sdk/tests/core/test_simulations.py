"""What chance alone does to the defaults, in seeded simulations.

Every dependency here is well, apart from failing one call in five or one in ten; every trip is a false one.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator

import pytest
from recloser.core.circuit import Circuit, Evidence, WorkerEvidence, judge
from recloser.core.policy import CircuitPolicy, resolve_run
from recloser.core.replay import Call, Fleet, ProbeEnd, ProbeStart, opened
from recloser.core.run import RunState, ToolRules
from recloser.core.types import Outcome, SideEffectClass, State, Verdict

FAIL, OK = Outcome.RETRYABLE_ERROR, Outcome.OK
DAY_S = 86_400.0
ONE_IN_FIVE = 0.2
DEFAULTS = CircuitPolicy()


# -- one run


def trips(rng: random.Random, calls: int, policy) -> bool:
    state = RunState({"search": ToolRules(policy, ("api",))}, policy, started_at=0.0)
    for step in range(calls):
        outcome = FAIL if rng.random() < ONE_IN_FIVE else OK
        state.record("search", outcome, step=step, now=float(step))
    return bool(state.withdrawn)


def test_a_read_only_tool_that_fails_one_call_in_five_trips_fewer_than_one_run_in_two_hundred():
    policy = resolve_run([], side_effect_class=SideEffectClass.READ_ONLY).policy
    rng = random.Random(20)
    tripped = sum(trips(rng, 20, policy) for _ in range(20_000))
    assert tripped / 20_000 < 0.005


def test_the_exact_chance_of_five_failures_in_a_row_within_twenty_calls_agrees():
    chance = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]  # by length of the streak; the last one keeps what it got
    for _ in range(20):
        alive = sum(chance[:5])
        chance = [alive * 0.8, *(chance[length] * 0.2 for length in range(4)), chance[5] + chance[4] * 0.2]
    assert 0.0040 < chance[5] < 0.0045


# -- one fleet, one day


def arrivals(rng: random.Random, a_minute: float, until: float, *, regular: bool) -> Iterator[float]:
    at = 0.0
    while at < until:
        at += 60.0 / a_minute if regular else rng.expovariate(a_minute / 60.0)
        yield at


def false_openings(seed: int, a_minute: float, workers: int, *, regular: bool, days: float = 1.0) -> float:
    """How often a day the circuit opens; its probes fail one time in five, too."""
    rng = random.Random(f"{seed} {a_minute} {workers} {regular}")
    fleet = Fleet(lambda name: DEFAULTS, lambda tool: ("api",), jitter=lambda: rng.uniform(-1, 1))
    count = 0
    for number, at in enumerate(arrivals(rng, a_minute, days * DAY_S, regular=regular)):
        probe_until_closed(fleet, rng, at)
        if fleet.circuit("api").state is State.CLOSED:
            worker = number % workers if regular else rng.randrange(workers)
            outcome = FAIL if rng.random() < ONE_IN_FIVE else OK
            count += len(opened(fleet.feed(Call(at, "search", outcome, worker=f"w{worker}")).changes))
    return count / days


def probe_until_closed(fleet: Fleet, rng: random.Random, now: float) -> None:
    circuit = fleet.circuit("api")
    while circuit.state is not State.CLOSED and circuit.due_at is not None and circuit.due_at <= now:
        verdict = Verdict.BAD if rng.random() < ONE_IN_FIVE else Verdict.GOOD
        fleet.feed(ProbeStart(circuit.due_at, "api", "p"))
        fleet.feed(ProbeEnd(circuit.due_at, "api", "p", verdict))
        circuit = fleet.circuit("api")


@pytest.mark.parametrize("a_minute", [4, 10, 15, 19, 20, 21, 25, 30])
@pytest.mark.parametrize(("workers", "regular"), [(3, True), (10, False)])
def test_a_dependency_failing_one_call_in_five_opens_the_fleet_at_most_ten_times_a_day(a_minute, workers, regular):
    assert false_openings(1, a_minute, workers, regular=regular, days=2) <= 10


@pytest.mark.parametrize("a_minute", [40, 60])
def test_nor_does_it_with_more_calls(a_minute):
    assert false_openings(1, a_minute, 5, regular=False) <= 10


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("workers", [2, 4, 40])
def test_at_twenty_calls_a_minute_the_smallest_sample_is_drawn_all_day_and_still_holds(seed, workers):
    """Exactly `min_calls` in every window: the worst rate there is. Without the thin-sample rule, some twenty a day."""
    assert false_openings(seed, 20, workers, regular=True, days=2) <= 10


# -- one wave


@pytest.mark.parametrize("steps", [1, 12], ids=["one step", "a step each"])
def test_one_wave_of_twelve_parallel_failures_from_one_process_leaves_the_circuit_closed(steps):
    fleet = Fleet(lambda name: DEFAULTS, lambda tool: ("api",))
    for call in range(12):
        fleet.feed(Call(call / 100, "search", FAIL, worker="w1", run="r1", step=call % steps))
    fleet.advance(60.0)
    assert fleet.circuit("api").state is State.CLOSED


def test_nor_does_it_after_others_succeeded_and_even_with_one_stray_failure_elsewhere():
    fleet = Fleet(lambda name: DEFAULTS, lambda tool: ("api",))
    for number in range(8):
        fleet.feed(Call(number / 10, "search", FAIL if number == 3 else OK, worker="w2"))
    for call in range(12):
        fleet.feed(Call(1 + call / 100, "search", FAIL, worker="w1", run="r1", step=1))
    fleet.advance(60.0)
    assert fleet.circuit("api").state is State.CLOSED


# -- a thousand workers whose failures travel faster than their successes


class Reported:
    """What a control plane knows of a fleet: each worker's failures at once, its successes when it next flushes.

    A failure flushes all that its worker has gathered within 50 ms; otherwise each worker flushes every 2 to 5 s.
    On suspicion every worker is asked to flush, and does so within `settle_s`, at a moment of its own.
    """

    def __init__(
        self, rng: random.Random, workers: int, share: float, calls_s: float, *, first_calls_s: float = 1e9
    ) -> None:
        self.rng, self.share, self.calls_s = rng, share, calls_s
        self.gathered = [[0, 0] for _ in range(workers)]
        self.known = [[0, 0] for _ in range(workers)]
        self.last_failed = [False] * workers
        self.total = [0, 0]
        self.streak = 0
        self.in_streak: set[int] = set()
        self.agenda: list[tuple[float, int, str]] = []
        for worker in range(workers):
            self.plan(min(rng.expovariate(calls_s), rng.uniform(0, first_calls_s)), worker, "call")
            self.plan(rng.uniform(2, 5), worker, "flush")

    def plan(self, at: float, worker: int, what: str) -> None:
        heapq.heappush(self.agenda, (at, worker, what))

    def call(self, at: float, worker: int) -> None:
        failed = self.rng.random() < self.share
        self.gathered[worker][failed] += 1
        self.last_failed[worker] = failed
        self.plan(at + self.rng.expovariate(self.calls_s), worker, "call")
        if failed:
            self.plan(at + self.rng.uniform(0, 0.05), worker, "urgent")

    def flush(self, worker: int) -> bool:
        """Hand over what was gathered; whether it held a failure."""
        ok, failures = self.gathered[worker]
        self.gathered[worker] = [0, 0]
        self.known[worker][0] += ok
        self.known[worker][1] += failures
        self.total[0] += ok
        self.total[1] += failures
        if ok and not (failures and self.last_failed[worker]):
            self.streak, self.in_streak = 0, set()
        elif ok:
            self.streak, self.in_streak = 1, {worker}
        elif failures:
            self.streak += failures
            self.in_streak.add(worker)
        return failures > 0

    def evidence(self) -> Evidence:
        """Totals over all; witnesses among those who had a failure."""
        sick = [worker for worker, (_, failures) in enumerate(self.known) if failures]
        own = tuple(
            WorkerEvidence(
                str(worker), *self.known[worker], calls=sum(self.known[worker]), last_failed=worker in self.in_streak
            )
            for worker in sick
        )
        ok, failures = self.total
        return Evidence(ok=ok, failures=failures, calls=ok + failures, streak=self.streak, workers=own)


def live_through(reported: Reported, until: float, settled: Circuit) -> tuple[bool, int]:
    """Whether the circuit ever opened, and how often it was suspected."""
    circuit, suspicions, settle_at = settled, 0, None
    while reported.agenda and reported.agenda[0][0] < until:
        at, worker, what = heapq.heappop(reported.agenda)
        if what == "call":
            reported.call(at, worker)
            continue
        if what == "flush":
            reported.plan(at + reported.rng.uniform(2, 5), worker, "flush")
        bad = reported.flush(worker) if what != "settle" else False
        if not bad and what != "settle":
            continue
        said = judge(circuit, reported.evidence(), DEFAULTS, at)
        circuit = said.circuit
        if said.opened:
            return True, suspicions
        if said.suspected:
            suspicions += 1
            settle_at = at + DEFAULTS.settle_s
            reported.plan(settle_at, 0, "settle")
            for other in range(len(reported.known)):
                reported.plan(at + reported.rng.uniform(0, DEFAULTS.settle_s * 0.98), other, "asked")
    return False, suspicions


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("calls_s", [0.02, 0.2, 2.0], ids=["a call a minute", "one in 5 s", "two a second"])
def test_a_thousand_workers_with_one_call_in_ten_failing_never_open_it(seed, calls_s):
    """After a quiet night: all counters at zero, and failures are known before successes."""
    reported = Reported(random.Random(seed), 1000, 0.1, calls_s)
    assert not live_through(reported, 6.0 if calls_s > 1 else 20.0, Circuit())[0]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("first_calls_s", [0.1, 1.0, 5.0])
def test_nor_do_they_right_after_a_close_when_all_that_waited_call_again(seed, first_calls_s):
    """The failures among the first calls make it a suspect; the flush that this asks for clears it."""
    reported = Reported(random.Random(seed), 1000, 0.1, 0.1, first_calls_s=first_calls_s)
    ever_opened, suspicions = live_through(reported, 10.0, Circuit(closed_at=0.0, cooldown_s=30.0))
    assert not ever_opened
    assert suspicions >= 1


def test_the_same_thousand_workers_open_it_within_two_seconds_of_a_real_outage():
    reported = Reported(random.Random(1), 1000, 1.0, 0.2)
    assert live_through(reported, 2.0, Circuit(closed_at=0.0)) == (True, 1)
