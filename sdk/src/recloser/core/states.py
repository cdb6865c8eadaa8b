"""A circuit, its legal transitions, and what an operator may do to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recloser.core.outcomes import LONGEST_WAIT_S
from recloser.core.types import Cause, Delivery, Mode, Signal, State


class EffectiveState(StrEnum):
    """What callers meet: state, mode, expiry and delivery taken together."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"

    @property
    def admits(self) -> bool:
        """Whether an ordinary call goes through."""
        return self is EffectiveState.CLOSED


@dataclass(frozen=True, slots=True)
class Round:
    """The one probe round in flight."""

    id: str
    started_at: float
    lease_expires_at: float
    ramp_started_at: float | None = None
    """Since when a share of the workers is admitted again; None while its verdict is awaited."""


@dataclass(frozen=True, slots=True)
class Circuit:
    """The shared breaker of one dependency. Instants are seconds on the caller's clock.

    It is half open exactly while a round is in flight; a ramp is the last part of its round. `generation` rises with
    every change of state or mode, and with every fresh start of the counters: evidence of an older one has no say.
    """

    state: State = State.CLOSED
    mode: Mode = Mode.AUTO
    mode_expires_at: float | None = None
    generation: int = 0
    cause: Cause | None = None
    actor: str | None = None
    reason: str | None = None
    changed_at: float | None = None
    opened_at: float | None = None
    """When it left `closed`; None while closed."""
    closed_at: float | None = None
    """When it last returned to `closed`."""
    due_at: float | None = None
    """When the next probe is due; None while closed."""
    cooldown_s: float | None = None
    """The present wait, backed off; None: the policy's own."""
    failed_rounds: int = 0
    good_rounds: int = 0
    round: Round | None = None
    suspected_at: float | None = None
    suspected_signal: Signal | None = None
    locked_out_at: float | None = None
    held_until: float | None = None
    """When a hold ended that had kept it open: only from then on does recovery take too long."""
    tripped_by: Signal | None = None
    """The signal that opened this outage; None if a person did."""
    operation: str | None = None
    """What tripped, where it has a name: only a good probe of the same closes."""
    would_be: Signal | None = None
    """The signal that would have opened it, were it enforced and not held closed."""
    would_be_at: float | None = None


class IllegalTransition(ValueError):
    """A change of state that the table does not know: a bug, never a condition."""


LEGAL: Mapping[tuple[State, State], frozenset[Cause]] = {
    (State.CLOSED, State.OPEN): frozenset(
        {Cause.CONSECUTIVE_FAILURES, Cause.FAILURE_RATE, Cause.SLOW_CALL_RATE, Cause.OPERATOR}
    ),
    (State.OPEN, State.HALF_OPEN): frozenset({Cause.PROBE_STARTED}),
    (State.HALF_OPEN, State.OPEN): frozenset(
        {Cause.PROBE_FAILED, Cause.PROBE_INCONCLUSIVE, Cause.PROBE_PASSED, Cause.RAMP_FAILED, Cause.OPERATOR}
    ),
    (State.HALF_OPEN, State.HALF_OPEN): frozenset({Cause.RAMP_STARTED}),
    (State.HALF_OPEN, State.CLOSED): frozenset({Cause.PROBE_PASSED, Cause.RAMP_PASSED, Cause.OPERATOR}),
    (State.OPEN, State.CLOSED): frozenset({Cause.OPERATOR}),
    (State.CLOSED, State.CLOSED): frozenset({Cause.OPERATOR, Cause.OVERRIDE_EXPIRED}),
    (State.OPEN, State.OPEN): frozenset({Cause.OPERATOR, Cause.OVERRIDE_EXPIRED}),
}
"""From and to, with the causes that may lead there. The last two are changes of mode, or fresh counters."""


