"""Telling people, once: a transition row is the outbox, a delivery is one message to one channel."""

import random
import re
import secrets as randomness
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import CharField, Exists, F, OuterRef, Q, Value
from django.db.models.functions import Cast, Concat
from recloser.core.types import State

from controlplane import secrets
from controlplane.models import AlertCause, AlertChannel, AlertDelivery, Circuit, Environment, Outage, Transition
from controlplane.probe_spec import BadSpec, web_address
from controlplane.services import audit, egress, handovers, system
from controlplane.services.alert_body import CLOSED, LOCKED_OUT, OPENED, RESOLVED, compose, compose_short, incident_of
from controlplane.services.alert_tests import TEST
from controlplane.services.alert_tests import send_test as send_test
from controlplane.services.errors import Refused

EVENTS = (OPENED, LOCKED_OUT, CLOSED, *AlertCause.Kind.values, RESOLVED, *handovers.EVENTS, TEST)
"""Everything that a channel may be told."""
MAX_ATTEMPTS = 10
"""Of one sending; the number itself only ever rises, so that a late answer is told from a present one."""
FIRST_WAIT_S, LONGEST_BACKOFF_S = 5.0, 900.0
LEASE = timedelta(seconds=30)
LOCKOUTS_WITHIN = timedelta(days=1)
KEEP_DELIVERIES = timedelta(days=90)

log = structlog.get_logger(__name__)

Status = AlertDelivery.Status
Kind = AlertChannel.Kind

SHORTEST_SECRET = 16
"""Of a webhook: what signs must not be guessed."""


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery with all that its notifier needs; `attempt` tells a late answer from a present one."""

    id: UUID
    attempt: int
    kind: str
    target: str
    secret: str
    body: dict[str, Any]
    created_at: datetime
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """How one attempt went; no `error` means that it arrived."""

    error: str = ""
    retry_after_s: float | None = None
    final: bool = False
    """The receiver does not want to be asked again."""


@transaction.atomic
def dispatch_due_transitions(*, now: datetime, limit: int, environment_id: int | None = None) -> int:
    """Turn each transition that nobody was told of into deliveries, in the transaction that marks it.

    Likewise lockouts. Return how many deliveries were made; each is a little younger than the one before.
    """
    rows = _unalerted(limit, environment_id)
    made = [_announce(row, now + timedelta(microseconds=place)) for place, row in enumerate(rows)]
    Transition.objects.filter(pk__in=[row.pk for row in rows]).update(alerted_at=now)
    later = now + timedelta(microseconds=len(rows))
    return sum(made) + sum(
        _announce_lockout(outage, later) for outage in _unannounced_lockouts(now, limit, environment_id)
    )


def _unalerted(limit: int, environment_id: int | None) -> Sequence[Transition]:
    unalerted = Transition.objects.filter(alerted_at=None)
    unalerted = unalerted if environment_id is None else unalerted.filter(circuit__environment=environment_id)
    rows = unalerted.select_for_update(skip_locked=True, no_key=True, of=("self",))
    return list(rows.select_related("outage", "circuit__dependency__environment").order_by("id")[:limit])


def _announce(row: Transition, now: datetime) -> int:
    event = _event(row)
    if event is None or row.outage is None:
        return 0
    return _deliver(event, row.circuit, row.outage, row, now)


def _event(row: Transition) -> str | None:
    """What people are told: only leaving `closed` and coming back to it; a re-opening is the same incident."""
    if row.from_state == State.CLOSED and row.to_state != State.CLOSED:
        return OPENED
    if row.from_state != State.CLOSED and row.to_state == State.CLOSED:
        return CLOSED
    return None


def _unannounced_lockouts(now: datetime, limit: int, environment_id: int | None) -> Sequence[Outage]:
    incident = Concat(Value("outage-"), Cast(OuterRef("pk"), CharField()))
    told = AlertDelivery.objects.filter(event=LOCKED_OUT, incident=incident)
    rows = Outage.objects.filter(locked_out_at__gt=now - LOCKOUTS_WITHIN, ended_at=None).filter(~Exists(told))
    rows = rows if environment_id is None else rows.filter(circuit__environment=environment_id)
    rows = rows.select_related("circuit__dependency__environment")
    return list(rows.select_for_update(skip_locked=True, no_key=True, of=("self",))[:limit])


def _announce_lockout(outage: Outage, now: datetime) -> int:
    return _deliver(LOCKED_OUT, outage.circuit, outage, None, now)


def _deliver(event: str, circuit: Circuit, outage: Outage, transition: Transition | None, now: datetime) -> int:
    """One delivery to each channel of the environment; the table's constraint forbids a second."""
    rows = AlertChannel.objects.filter(environment=circuit.environment_id, enabled=True)
    channels = list(rows.select_for_update(no_key=True).order_by("pk"))  # none is removed meanwhile
    if not channels:
        return 0
    body = _body(event, circuit, outage, transition, now)
    cause = transition or outage.transitions.order_by("id").first()
    made = [
        AlertDelivery(
            channel=channel,
            transition=cause,
            event=event,
            incident=incident_of(outage),
            body=body,
            due_at=now.replace(microsecond=0),  # at once, whatever its place in the order
            created_at=now,
        )
        for channel in channels
    ]
    AlertDelivery.objects.bulk_create(made, ignore_conflicts=True)
    return len(made)


