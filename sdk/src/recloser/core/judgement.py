"""From evidence to a decision about a closed circuit: breach, quorum, suspicion, settling, trip."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from recloser.core.evidence import Breach, Evidence, WorkerEvidence
from recloser.core.outcomes import LONGEST_WAIT_S
from recloser.core.rounds import fail_ramp, is_ramping
from recloser.core.schema import CircuitPolicy
from recloser.core.states import Circuit, expire_override, move
from recloser.core.types import Cause, Delivery, Mode, Signal, State

THIN = 1.3
"""A sample is thin with less than this many times the failures that `min_calls` at the threshold would hold."""

EVERYWHERE = 0.8
"""This share of the sessions that call must be stuck before their own streaks speak for the fleet."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the evidence led to."""

    circuit: Circuit
    breach: Breach | None = None
    """The rule that holds, quorum included; enforced or only watched."""
    opened: bool = False
    reopened: bool = False
    """A ramp's admitted share broke a rule: open again. No trip, since the outage had not ended."""
    suspected: bool = False
    """Newly suspected: ask every worker to flush, and judge again at `settles_at`."""
    settles_at: float | None = None
    would_have_tripped: bool = False
    """New in this judgement: record it as such, once."""
    worker_fault: str | None = None
    """The one worker that fails while others succeed."""
    quorum_out_of_reach: bool = False
    """Fewer voices are alive than the quorum asks for: each worker's own breaker is the protection."""


def judge(circuit: Circuit, evidence: Evidence, policy: CircuitPolicy, now: float) -> Judgement:
    """Judge a closed circuit by its window, or the admitted share of a ramp; an open one is only tested by probes."""
    current = expire_override(circuit, now)
    if is_ramping(circuit):
        return _judge_ramp(circuit, evidence, policy, now)
    if current.state is not State.CLOSED or current.generation != circuit.generation:
        return Judgement(current)  # open, or an override just ended: this evidence is of an older generation
    if policy.delivery is Delivery.OFF:
        return Judgement(_unsuspected(_without_would_be(circuit)))
    held = _strongest(breaches(evidence, policy))
    enforced = held is not None and held.enforced and circuit.mode is Mode.AUTO
    decide = _settle if enforced else _watch
    verdict = decide(circuit, evidence, policy, held, now)
    return dataclasses.replace(
        verdict,
        breach=held,
        settles_at=_settles_at(verdict.circuit, policy),
        worker_fault=worker_fault(evidence, policy),
        quorum_out_of_reach=evidence.live_voices < policy.min_workers,
    )


def _judge_ramp(circuit: Circuit, evidence: Evidence, policy: CircuitPolicy, now: float) -> Judgement:
    """The ordinary rules over the admitted; where fewer workers call than the quorum asks for, all who call are it."""
    quorum = max(1, min(policy.min_workers, sum(own.ok + own.failures > 0 for own in evidence.voices)))
    held = _strongest(breaches(evidence, dataclasses.replace(policy, min_workers=quorum)))
    settled = now >= (_settles_at(circuit, policy) or now)
    if held is None or not held.enforced:
        return Judgement(_unsuspected(circuit) if settled else circuit)
    if circuit.suspected_at is None:
        if not evidence.completed_by_bad_sample:
            return Judgement(circuit)
        circuit = dataclasses.replace(circuit, suspected_at=now, suspected_signal=held.signal)
        if policy.settle_s > 0.0:
            return Judgement(circuit, held, suspected=True, settles_at=_settles_at(circuit, policy))
    if not settled:
        return Judgement(circuit, held, settles_at=_settles_at(circuit, policy))
    return Judgement(fail_ramp(circuit, policy, now, evidence.retry_until), held, reopened=True)


def _settle(circuit: Circuit, evidence: Evidence, policy: CircuitPolicy, held: Breach | None, now: float) -> Judgement:
    """Suspect first; open only when the rule still holds after successes had time to arrive."""
    assert held is not None
    fresh = circuit.suspected_at is None
    if fresh and not evidence.completed_by_bad_sample:
        return Judgement(circuit)
    if fresh:
        circuit = dataclasses.replace(circuit, suspected_at=now, suspected_signal=held.signal)
    if now < (_settles_at(circuit, policy) or now):
        return Judgement(circuit, suspected=fresh)
    return Judgement(_trip(circuit, evidence, policy, held, now), opened=True)