def move(circuit: Circuit, to: State, cause: Cause, now: float, **changes: Any) -> Circuit:
    """One legal change of state or mode: a new generation, free of suspicion and of any round."""
    if cause not in LEGAL.get((circuit.state, to), ()):
        raise IllegalTransition(f"{circuit.state} to {to} by {cause}")
    fresh: dict[str, Any] = {
        "generation": circuit.generation + 1,
        "changed_at": now,
        "actor": None,
        "reason": None,
        "round": None,
        "suspected_at": None,
        "suspected_signal": None,
        "would_be": None,
        "would_be_at": None,
    }
    return dataclasses.replace(circuit, state=to, cause=cause, **(fresh | changes))


def effective(
    state: State, mode: Mode, mode_expires_at: float | None, delivery: Delivery, now: float
) -> EffectiveState:
    """What callers meet now; one rule for server and agent.

    An override outranks the delivery of the policy: it is a person's word about this hour, and it expires.
    """
    if mode is not Mode.AUTO and not _expired(mode_expires_at, now):
        return EffectiveState.OPEN if mode is Mode.FORCED_OPEN else EffectiveState.CLOSED
    if delivery is not Delivery.ENFORCE:
        return EffectiveState.CLOSED
    return EffectiveState(state.value)


def effective_of(circuit: Circuit, delivery: Delivery, now: float) -> EffectiveState:
    """The same for a whole circuit."""
    return effective(circuit.state, circuit.mode, circuit.mode_expires_at, delivery, now)


def _expired(at: float | None, now: float) -> bool:
    return at is not None and at <= now


def is_current(circuit: Circuit, generation: int) -> bool:
    """Whether evidence admitted under that generation still has a say."""
    return circuit.generation == generation


CLOSED_AGAIN: Mapping[str, Any] = {
    "opened_at": None,
    "due_at": None,
    "failed_rounds": 0,
    "good_rounds": 0,
    "locked_out_at": None,
    "held_until": None,
    "tripped_by": None,
    "operation": None,
}
"""What an outage leaves behind when it ends: nothing."""

AUTO: Mapping[str, Any] = {"mode": Mode.AUTO, "mode_expires_at": None}


def force_open(circuit: Circuit, *, actor: str, reason: str, until: float, now: float) -> Circuit:
    """Hold it open until then, whatever the evidence; it is not probed meanwhile, and due for a probe at the end."""
    _demand_future(until, now)
    return move(
        circuit,
        State.OPEN,
        Cause.OPERATOR,
        now,
        mode=Mode.FORCED_OPEN,
        mode_expires_at=until,
        actor=actor,
        reason=reason,
        opened_at=now if circuit.opened_at is None else circuit.opened_at,
        due_at=until,
        good_rounds=0,
    )


def force_closed(circuit: Circuit, *, actor: str, reason: str, until: float, now: float) -> Circuit:
    """Hold it closed until then, whatever the evidence; what it would have done is recorded in `would_be`."""
    _demand_future(until, now)
    held = {"mode": Mode.FORCED_CLOSED, "mode_expires_at": until}
    return _closed_by_hand(circuit, actor, reason, now, held)


def force_close(circuit: Circuit, *, actor: str, reason: str, now: float) -> Circuit:
    """Close it once: fresh counters, no probe in flight, the wait small again. New evidence may open it."""
    return _closed_by_hand(circuit, actor, reason, now, AUTO)


def _closed_by_hand(circuit: Circuit, actor: str, reason: str, now: float, mode: Mapping[str, Any]) -> Circuit:
    changes = {**CLOSED_AGAIN, **mode, "cooldown_s": None, "closed_at": now, "actor": actor, "reason": reason}
    return move(circuit, State.CLOSED, Cause.OPERATOR, now, **changes)


def release(circuit: Circuit, *, actor: str, reason: str, now: float) -> Circuit:
    """End an override by hand; without one, nothing changes."""
    if circuit.mode is Mode.AUTO:
        return circuit
    return _end_override(circuit, Cause.OPERATOR, now, actor=actor, reason=reason)


