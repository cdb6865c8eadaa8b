"""Alerts about what is no transition: looked for, told once each, and taken back once it is over.

A worker fails alone. Too few workers live for a quorum. Nobody could test an open circuit. The scheduler is silent.
The prober itself is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from recloser.core.probe import HEARTBEATS_TO_WARN
from recloser.core.types import Mode, State, Verdict

from controlplane.models import AlertCause, AlertChannel, AlertDelivery, Circuit, Environment, ProbeRound
from controlplane.selectors import policies, suspects
from controlplane.services import alert_body

FAULT_FRESH = timedelta(minutes=15)
"""As long as the Board names a worker that nobody has heard fail since."""
QUORUM_PATIENCE = timedelta(seconds=60)
"""A roll-out makes a fleet small for a moment."""
OVER_AFTER = timedelta(seconds=120)
"""What comes and goes within this time is one cause."""
SINGLY, WITHIN = 10, timedelta(minutes=5)
"""So many of one kind in one environment are told one by one within so long; what comes on top is one message."""
KEEP_CAUSES = timedelta(days=90)
LOOKER = 7_265_636_003
"""The advisory lock of the one that looks."""

Kind = AlertCause.Kind


class Key(NamedTuple):
    """What makes two findings the same cause."""

    environment_id: int
    circuit_id: int | None
    worker_id: int | None
    kind: str


@dataclass(frozen=True, slots=True)
class Found:
    """Something that is the matter now, and since when."""

    key: Key
    since: datetime


@transaction.atomic
def dispatch_due_causes(*, now: datetime) -> int:
    """Tell what began and what is over; how many deliveries. For the leading scheduler, which thereby is not silent."""
    if not _alone():
        return 0
    return _settle(_found(now), now, over_after={Kind.SCHEDULER_SILENT.value: timedelta(0)})


@transaction.atomic
def tell_of_silence(*, since: datetime, now: datetime) -> None:
    """The scheduler was last known to live at `since`: each environment's people are told once."""
    if _alone():
        rows = Environment.objects.order_by("pk").values_list("pk", flat=True)
        _begin([Found(Key(pk, None, None, Kind.SCHEDULER_SILENT.value), since) for pk in rows], now)


@transaction.atomic
def tell_anew(*, circuit: Circuit, kind: AlertCause.Kind, now: datetime) -> int:
    """The same that people were told of, and more urgent: what runs ends, another begins; how many deliveries."""
    running = AlertCause.objects.filter(circuit=circuit, kind=kind.value, ended_at=None)
    ended = sum(_end(row, now, alert_body.TOLD_ANEW) for row in running.select_related("environment"))
    return ended + _tell_of(Found(Key(circuit.environment_id, circuit.pk, None, kind.value), now), now)


def prune_causes(*, now: datetime) -> int:
    """Forget what has been over for long."""
    return AlertCause.objects.filter(ended_at__lt=now - KEEP_CAUSES).delete()[0]


def _alone() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOOKER])
        return bool(cursor.fetchone()[0])


def _found(now: datetime) -> list[Found]:
    closed = Circuit.objects.filter(state=State.CLOSED.value)
    faults = closed.filter(fault_worker__isnull=False, fault_seen_at__gt=now - FAULT_FRESH)
    short = closed.filter(quorum_short_at__lte=now - QUORUM_PATIENCE)
    return [
        *(_of(row, Kind.WORKER_FAULT, row.fault_seen_at or now, row.fault_worker_id) for row in faults),
        *(_of(row, Kind.QUORUM_SHORT, row.quorum_short_at or now) for row in short),
        *(_of(row, Kind.UNTESTABLE, since) for row, since in _untestable(now)),
        *(
            _of(row, Kind.HEARTBEAT_FAILING, row.dependency.probe.heartbeat_failing_at or now)
            for row in _failing(closed)
        ),
        *(_of(row, Kind.CERTIFICATE, now) for row in _expiring()),
        *(
            Found(Key(environment, None, None, Kind.PROBER_SUSPECT.value), since)
            for environment, since in suspects.since_by_environment().items()
        ),
    ]


def _failing(closed: QuerySet[Circuit]) -> QuerySet[Circuit]:
    """Closed circuits whose heartbeats fail; what was heard before the circuit last changed is of another time."""
    warned = Q(dependency__probe__heartbeat_bad__gte=HEARTBEATS_TO_WARN, dependency__probe__enabled=True)
    since = Q(changed_at=None) | Q(changed_at__lt=F("dependency__probe__heartbeat_at"))
    return closed.filter(warned, since, dependency__probe__heartbeat_s__isnull=False).select_related(
        "dependency__probe"
    )


