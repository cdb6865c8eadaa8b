"""What an operator may do to a circuit. Every action is on record, refused ones too; a token makes it happen once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from recloser.core import circuit as core
from recloser.core.policy import CircuitPolicy
from recloser.core.types import Mode, State

from controlplane import clock
from controlplane.models import ActionToken, Circuit, Dependency, Probe
from controlplane.selectors import policies, readmission
from controlplane.services import audit, judging, rounds, system, transitions
from controlplane.services.errors import Refused
from controlplane.services.transitions import core_of

LONGEST_HOLD = timedelta(hours=24)
LONGEST_REASON = 500
LONGEST_TOKEN = 100
KEEP_TOKENS = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Order:
    """One action as it was asked for."""

    action: str
    dependency_id: int
    actor: str
    reason: str
    now: datetime
    until: datetime | None
    token: str | None

    @property
    def now_s(self) -> float:
        return clock.seconds(self.now)


_Change = Callable[[Circuit, core.Circuit, _Order], core.Circuit]


def force_close(
    *,
    dependency_id: int,
    actor: str,
    reason: str,
    now: datetime,
    until: datetime | None = None,
    token: str | None = None,
) -> Circuit:
    """Close once, with fresh counters; the probe in flight has no say any more. New evidence may open it again."""
    return _carry_out(_Order("force_close", dependency_id, actor, reason, now, until, token), _force_close)


def hold_open(
    *, dependency_id: int, actor: str, reason: str, now: datetime, until: datetime | None, token: str | None = None
) -> Circuit:
    """Reject every call until then, whatever the evidence."""
    return _carry_out(_Order("hold_open", dependency_id, actor, reason, now, until, token), _hold_open)


def hold_closed(
    *, dependency_id: int, actor: str, reason: str, now: datetime, until: datetime | None, token: str | None = None
) -> Circuit:
    """Admit every call until then, whatever the evidence; what would have tripped is recorded."""
    return _carry_out(_Order("hold_closed", dependency_id, actor, reason, now, until, token), _hold_closed)


def release(
    *,
    dependency_id: int,
    actor: str,
    now: datetime,
    reason: str = "",
    until: datetime | None = None,
    token: str | None = None,
) -> Circuit:
    """End an override before its time."""
    return _carry_out(_Order("release", dependency_id, actor, reason, now, until, token), _release)


def probe_now(
    *,
    dependency_id: int,
    actor: str,
    now: datetime,
    reason: str = "",
    until: datetime | None = None,
    token: str | None = None,
) -> Circuit:
    """Make an open circuit due for its test at once: by its probe, or without one by the call of a later run."""
    return _carry_out(_Order("probe_now", dependency_id, actor, reason, now, until, token), _probe_now)


def acknowledge(
    *,
    dependency_id: int,
    actor: str,
    now: datetime,
    reason: str = "",
    until: datetime | None = None,
    token: str | None = None,
) -> Circuit:
    """Say that somebody is on it."""
    return _carry_out(_Order("acknowledge", dependency_id, actor, reason, now, until, token), _acknowledge)


def hand_back(
    *,
    dependency_id: int,
    actor: str,
    now: datetime,
    reason: str = "",
    until: datetime | None = None,
    token: str | None = None,
) -> Circuit:
    """Take an acknowledgement back: nobody is on it any more."""
    return _carry_out(_Order("hand_back", dependency_id, actor, reason, now, until, token), _hand_back)


def note(
    *,
    dependency_id: int,
    actor: str,
    reason: str,
    now: datetime,
    until: datetime | None = None,
    token: str | None = None,
) -> Circuit:
    """Write something down for whoever comes next: an entry of the audit, so nobody rewrites it."""
    return _carry_out(_Order("note", dependency_id, actor, reason, now, until, token), _note)


def _carry_out(order: _Order, change: _Change) -> Circuit:
    """Check, change, record; of a refused order only the record stays."""
    try:
        _demand_sense(order)
        with transaction.atomic():
            return _apply(order, change)
    except Refused as refused:
        _record(order, accepted=False, why=refused.message)
        raise


def _apply(order: _Order, change: _Change) -> Circuit:
    rows = Circuit.objects.select_for_update(no_key=True, of=("self",)).select_related("dependency")
    row = rows.get(pk=_find(order).pk)
    if not _first_time(order, row):
        return row
    policy = _policy(row)
    moved = rounds.bring_up_to_date(row, policy, order.now)
    before = core_of(row)
    after = change(row, before, order)
    if after != before:
        transitions.save(row, after, policy=policy, now=order.now, evidence={"action": order.action})
    _record(order, accepted=True, row=row)
    if after != before or moved or order.action in _TOLD:
        transitions.announce([row])
        system.wake_scheduler()
    return row


def _find(order: _Order) -> Circuit:
    try:
        return judging.find(order.dependency_id)
    except Dependency.DoesNotExist:
        mend = "look its name up again"
        raise Refused("unknown_dependency", "there is no such dependency", mend, "dependency") from None


def _first_time(order: _Order, row: Circuit) -> bool:
    """False if this very order was carried out before; a token used for anything else is refused."""
    if order.token is None:
        return True
    kept, made = ActionToken.objects.get_or_create(
        environment_id=row.environment_id,
        token=order.token,
        defaults={"circuit": row, "action": order.action, "actor": order.actor, "at": order.now},
    )
    if not made and (kept.circuit_id, kept.action, kept.actor) != (row.pk, order.action, order.actor):
        mend = "make a new token for each action"
        raise Refused("token_reused", "this token belongs to another action, or to somebody else's", mend, "token")
    return made


def prune_tokens(*, now: datetime) -> int:
    """Forget actions taken more than a day ago: nobody repeats a request for so long."""
    return ActionToken.objects.filter(at__lt=now - KEEP_TOKENS).delete()[0]


def _force_close(row: Circuit, before: core.Circuit, order: _Order) -> core.Circuit:
    return core.force_close(before, actor=order.actor, reason=order.reason.strip(), now=order.now_s)


def _hold_open(row: Circuit, before: core.Circuit, order: _Order) -> core.Circuit:
    until = clock.seconds(_until(order))
    return core.force_open(before, actor=order.actor, reason=order.reason.strip(), until=until, now=order.now_s)


def _hold_closed(row: Circuit, before: core.Circuit, order: _Order) -> core.Circuit:
    until = clock.seconds(_until(order))
    return core.force_closed(before, actor=order.actor, reason=order.reason.strip(), until=until, now=order.now_s)


def _release(row: Circuit, before: core.Circuit, order: _Order) -> core.Circuit:
    if before.mode is Mode.AUTO:
        raise Refused("not_held", "nobody holds this circuit", "there is nothing to release")
    return core.release(before, actor=order.actor, reason=order.reason.strip(), now=order.now_s)


def _probe_now(row: Circuit, before: core.Circuit, order: _Order) -> core.Circuit:
    after, why_not = core.probe_now(before, order.now_s)
    if why_not is not None:
        raise Refused("not_probed", f"no probe can start: {why_not}", "wait, or look at the circuit again")
    if Probe.objects.filter(dependency=row.dependency_id, enabled=True).exists():
        row.probe_requested_by = order.actor
        row.save(update_fields=["probe_requested_by"])
    else:
        _demand_permits(row)
    return after


def _policy(row: Circuit) -> CircuitPolicy:
    return policies.circuit_policy(environment_id=row.environment_id, dependency_id=row.dependency_id)


def _demand_permits(row: Circuit) -> None:
    """Refuse to make due what no call of a later run could test either; say which of the ways out is missing."""
    policy, tools = _policy(row), list(row.dependency.tools.all())
    if readmission.is_testable(tools, policy, probed=False):
        return
    harmless = readmission.may_test(tools)
    why = "its policy gives no permits" if harmless else "no tool in front of it may test it"
    mend = "switch permits on in its policy" if harmless else "confirm the class of a harmless tool"
    raise Refused("no_probe", f"this dependency has no probe, and {why}", f"set up a probe, {mend}, or force close it")


def _acknowledge(row: Circuit, before: core.Circuit, order: _Order) -> core.Circuit:
    if before.state is State.CLOSED:
        raise Refused("not_open", "this circuit is closed", "there is nothing to acknowledge")
    if row.acknowledged_at is None:
        row.acknowledged_at, row.acknowledged_by = order.now, order.actor
        row.save(update_fields=["acknowledged_at", "acknowledged_by"])
    return before


def _hand_back(row: Circuit, before: core.Circuit, order: _Order) -> core.Circuit:
    if row.acknowledged_at is None:
        raise Refused("not_acknowledged", "nobody has said that they are on it", "there is nothing to hand back")
    row.acknowledged_at, row.acknowledged_by = None, ""
    row.save(update_fields=["acknowledged_at", "acknowledged_by"])
    return before


def _note(row: Circuit, before: core.Circuit, order: _Order) -> core.Circuit:
    return before


_REASONED = frozenset({"force_close", "hold_open", "hold_closed", "note"})
_TOLD = frozenset({"acknowledge", "hand_back", "note"})
"""They change no state, and whoever looks on sees them at once all the same."""
_HOLDS = frozenset({"hold_open", "hold_closed"})


def _demand_sense(order: _Order) -> None:
    if order.action in _REASONED and not order.reason.strip():
        raise Refused("bad_field", "the reason is missing", "say why, for whoever reads it at night", "reason")
    if len(order.reason) > LONGEST_REASON:
        raise Refused("bad_field", "the reason is too long", f"use up to {LONGEST_REASON} characters", "reason")
    if order.token is not None and not 0 < len(order.token) <= LONGEST_TOKEN:
        raise Refused("bad_field", "that is no token", f"use 1 to {LONGEST_TOKEN} characters", "token")
    if order.action in _HOLDS:
        _until(order)
    elif order.until is not None:
        raise Refused("bad_field", f"{order.action} has no end", "leave out until", "until")


def _until(order: _Order) -> datetime:
    """When a hold ends: in the future, and not beyond a day."""
    if order.until is None or order.until.tzinfo is None:
        raise Refused("bad_field", "the end is missing or has no time zone", "say until when it is held", "until")
    if not order.now < order.until <= order.now + LONGEST_HOLD:
        raise Refused("bad_field", "the end is not within the next 24 hours", "choose an end within them", "until")
    return order.until


def _record(order: _Order, *, accepted: bool, row: Circuit | None = None, why: str = "") -> None:
    row = row or Circuit.objects.select_related("dependency").filter(dependency_id=order.dependency_id).first()
    audit.record(
        actor=order.actor,
        action=order.action,
        target=row.dependency.slug if row else f"dependency {order.dependency_id}",
        accepted=accepted,
        environment_id=row.environment_id if row else None,
        reason=order.reason[:LONGEST_REASON] if accepted else why,
        detail={"until": order.until, "token": order.token, "generation": row.generation if row else None},
    )
