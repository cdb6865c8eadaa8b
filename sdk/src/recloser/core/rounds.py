"""Recovery: one probe round at a time, one id, one verdict, with a lease that expires."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from recloser.core.outcomes import LONGEST_WAIT_S
from recloser.core.schema import CircuitPolicy
from recloser.core.states import CLOSED_AGAIN, Circuit, Round, expire_override, move
from recloser.core.types import Cause, Mode, State, Verdict


class Grant(NamedTuple):
    """The answer to a prober who asks for leave."""

    circuit: Circuit
    granted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """What a verdict led to."""

    circuit: Circuit
    applied: bool
    """False: the verdict came from another round, or too late, and changed nothing."""
    verdict: Verdict | None
    """As it was counted: a good probe of another operation counts as inconclusive."""
    reason: str


def grant_round(circuit: Circuit, policy: CircuitPolicy, now: float, round_id: str) -> Grant:
    """Start the one round of a due circuit, if none is in flight."""
    circuit = sweep(circuit, policy, now)
    if refusal := _refusal(circuit, now):
        return Grant(circuit, False, refusal)
    lease = Round(round_id, started_at=now, lease_expires_at=now + policy.probe_timeout_s)
    return Grant(move(circuit, State.HALF_OPEN, Cause.PROBE_STARTED, now, round=lease), True, "granted")


def _refusal(circuit: Circuit, now: float) -> str | None:
    if circuit.mode is not Mode.AUTO:
        return "held by an operator"
    if circuit.state is State.CLOSED:
        return "closed"
    if circuit.round is not None:
        return "another round is in flight"
    if circuit.due_at is not None and now < circuit.due_at:
        return "not due yet"
    return None


def finish_round(
    circuit: Circuit,
    round_id: str,
    verdict: Verdict,
    policy: CircuitPolicy,
    now: float,
    jitter: float = 0.0,
    operation: str | None = None,
    retry_after_s: float | None = None,
) -> Finish:
    """Apply the verdict of the round in flight; any other has no say.

    `jitter` is the caller's draw from -1 to 1, scaled here by the policy. A good probe of an operation other than
    the one that tripped is inconclusive; one that names no operation stands for the whole dependency.
    """
    circuit = sweep(circuit, policy, now)
    if circuit.round is None or circuit.round.id != round_id:
        return Finish(circuit, False, None, "this round is over")
    if circuit.round.ramp_started_at is not None:
        return Finish(circuit, False, None, "this round has its verdict")
    if verdict is Verdict.GOOD and _another_operation(circuit, operation):
        waiting = _inconclusive(circuit, policy, now)
        return Finish(waiting, True, Verdict.INCONCLUSIVE, f"only {circuit.operation} can close it")
    if verdict is Verdict.GOOD:
        return Finish(_good(circuit, policy, now), True, verdict, "good")
    if verdict is Verdict.BAD:
        return Finish(_bad(circuit, policy, now, jitter, retry_after_s), True, verdict, "bad")
    return Finish(_inconclusive(circuit, policy, now), True, verdict, "inconclusive")


def _another_operation(circuit: Circuit, operation: str | None) -> bool:
    return operation is not None and circuit.operation is not None and operation != circuit.operation


def _good(circuit: Circuit, policy: CircuitPolicy, now: float) -> Circuit:
    good_rounds = circuit.good_rounds + 1
    if good_rounds >= policy.probe_successes:
        if policy.ramp:
            return _ramping(circuit, policy, now, good_rounds)
        return _closed(circuit, Cause.PROBE_PASSED, now)
    due_at = now + _at_least(policy.probe_interval_s, circuit, policy)
    return move(circuit, State.OPEN, Cause.PROBE_PASSED, now, good_rounds=good_rounds, due_at=due_at)


def _closed(circuit: Circuit, cause: Cause, at: float) -> Circuit:
    return move(circuit, State.CLOSED, cause, at, **CLOSED_AGAIN, closed_at=at)


def _bad(
    circuit: Circuit,
    policy: CircuitPolicy,
    now: float,
    jitter: float,
    retry_after_s: float | None,
    cause: Cause = Cause.PROBE_FAILED,
) -> Circuit:
    longest = max(policy.cooldown_s, policy.cooldown_max_s)
    present = policy.cooldown_s if circuit.cooldown_s is None else circuit.cooldown_s
    cooldown = min(longest, present * policy.backoff)
    wait = min(longest, cooldown * (1.0 + policy.jitter * jitter))
    asked = min(retry_after_s or 0.0, LONGEST_WAIT_S)
    return move(
        circuit,
        State.OPEN,
        cause,
        now,
        cooldown_s=cooldown,
        due_at=now + max(_at_least(wait, circuit, policy), asked),
        failed_rounds=circuit.failed_rounds + 1,
        good_rounds=0,
    )


def _inconclusive(circuit: Circuit, policy: CircuitPolicy, at: float) -> Circuit:
    """Slot free, still open, tried again after one plain cooldown; good rounds so far still count."""
    due_at = at + _at_least(policy.cooldown_s, circuit, policy)
    return move(circuit, State.OPEN, Cause.PROBE_INCONCLUSIVE, at, due_at=due_at)


def _at_least(wait: float, circuit: Circuit, policy: CircuitPolicy) -> float:
    """A probe that costs money is sent no oftener than the lockout time, once locked out."""
    if policy.probe_paid and circuit.locked_out_at is not None:
        return max(wait, policy.lockout_after_s or 0.0)
    return wait


def _ramping(circuit: Circuit, policy: CircuitPolicy, now: float, good_rounds: int) -> Circuit:
    """Go on with the round, half open, with rising shares of the workers; its lease lasts as long as the ramp."""
    assert circuit.round is not None
    until = now + len(policy.ramp) * policy.ramp_step_s
    ramping = dataclasses.replace(circuit.round, ramp_started_at=now, lease_expires_at=until)
    return move(circuit, State.HALF_OPEN, Cause.RAMP_STARTED, now, round=ramping, good_rounds=good_rounds)


def is_ramping(circuit: Circuit) -> bool:
    """Whether its round is past the verdict, and a share of the workers is admitted."""
    return circuit.round is not None and circuit.round.ramp_started_at is not None


def fail_ramp(circuit: Circuit, policy: CircuitPolicy, now: float, retry_until: float | None = None) -> Circuit:
    """The admitted share failed: open again, with back-off, as after a bad probe."""
    wait = None if retry_until is None else max(0.0, retry_until - now)
    return _bad(circuit, policy, now, 0.0, wait, Cause.RAMP_FAILED)


def sweep(circuit: Circuit, policy: CircuitPolicy, now: float) -> Circuit:
    """Write down what time alone has changed: an override, a lease or a ramp run out, a lockout reached."""
    return _lock_out(_expire_lease(expire_override(circuit, now), policy, now), policy, now)


def _expire_lease(circuit: Circuit, policy: CircuitPolicy, now: float) -> Circuit:
    if circuit.round is None or now < circuit.round.lease_expires_at:
        return circuit
    if is_ramping(circuit):  # a suspicion is settled by the evidence first
        return circuit if circuit.suspected_at is not None else _closed(circuit, Cause.RAMP_PASSED, _ended_at(circuit))
    return _inconclusive(circuit, policy, circuit.round.lease_expires_at)


def _ended_at(circuit: Circuit) -> float:
    assert circuit.round is not None
    return circuit.round.lease_expires_at


def _lock_out(circuit: Circuit, policy: CircuitPolicy, now: float) -> Circuit:
    at = _lockout_at(circuit, policy)
    if at is None or now < at or circuit.mode is not Mode.AUTO:
        return circuit
    return dataclasses.replace(circuit, locked_out_at=at)


def _lockout_at(circuit: Circuit, policy: CircuitPolicy) -> float | None:
    if circuit.opened_at is None or circuit.locked_out_at is not None or policy.lockout_after_s is None:
        return None
    return max(circuit.opened_at, circuit.held_until or circuit.opened_at) + policy.lockout_after_s


def next_change_at(circuit: Circuit, policy: CircuitPolicy) -> float | None:
    """When the scheduler should look at this circuit again; None if time alone changes nothing."""
    moments = [circuit.mode_expires_at]
    if circuit.round is not None:
        moments.append(circuit.round.lease_expires_at)
    if circuit.suspected_at is not None:
        moments.append(circuit.suspected_at + policy.settle_s)
    if circuit.mode is Mode.AUTO and circuit.state is State.OPEN:
        moments.append(circuit.due_at)
    if circuit.mode is Mode.AUTO:
        moments.append(_lockout_at(circuit, policy))
    return min((at for at in moments if at is not None), default=None)


def combined(votes: Iterable[Verdict], policy: CircuitPolicy) -> Verdict | None:
    """The one verdict of a round sent from several places; None while it is still open.

    Good when the quorum found it good; bad when the quorum can no longer be reached and somebody found it bad.
    """
    cast = list(votes)
    good = cast.count(Verdict.GOOD)
    missing = policy.vantage_points - len(cast)
    if good >= policy.vantage_quorum:
        return Verdict.GOOD
    if good + missing >= policy.vantage_quorum:
        return None
    return Verdict.BAD if Verdict.BAD in cast else Verdict.INCONCLUSIVE


def admitted_share(circuit: Circuit, policy: CircuitPolicy, now: float) -> float:
    """The share of workers that a ramp admits at this moment of its round; 0 without a ramp or before it."""
    return ramp_share(None if circuit.round is None else circuit.round.ramp_started_at, policy, now)


def ramp_share(started_at: float | None, policy: CircuitPolicy, now: float) -> float:
    """The same from what agents are told: one rule for server and agent."""
    if not policy.ramp or started_at is None or now < started_at:
        return 0.0
    step = int((now - started_at) // policy.ramp_step_s)
    return policy.ramp[min(step, len(policy.ramp) - 1)]


def next_share_at(circuit: Circuit, policy: CircuitPolicy, now: float) -> float | None:
    """When the ramp takes its next step, the last of which closes; None without a ramp."""
    if circuit.round is None or circuit.round.ramp_started_at is None:
        return None
    gone = int(max(0.0, now - circuit.round.ramp_started_at) // policy.ramp_step_s)
    return min(circuit.round.ramp_started_at + (gone + 1) * policy.ramp_step_s, circuit.round.lease_expires_at)


def in_share(worker: str, generation: int, share: float) -> bool:
    """Whether a worker is among the admitted: by its name and the ramp's generation, so that who is in stays in."""
    drawn = hashlib.sha256(f"{generation}:{worker}".encode("utf-8", "replace")).digest()
    return int.from_bytes(drawn[:8]) < share * 2**64