def expire_override(circuit: Circuit, now: float) -> Circuit:
    """Write down that an override has run out; its end is its expiry, however late we look."""
    if circuit.mode is Mode.AUTO or circuit.mode_expires_at is None or circuit.mode_expires_at > now:
        return circuit
    return _end_override(circuit, Cause.OVERRIDE_EXPIRED, circuit.mode_expires_at)


def _end_override(circuit: Circuit, cause: Cause, at: float, **words: str) -> Circuit:
    if circuit.mode is Mode.FORCED_OPEN:
        return move(circuit, State.OPEN, cause, at, **AUTO, **words, due_at=at, held_until=at)
    return move(circuit, State.CLOSED, cause, at, **AUTO, **words, closed_at=at)


def probe_now(circuit: Circuit, now: float) -> tuple[Circuit, str | None]:
    """Make an open circuit due at once; otherwise say why not."""
    if circuit.mode is not Mode.AUTO:
        return circuit, "held by an operator"
    if circuit.state is State.CLOSED:
        return circuit, "closed"
    if circuit.state is State.HALF_OPEN:
        return circuit, "a probe round is in flight"
    return dataclasses.replace(circuit, due_at=now), None


def lengthen(circuit: Circuit, retry_after_s: float, now: float) -> Circuit:
    """Honour a server's explicit wait: it may put an open circuit's deadline off, never forward.

    However often it is asked: at most the longest wait after the circuit came to stand open.
    """
    begun_at = now if circuit.changed_at is None else min(circuit.changed_at, now)
    until = min(now + max(retry_after_s, 0.0), begun_at + LONGEST_WAIT_S)
    if circuit.state is not State.OPEN or circuit.due_at is None or until <= circuit.due_at:
        return circuit
    return dataclasses.replace(circuit, due_at=until)


def shift(circuit: Circuit, by_s: float) -> Circuit:
    """Follow a step of the clock: every instant moves with it, so that no duration changes."""
    moved = {name: at + by_s for name in _INSTANTS if (at := getattr(circuit, name)) is not None}
    if circuit.round is not None:
        moved["round"] = _shifted(circuit.round, by_s)
    return dataclasses.replace(circuit, **moved)


def _shifted(held: Round, by_s: float) -> Round:
    ramp = None if held.ramp_started_at is None else held.ramp_started_at + by_s
    return Round(held.id, held.started_at + by_s, held.lease_expires_at + by_s, ramp)


_INSTANTS = (
    "mode_expires_at",
    "changed_at",
    "opened_at",
    "closed_at",
    "due_at",
    "suspected_at",
    "locked_out_at",
    "held_until",
    "would_be_at",
)


def _demand_future(until: float, now: float) -> None:
    if until <= now:
        raise ValueError("an override ends in the future")


def to_dict(circuit: Circuit) -> dict[str, Any]:
    """Plain values for storage and the wire."""
    return {row.name: _plain(getattr(circuit, row.name)) for row in dataclasses.fields(circuit)}


def _plain(value: Any) -> Any:
    if isinstance(value, Round):
        return dataclasses.asdict(value)
    return str(value) if isinstance(value, StrEnum) else value


_TYPED: Mapping[str, type[StrEnum]] = {
    "state": State,
    "mode": Mode,
    "cause": Cause,
    "suspected_signal": Signal,
    "tripped_by": Signal,
    "would_be": Signal,
}


def from_dict(stored: Mapping[str, Any]) -> Circuit:
    """The circuit that `to_dict` wrote; an unknown state or mode raises, an unknown field is left out."""
    known = {row.name for row in dataclasses.fields(Circuit)}
    return Circuit(**{name: _typed(name, value) for name, value in stored.items() if name in known})


def _typed(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "round":
        return Round(value["id"], value["started_at"], value["lease_expires_at"], value.get("ramp_started_at"))
    return _TYPED[name](value) if name in _TYPED else value