def _expiring() -> QuerySet[Circuit]:
    """Whose people were told of a certificate that no probe has seen renewed yet; who tells them is `certificates`."""
    told = AlertCause.objects.filter(circuit=OuterRef("pk"), kind=Kind.CERTIFICATE.value, ended_at=None)
    met = Q(dependency__probe__certificate_warned__isnull=False, dependency__probe__enabled=True)
    return Circuit.objects.filter(met, Exists(told))


def _of(row: Circuit, kind: AlertCause.Kind, since: datetime, worker_id: int | None = None) -> Found:
    return Found(Key(row.environment_id, row.pk, worker_id, kind.value), since)


def _untestable(now: datetime) -> list[tuple[Circuit, datetime]]:
    """Circuits out of service of which nothing has been learnt for too long, whether or not they have a probe."""
    out = list(Circuit.objects.exclude(state=State.CLOSED.value).filter(mode=Mode.AUTO.value, opened_at__isnull=False))
    known, learnt = policies.circuit_policies(out), _learnt([row.pk for row in out])
    found = []
    for row in out:
        since = max(at for at in (row.opened_at, learnt.get(row.pk)) if at is not None)
        if now - since >= timedelta(seconds=known[row.dependency_id].untestable_alert_s):
            found.append((row, since))
    return found


def _learnt(circuits: Sequence[int]) -> dict[int, datetime]:
    """By circuit, when a round last gave a verdict that says something."""
    told = ProbeRound.objects.filter(circuit__in=circuits, verdict__in=[Verdict.GOOD.value, Verdict.BAD.value])
    return dict(told.order_by().values_list("circuit").annotate(Max("finished_at")))


def _settle(found: list[Found], now: datetime, *, over_after: dict[str, timedelta]) -> int:
    seen = {each.key for each in found}
    running = list(AlertCause.objects.filter(ended_at=None).select_related("environment"))
    still = [row for row in running if _key(row) in seen]
    AlertCause.objects.filter(pk__in=[row.pk for row in still]).update(seen_at=now)
    over = [
        row for row in running if _key(row) not in seen and now - row.seen_at >= over_after.get(row.kind, OVER_AFTER)
    ]
    return _begin(found, now) + sum(_end(row, now) for row in over)


def _key(row: AlertCause) -> Key:
    return Key(row.environment_id, row.circuit_id, row.worker_id, row.kind)


def _begin(found: Iterable[Found], now: datetime) -> int:
    """Tell of those that are new."""
    running = {_key(row) for row in AlertCause.objects.filter(ended_at=None)}
    alike: dict[tuple[int, str], list[Found]] = {}
    for each in found:
        if each.key not in running:
            alike.setdefault((each.key.environment_id, each.key.kind), []).append(each)
    return sum(_tell_of_many(group, now) for group in alike.values())


def _tell_of_many(alike: Sequence[Found], now: datetime) -> int:
    """One by one while they are few; what is more than that is on record, and one message says how much it is."""
    key = alike[0].key
    lately = AlertCause.objects.filter(environment=key.environment_id, kind=key.kind, told_at__gt=now - WITHIN).count()
    room = max(0, SINGLY - lately)
    told = sum(_tell_of(each, now) for each in alike[:room])
    rest = [_record(each, now) for each in alike[room:]]
    if rest and lately <= SINGLY:
        told += _deliver(rest[0], rest[0].kind, now, more=len(rest) - 1)
    return told


def _tell_of(found: Found, now: datetime) -> int:
    row = _record(found, now)
    return _deliver(row, row.kind, now)


def _record(found: Found, now: datetime) -> AlertCause:
    return AlertCause.objects.create(**found.key._asdict(), began_at=found.since, seen_at=now, told_at=now)


def _end(row: AlertCause, now: datetime, words: str = alert_body.OVER) -> int:
    row.ended_at = now
    row.save(update_fields=["ended_at"])
    return _deliver(row, alert_body.RESOLVED, now, words)


def _deliver(row: AlertCause, event: str, now: datetime, over: str = alert_body.OVER, more: int = 0) -> int:
    """To each channel of its environment; that a cause is over only to those that were told of it."""
    incident = alert_body.incident_of_cause(row)
    channels = AlertChannel.objects.filter(environment=row.environment_id, enabled=True)
    if event == alert_body.RESOLVED:
        channels = channels.filter(deliveries__incident=incident).distinct()
    chosen = AlertChannel.objects.filter(pk__in=[each.pk for each in channels])
    held = list(chosen.select_for_update(no_key=True).order_by("pk"))  # none is removed meanwhile
    if not held:
        return 0
    body = alert_body.compose_cause(event=event, cause=row, now=now, over=over, more=more)
    made = [
        AlertDelivery(channel=channel, event=event, incident=incident, body=body, due_at=now, created_at=now)
        for channel in held
    ]
    AlertDelivery.objects.bulk_create(made, ignore_conflicts=True)
    return len(made)
