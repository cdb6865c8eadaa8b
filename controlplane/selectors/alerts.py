"""Alerts for people: the channels, and what became of each message."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.models import AlertCause, AlertChannel, AlertDelivery, Environment
from controlplane.selectors import matters
from controlplane.selectors.access import channels
from controlplane.selectors.keyset import Columns, Key, Order, beyond, instant, next_key

PAGE = 50

COLUMNS: Columns = {"created_at": instant}
NEWEST = Order("created_at")


@dataclass(frozen=True, slots=True)
class Alerts:
    """The page: what is the matter now, every channel, one page of messages with the key of the next, and how many
    were given up.
    """

    running: list[AlertCause]
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
    found = list(beyond(rows, NEWEST, after).select_related("channel")[: limit + 1])
    return Alerts(
        running=matters.running(environment),
        channels=list(channels(environment)),
        deliveries=found[:limit],
        dead=every.filter(status="dead").count(),
        after=next_key(found, limit, NEWEST),
    )