def _watch(circuit: Circuit, evidence: Evidence, policy: CircuitPolicy, held: Breach | None, now: float) -> Judgement:
    """No enforced rule holds: clear a suspicion that has settled, and note what would have tripped."""
    if now >= (_settles_at(circuit, policy) or now):
        circuit = _unsuspected(circuit)
    if held is None:
        return Judgement(_without_would_be(circuit))
    if circuit.would_be is not None or not evidence.completed_by_bad_sample:
        return Judgement(circuit)
    noted = dataclasses.replace(circuit, would_be=held.signal, would_be_at=now)
    return Judgement(noted, would_have_tripped=True)


def _settles_at(circuit: Circuit, policy: CircuitPolicy) -> float | None:
    return None if circuit.suspected_at is None else circuit.suspected_at + policy.settle_s


def _unsuspected(circuit: Circuit) -> Circuit:
    if circuit.suspected_at is None:
        return circuit
    return dataclasses.replace(circuit, suspected_at=None, suspected_signal=None)


def _without_would_be(circuit: Circuit) -> Circuit:
    if circuit.would_be is None:
        return circuit
    return dataclasses.replace(circuit, would_be=None, would_be_at=None)


def _trip(circuit: Circuit, evidence: Evidence, policy: CircuitPolicy, held: Breach, now: float) -> Circuit:
    cooldown = opening_cooldown(circuit, policy, now)
    wait_until = min(evidence.retry_until or now, now + LONGEST_WAIT_S)
    return move(
        circuit,
        State.OPEN,
        Cause(held.signal.value),
        now,
        opened_at=now,
        due_at=max(now + cooldown, wait_until),
        cooldown_s=cooldown,
        failed_rounds=0,
        good_rounds=0,
        tripped_by=held.signal,
        operation=evidence.operation,
    )


def opening_cooldown(circuit: Circuit, policy: CircuitPolicy, now: float) -> float:
    """The wait of a new outage: small again after long enough closed, else as backed off as the last one left it."""
    rested = circuit.closed_at is None or now - circuit.closed_at >= policy.cooldown_reset_s
    if circuit.cooldown_s is None or rested:
        return policy.cooldown_s
    return max(policy.cooldown_s, min(circuit.cooldown_s, policy.cooldown_max_s))


def breaches(evidence: Evidence, policy: CircuitPolicy) -> list[Breach]:
    """Every rule that holds, its quorum included, each with its own evidence."""
    rules = (_failure_rate, _consecutive_failures, _failing_everywhere, _slow_call_rate)
    found = (rule(evidence, policy) for rule in rules)
    return [breach for breach in found if breach is not None and len(breach.witnesses) >= policy.min_workers]


def _strongest(found: list[Breach]) -> Breach | None:
    """An enforced breach before a watched one; among equals failures before slowness."""
    return next((breach for breach in found if breach.enforced), found[0] if found else None)


def _failure_rate(evidence: Evidence, policy: CircuitPolicy) -> Breach | None:
    limit = policy.failure_rate
    if limit is None or policy.failure_rate_delivery is Delivery.OFF:
        return None
    if evidence.failures == 0 or evidence.judged < policy.min_calls or evidence.failures < limit * evidence.judged:
        return None
    if _is_thin(evidence, policy, limit) and evidence.streak < (policy.thin_sample_streak or 0):
        return None
    rate = evidence.failures / evidence.judged
    witnesses = _witnesses(evidence, _fails_at(limit))
    return _breach(Signal.FAILURE_RATE, rate, limit, evidence, witnesses, policy, policy.failure_rate_delivery)


def _is_thin(evidence: Evidence, policy: CircuitPolicy, limit: float) -> bool:
    """Hardly more failures than the smallest sample asks for: chance brings those about daily (ADR 0002)."""
    return evidence.failures < THIN * limit * policy.min_calls