def _body(event: str, circuit: Circuit, outage: Outage, transition: Transition | None, now: datetime) -> dict[str, Any]:
    """One that cannot be written in full is written short, and holds up no other."""
    try:
        with transaction.atomic():
            return compose(event=event, circuit=circuit, outage=outage, transition=transition, now=now)
    except Exception:
        log.exception("an alert was cut short", incident=incident_of(outage), alert=event)
        return compose_short(event=event, circuit=circuit, outage=outage, transition=transition)


@transaction.atomic
def claim_deliveries(*, now: datetime, limit: int) -> list[tuple[UUID, int]]:
    """Due deliveries as (id, attempt), under a lease; what a dead Celery worker held comes up again when that ends.

    Of one incident a channel hears in order: what comes later waits until the earlier is sent or dead.
    """
    free = Q(lease_expires_at=None) | Q(lease_expires_at__lte=now)
    earlier = AlertDelivery.objects.filter(
        channel=OuterRef("channel"),
        incident=OuterRef("incident"),
        status=Status.PENDING,
        created_at__lt=OuterRef("created_at"),
    )
    rows = AlertDelivery.objects.filter(free, ~Exists(earlier), status=Status.PENDING, due_at__lte=now)
    rows = rows.select_for_update(skip_locked=True, no_key=True, of=("self",)).order_by("due_at")[:limit]
    ids = [row.pk for row in rows]
    claimed = AlertDelivery.objects.filter(pk__in=ids)
    claimed.update(attempts=F("attempts") + 1, lease_expires_at=now + LEASE)
    return list(claimed.values_list("pk", "attempts"))


def messages(claims: Iterable[tuple[UUID | str, int]]) -> list[Message]:
    """What to send for these claims, without those that were settled or claimed again meanwhile."""
    wanted = {UUID(str(key)): attempt for key, attempt in claims}
    rows = AlertDelivery.objects.filter(pk__in=wanted, status=Status.PENDING).select_related("channel")
    return [_message(row) for row in rows if row.attempts == wanted[row.pk]]


def _message(row: AlertDelivery) -> Message:
    channel, secret, problem = row.channel, "", "" if row.channel.enabled else "the channel is switched off"
    try:
        secret = secrets.unseal(channel.secret)
    except secrets.Unreadable as lost:
        problem = str(lost)
    return Message(row.pk, row.attempts, channel.kind, channel.target, secret, row.body, row.created_at, problem)


