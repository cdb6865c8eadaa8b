"""Alerts that are no outage and are not over: which there are, and which of them nobody has taken."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django.db.models import F, Max

from controlplane.models import AlertCause, AlertDelivery, Environment

MATTERS = 200
"""So many alerts that are not over are read; a fleet with more of them has one trouble, not two hundred."""
NAMED = 4
"""So many of one kind are named in one line."""
GIVEN_UP_WITHIN = timedelta(days=1)

Kind = AlertCause.Kind
URGENCY = tuple(
    each.value
    for each in (
        Kind.SCHEDULER_SILENT, Kind.PROBER_SUSPECT, Kind.UNTESTABLE, Kind.HEARTBEAT_FAILING, Kind.WORKER_FAULT,
        Kind.CERTIFICATE, Kind.QUORUM_SHORT,
    )
)  # fmt: skip
"""In this order somebody should look."""


@dataclass(frozen=True, slots=True)
class Matter:
    """Alerts of one kind that nobody has taken: one line of the Board, however many circuits it is about."""

    kind: str
    causes: list[AlertCause]

    @property
    def since(self) -> datetime:
        """Since when the first of them has been the matter."""
        return min(cause.began_at for cause in self.causes)

    @property
    def rest(self) -> int:
        """How many are not named in the line."""
        return len(self.causes) - NAMED

    @property
    def ids(self) -> str:
        """What an acknowledgement names: exactly what was seen."""
        return ",".join(str(cause.pk) for cause in self.causes)


def running(environment: Environment) -> list[AlertCause]:
    """What people were told of that is no outage, and is not over."""
    rows = AlertCause.objects.filter(environment=environment, ended_at=None)
    told = rows.select_related("circuit__dependency", "worker__agent")
    return list(told.order_by(F("acknowledged_at").asc(nulls_first=True), "-began_at", "pk")[:MATTERS])


def untaken(causes: Iterable[AlertCause]) -> list[Matter]:
    """Those that nobody is on, by kind, the most urgent first."""
    free = sorted((one for one in causes if one.acknowledged_at is None), key=lambda one: URGENCY.index(one.kind))
    return [Matter(kind, list(alike)) for kind, alike in groupby(free, key=lambda one: one.kind)]


def last_over(environment: Environment) -> datetime | None:
    """When the last alert of this kind ended."""
    found: datetime | None = AlertCause.objects.filter(environment=environment).aggregate(at=Max("ended_at"))["at"]
    return found


def given_up(environment: Environment, now: datetime) -> int:
    """How many messages were given up within a day: of those perhaps nobody was told."""
    dead = AlertDelivery.objects.filter(status=AlertDelivery.Status.DEAD.value, created_at__gte=now - GIVEN_UP_WITHIN)
    return len(dead.filter(channel__environment=environment).order_by().values_list("pk")[:MATTERS])
