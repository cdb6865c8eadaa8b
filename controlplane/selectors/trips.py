"""Trips for people: every opening and withdrawal, filtered, paged by keys; and one in full."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from controlplane.models import AgentKey, AuditEntry, Dependency, Environment, Run, Tool, Trip, Worker
from controlplane.selectors import lines
from controlplane.selectors.keyset import Columns, Key, Order, beyond, instant, next_key
from controlplane.selectors.lines import TripLine

PAGE = 50
MARKS = ("false", "unmarked")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which trips; empty means any."""

    signal: str = ""
    scope: str = ""
    tool: str = ""
    dependency: str = ""
    agent: str = ""
    side_effect: str = ""
    delivery: str = ""
    mark: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def narrowed(self) -> bool:
        """Whether anything is chosen."""
        return self != Filter()


@dataclass(frozen=True, slots=True)
class TripList:
    """One page of trips, and the key of the next."""

    trips: list[TripLine]
    after: Key | None


COLUMNS: Columns = {"at": instant, "signal": str, "scope": str}
NEWEST = Order("at")


def trips(
    environment: Environment, wanted: Filter, *, by: Order = NEWEST, after: Key | None = None, limit: int = PAGE
) -> TripList:
    """The trips that match, in this order, from a key on."""
    rows = beyond(_matching(environment, wanted), by, after)
    found = lines.of_trips(rows[: limit + 1])
    return TripList(found[:limit], next_key(found, limit, by))


def _matching(environment: Environment, wanted: Filter) -> QuerySet[Trip]:
    """Names are looked up before: of ids the database knows how many trips each has, and picks its index by that."""
    if wanted.since and wanted.until and wanted.since >= wanted.until:
        return Trip.objects.none()
    rows = Trip.objects.filter(environment=environment, **_exactly(wanted))
    if wanted.tool:
        rows = rows.filter(tool__in=_ids(Tool.objects.filter(environment=environment, name=wanted.tool)))
    if wanted.dependency:
        behind = Dependency.objects.filter(environment=environment, slug=wanted.dependency)
        rows = rows.filter(dependency__in=_ids(behind))
    if wanted.agent:
        rows = rows.filter(_of_agent(environment, wanted.agent))
    if wanted.side_effect:
        rows = rows.filter(_of_class(environment, wanted.side_effect))
    if wanted.mark:
        rows = rows.filter(false_trip_at__isnull=wanted.mark == "unmarked")
    return rows


def _ids(rows: QuerySet[Any]) -> list[int]:
    return list(rows.order_by().values_list("pk", flat=True))


def _exactly(wanted: Filter) -> dict[str, Any]:
    """What a column must hold."""
    values = {
        "signal": wanted.signal,
        "scope": wanted.scope,
        "delivery": wanted.delivery,
        "at__gte": wanted.since,
        "at__lt": wanted.until,
    }
    return {name: value for name, value in values.items() if value}


def _of_agent(environment: Environment, slug: str) -> Q:
    """Of one of its workers; where no worker is known, of one of its keys."""
    theirs = {"environment": environment, "agent__slug": slug}
    workers, keys = _ids(Worker.objects.filter(**theirs)), _ids(AgentKey.objects.filter(**theirs))
    return Q(worker__in=workers) | Q(worker=None, key__in=keys)


def _of_class(environment: Environment, side_effect: str) -> Q:
    """Its tool is of this class; where a whole dependency tripped, one of its tools is."""
    tools = Tool.objects.filter(environment=environment, side_effect=side_effect)
    behind = Dependency.objects.filter(tools__in=tools).distinct()
    return Q(tool__in=_ids(tools)) | Q(tool=None, dependency__in=_ids(behind))


@dataclass(frozen=True, slots=True)
class Share:
    """One key's or worker's part of the failures that a trip rests on."""

    name: str
    part: float


@dataclass(frozen=True, slots=True)
class TripPage:
    """One trip with all that it rests on."""

    trip: Trip
    run: Run | None
    by_key: list[Share] = field(default_factory=list)
    by_worker: list[Share] = field(default_factory=list)
    said: list[AuditEntry] = field(default_factory=list)
    """What people said of it, newest first."""


def page(trip_id: UUID) -> TripPage | None:
    """One trip in full."""
    related = ("environment", "dependency", "tool", "worker__agent", "key__agent", "outage")
    trip = Trip.objects.filter(pk=trip_id).select_related(*related).first()
    if trip is None:
        return None
    return TripPage(trip, _run_of(trip), _shares(trip, "keys"), _shares(trip, "workers"), _said(trip))


def _run_of(trip: Trip) -> Run | None:
    rows = Run.objects.filter(environment=trip.environment).select_related("agent")
    return rows.filter(pk=trip.run).first() if trip.run else None


def _shares(trip: Trip, whose: str) -> list[Share]:
    """The parts by key prefix, or by agent and instance; the greatest first."""
    given = trip.shares.get(whose) if isinstance(trip.shares, dict) else None
    parts = given.items() if isinstance(given, dict) else ()
    return sorted((Share(name, float(part)) for name, part in parts), key=lambda share: (-share.part, share.name))


def _said(trip: Trip) -> list[AuditEntry]:
    rows = AuditEntry.objects.filter(environment_id=trip.environment_id, target=str(trip.pk), accepted=True)
    actions = ("mark_false_trip", "unmark_false_trip")
    return list(rows.filter(action__in=actions, at__gte=trip.at).order_by("-id")[:10])
