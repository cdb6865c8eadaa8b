"""Alerts for people: the channels, and what became of each message."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from controlplane.models import AlertChannel, AlertDelivery, Environment
from controlplane.selectors.access import channels

PAGE = 50


@dataclass(frozen=True, slots=True)
class Key:
    """A place in the list: newest first, the id breaks ties."""

    created_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True)
class Alerts:
    """The page: every channel, one page of messages, how many were given up, and the key of the next page."""

    channels: list[AlertChannel]
    deliveries: list[AlertDelivery]
    dead: int
    after: Key | None


def alerts(
    environment: Environment, *, status: str = "", channel: int | None = None, after: Key | None = None,
    limit: int = PAGE,
) -> Alerts:  # fmt: skip
    """Messages of one status or all, newest first, from a key on."""
    every = AlertDelivery.objects.filter(channel__environment=environment)
    rows = every.filter(status=status) if status else every
    if channel is not None:
        rows = rows.filter(channel=channel)
    if after is not None:
        rows = rows.filter(Q(created_at__lt=after.created_at) | Q(created_at=after.created_at, id__lt=after.id))
    found = list(rows.select_related("channel").order_by("-created_at", "-id")[: limit + 1])
    shown = found[:limit]
    return Alerts(
        channels=list(channels(environment)),
        deliveries=shown,
        dead=every.filter(status="dead").count(),
        after=Key(shown[-1].created_at, shown[-1].pk) if len(found) > limit else None,
    )