def _consecutive_failures(evidence: Evidence, policy: CircuitPolicy) -> Breach | None:
    limit = policy.consecutive_failures
    if limit is None or policy.consecutive_failures_delivery is Delivery.OFF or evidence.streak < limit:
        return None
    if _rate_speaks(evidence, policy):
        return None
    witnesses = _witnesses(evidence, lambda own: own.last_failed)
    delivery = policy.consecutive_failures_delivery
    return _breach(Signal.CONSECUTIVE_FAILURES, evidence.streak, limit, evidence, witnesses, policy, delivery)


def _failing_everywhere(evidence: Evidence, policy: CircuitPolicy) -> Breach | None:
    """Nearly every session has failed often in a row, whatever the window still remembers of better times (ADR 0009).

    Their own breakers stop them at this point, so the rate would starve of failures and open only a window later.
    """
    limit = policy.consecutive_failures
    if limit is None or policy.consecutive_failures_delivery is Delivery.OFF:
        return None
    stuck = tuple(own for own in evidence.own_streaks if own.length >= limit)
    witnesses = evidence.witnesses_of(stuck)
    if len(witnesses) < 2 or len(stuck) < EVERYWHERE * evidence.active_sessions:
        return None
    shortest = min(own.length for own in stuck)
    delivery = policy.consecutive_failures_delivery
    return _breach(Signal.CONSECUTIVE_FAILURES, shortest, limit, evidence, witnesses, policy, delivery)


def _rate_speaks(evidence: Evidence, policy: CircuitPolicy) -> bool:
    """With enough calls in the window an enforced rate judges, and the streak is silent."""
    enforced = policy.failure_rate is not None and policy.failure_rate_delivery is Delivery.ENFORCE
    return enforced and evidence.judged >= policy.min_calls


def _slow_call_rate(evidence: Evidence, policy: CircuitPolicy) -> Breach | None:
    limit = policy.slow_call_rate
    if limit is None or policy.slow_call_rate_delivery is Delivery.OFF:
        return None
    if evidence.slow == 0 or evidence.calls < policy.min_calls or evidence.slow < limit * evidence.calls:
        return None
    rate = evidence.slow / evidence.calls
    witnesses = _witnesses(evidence, lambda own: 0 < own.slow >= limit * own.calls)
    return _breach(Signal.SLOW_CALL_RATE, rate, limit, evidence, witnesses, policy, policy.slow_call_rate_delivery)


def _breach(
    signal: Signal,
    value: float,
    threshold: float,
    evidence: Evidence,
    witnesses: tuple[str, ...],
    policy: CircuitPolicy,
    delivery: Delivery,
) -> Breach:
    return Breach(
        signal=signal,
        value=value,
        threshold=threshold,
        calls=evidence.judged,
        failures=evidence.failures,
        slow=evidence.slow,
        witnesses=witnesses,
        enforced=policy.delivery is Delivery.ENFORCE and delivery is Delivery.ENFORCE,
    )


def _witnesses(evidence: Evidence, sees: Callable[[WorkerEvidence], bool]) -> tuple[str, ...]:
    return tuple(own.worker for own in evidence.voices if sees(own))


def _fails_at(limit: float) -> Callable[[WorkerEvidence], bool]:
    return lambda own: 0 < own.failures >= limit * (own.ok + own.failures)


def worker_fault(evidence: Evidence, policy: CircuitPolicy) -> str | None:
    """The one worker that fails alone, by its own share and often enough to be no accident, while others succeed."""
    limit = 0.5 if policy.failure_rate is None else policy.failure_rate
    failing = [own for own in evidence.workers if _fails_at(limit)(own)]
    if len(failing) != 1 or failing[0].failures < (policy.worker_consecutive_failures or 5):
        return None
    sick = failing[0]
    rest_ok, rest_failures = evidence.ok + evidence.empty - sick.ok, evidence.failures - sick.failures
    others_succeed = rest_ok > 0 and rest_failures <= limit / 2 * (rest_ok + rest_failures)
    return sick.worker if others_succeed else None
