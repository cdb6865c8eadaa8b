"""Alerts for people: the channels, and what became of each message."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from controlplane.models import AlertCause, AlertChannel, AlertDelivery, Environment
from controlplane.selectors import matters
from controlplane.selectors.access import channels
from controlplane.selectors.keyset import Columns, Key, Order, beyond, instant, next_key

PAGE = 50

COLUMNS: Columns = {"created_at": instant, "event": str, "status": str, "attempts": int}
NEWEST = Order("created_at")


@dataclass(frozen=True, slots=True)
class Messages:
    """One page of messages, and the key of the next."""

    deliveries: list[AlertDelivery]
    after: Key | None


@dataclass(frozen=True, slots=True)
class Alerts(Messages):
    """The page: what is the matter now, every channel, one page of messages, and how many were given up."""

    running: list[AlertCause]
    channels: list[AlertChannel]
    dead: int


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages; empty means any."""

    status: str = ""
    channel: int | None = None


def messages(
    environment: Environment, wanted: Filter, *, by: Order = NEWEST, after: Key | None = None, limit: int = PAGE
) -> Messages:
    """Messages in this order, from a key on."""
    rows = _every(environment)
    if wanted.status:
        rows = rows.filter(status=wanted.status)
    if wanted.channel is not None:
        rows = rows.filter(channel=wanted.channel)
    found = list(beyond(rows, by, after).select_related("channel")[: limit + 1])
    return Messages(found[:limit], next_key(found, limit, by))


def alerts(
    environment: Environment, wanted: Filter, *, by: Order = NEWEST, after: Key | None = None, limit: int = PAGE
) -> Alerts:
    """The whole page."""
    page = messages(environment, wanted, by=by, after=after, limit=limit)
    return Alerts(
        page.deliveries,
        page.after,
        running=matters.running(environment),
        channels=list(channels(environment)),
        dead=_every(environment).filter(status="dead").count(),
    )


def _every(environment: Environment) -> QuerySet[AlertDelivery]:
    return AlertDelivery.objects.filter(channel__environment=environment)