@transaction.atomic
def finish_delivery(*, delivery_id: UUID, attempt: int, result: Result, now: datetime) -> bool:
    """Write down how an attempt went; False if another attempt has taken over."""
    row = AlertDelivery.objects.select_for_update(no_key=True).filter(pk=delivery_id).first()
    if row is None or row.attempts != attempt or row.status != Status.PENDING:
        return False
    row.lease_expires_at = None
    row.last_error = result.error[:300]
    if not result.error:
        row.status, row.sent_at = Status.SENT, now
    elif result.final or attempt % MAX_ATTEMPTS == 0:
        row.status = Status.DEAD
    else:
        row.due_at = now + timedelta(seconds=wait_s(attempt, result.retry_after_s))
    row.save(update_fields=["lease_expires_at", "last_error", "status", "sent_at", "due_at"])
    return True


def wait_s(attempt: int, asked_s: float | None, jitter: float | None = None) -> float:
    """Until the next attempt: doubled each time, shifted by up to a fifth, and no shorter than the receiver asks."""
    draw = random.uniform(-0.2, 0.2) if jitter is None else jitter  # noqa: S311
    failures = (attempt - 1) % MAX_ATTEMPTS
    backed_off = min(FIRST_WAIT_S * 2.0**failures, LONGEST_BACKOFF_S) * (1 + draw)
    return max(backed_off, min(asked_s or 0.0, LONGEST_BACKOFF_S))


@audit.refusals("resend_alert")
@transaction.atomic
def resend(*, delivery_id: UUID, actor: str, now: datetime) -> AlertDelivery:
    """Send a delivery again, dead or sent: same id, same body, so its receiver keeps one record."""
    row = (
        AlertDelivery.objects.select_for_update(no_key=True, of=("self",)).select_related("channel").get(pk=delivery_id)
    )
    if row.status == Status.PENDING:
        raise Refused("pending", "this alert is still on its way", "wait for its next attempt, or for it to give up")
    row.status, row.due_at, row.lease_expires_at, row.last_error = Status.PENDING, now, None, ""
    row.attempts = -(-row.attempts // MAX_ATTEMPTS) * MAX_ATTEMPTS
    row.save(update_fields=["status", "attempts", "due_at", "lease_expires_at", "last_error"])
    _audit(actor, "resend_alert", row.channel, {"delivery": str(row.pk), "event": row.event})
    system.wake_scheduler()
    return row


@audit.refusals("save_channel")
@transaction.atomic
def save_channel(
    *,
    environment: Environment,
    kind: str,
    name: str,
    target: str,
    actor: str,
    now: datetime,
    channel: AlertChannel | None = None,
    secret: str | None = None,
    enabled: bool = True,
) -> tuple[AlertChannel, str]:
    """Make a channel or change one. A webhook's new signing secret is returned once, and never shown again.

    `secret` None keeps the stored one, or makes one for a new webhook. For Slack it is the incoming webhook's address,
    for PagerDuty the integration key; both are the user's own and are not returned.
    """
    fresh = channel is None or channel.kind != kind
    _check_target(kind, target)
    _check_secret(kind, secret, fresh)
    if channel is not None and secret is None and kind == Kind.PAGERDUTY and not fresh:
        _demand_same_target(channel, target)
    if not name.strip():
        raise Refused("bad_field", "the name is missing", "name the people who read this channel", "name")
    made = randomness.token_urlsafe(32) if fresh and kind == Kind.WEBHOOK and secret is None else None
    row = channel or AlertChannel(environment=environment, created_at=now, created_by=actor)
    row.kind, row.name, row.target, row.enabled = kind, name.strip()[:100], target, enabled
    if made or secret or fresh:
        row.secret = secrets.seal(made or secret or "")
    row.save()
    _audit(actor, "save_channel", row, {"kind": kind, "enabled": enabled})
    return row, made or (secret or "" if kind == Kind.WEBHOOK else "")


@transaction.atomic
def remove_channel(*, channel: AlertChannel, actor: str) -> None:
    """Nobody is told by this channel any more; its deliveries go with it, those being made right now too."""
    AlertChannel.objects.select_for_update().filter(pk=channel.pk).first()
    _audit(actor, "remove_channel", channel, {"kind": channel.kind})
    channel.delete()


def _check_target(kind: str, target: str) -> None:
    if len(target) > 500:
        raise Refused("bad_field", "the address is too long", "use at most 500 characters", "target")
    match kind:
        case Kind.WEBHOOK | Kind.PAGERDUTY:
            _check_web_address(target, "target")
        case Kind.EMAIL:
            try:
                validate_email(target)
            except ValidationError:
                raise Refused("bad_field", "this is not an e-mail address", "write it as name@host", "target") from None
        case Kind.SLACK:
            if not target.strip() or "://" in target:
                raise Refused(
                    "bad_field", "this is shown to everyone", "name the Slack channel here, such as #oncall", "target"
                )
        case _:
            raise Refused("bad_field", "no such kind of channel", f"use one of {', '.join(Kind.values)}", "kind")


def _check_secret(kind: str, secret: str | None, fresh: bool) -> None:
    """What lets in must be there from the start, and be of the shape that its service gives out."""
    if kind == Kind.WEBHOOK and secret is not None and len(secret) < SHORTEST_SECRET:
        mend = f"give at least {SHORTEST_SECRET} characters, or none: then a secret is made and shown once"
        raise Refused("bad_field", "this secret is too short to sign with", mend, "secret")
    if kind not in (Kind.SLACK, Kind.PAGERDUTY) or (secret is None and not fresh):
        return
    if not secret:
        wanted = "the incoming webhook's address" if kind == Kind.SLACK else "the service's integration key"
        raise Refused("bad_field", "this channel has no secret", f"give {wanted}", "secret")
    if kind == Kind.SLACK:
        _check_web_address(secret, "secret")
    elif not re.fullmatch(r"[0-9A-Za-z]{20,64}", secret):
        raise Refused(
            "bad_field", "this is no integration key", "copy the key of an Events API v2 integration", "secret"
        )


def _demand_same_target(channel: AlertChannel, target: str) -> None:
    """A key that is sent along lets in whoever receives it."""
    if target != channel.target:
        mend = "enter the integration key anew: a stored one is never sent to another address"
        raise Refused("secrets_needed", "the address has changed", mend, "secret")


def _check_web_address(address: str, field: str) -> None:
    try:
        web_address(address, field)
    except BadSpec as bad:
        raise Refused("bad_field", bad.message, bad.mend, bad.field) from None
    egress.demand_reachable(address, field=field)


def _audit(actor: str, action: str, channel: AlertChannel, detail: dict[str, Any]) -> None:
    audit.record(
        actor=actor,
        action=action,
        target=channel.name,
        accepted=True,
        environment_id=channel.environment_id,
        detail=detail,
    )


def shift_deadlines(*, by_s: float) -> int:
    """Follow a step of the database's clock, so that what waits does not wait for hours."""
    step = timedelta(seconds=by_s)
    waiting = AlertDelivery.objects.filter(status=Status.PENDING)
    return waiting.update(due_at=F("due_at") + step, lease_expires_at=F("lease_expires_at") + step)


def prune_deliveries(*, now: datetime) -> int:
    """Drop what was sent long ago; the dead stay until somebody looks."""
    return AlertDelivery.objects.filter(status=Status.SENT, sent_at__lt=now - KEEP_DELIVERIES).delete()[0]


def renew_secrets() -> tuple[int, list[str]]:
    """Seal every channel's secret under the newest key; return how many, and those that no key opens."""
    done, lost = 0, []
    for channel in AlertChannel.objects.exclude(secret=""):
        try:
            sealed = secrets.renew(channel.secret)
        except secrets.Unreadable:
            lost.append(f"channel {channel.name}")
            continue
        done += AlertChannel.objects.filter(pk=channel.pk, secret=channel.secret).update(secret=sealed)
    return done, lost
