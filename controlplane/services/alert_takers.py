"""Who is on an alert that is no outage: said once by a person, taken back by a person, over when the alert is."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import transaction

from controlplane.delivery import publish, versions
from controlplane.models import AlertCause, Environment
from controlplane.services import audit
from controlplane.services.errors import Refused

MOST = 200


@transaction.atomic
def acknowledge(
    *, environment: Environment, causes: Collection[int], actor: str, now: datetime, reason: str = ""
) -> int:
    """Say that somebody is on these; how many nobody was on. The first name stays, so twice is once."""
    rows = _running(environment, causes)
    free = [row for row in rows if row.acknowledged_at is None]
    for row in free:
        row.acknowledged_at, row.acknowledged_by = now, actor
    return _written(environment, free, "acknowledge_alert", actor, reason)


@transaction.atomic
def hand_back(*, environment: Environment, causes: Collection[int], actor: str, now: datetime, reason: str = "") -> int:
    """Nobody is on these any more; how many somebody was on."""
    taken = [row for row in _running(environment, causes) if row.acknowledged_at is not None]
    for row in taken:
        row.acknowledged_at, row.acknowledged_by = None, ""
    return _written(environment, taken, "hand_back_alert", actor, reason)


def _running(environment: Environment, causes: Collection[int]) -> list[AlertCause]:
    """Those of this environment that are not over; refused where none is."""
    wanted = AlertCause.objects.filter(environment=environment, pk__in=list(causes)[:MOST], ended_at=None)
    rows = list(
        wanted.select_for_update(no_key=True, of=("self",)).select_related("circuit__dependency").order_by("pk")
    )
    if not rows:
        raise Refused("not_open", "no such alert is running", "it is over: there is nothing to do")
    return rows


def _written(environment: Environment, rows: list[AlertCause], action: str, actor: str, reason: str) -> int:
    """Rows, their entries on record, and the version that lets every open page know, as the last lock."""
    if not rows:
        return 0
    AlertCause.objects.bulk_update(rows, ["acknowledged_at", "acknowledged_by"])
    for row in rows:
        audit.record(
            actor=actor, action=action, target=_target(row), accepted=True, environment_id=environment.pk,
            reason=reason, detail={"cause": row.pk, "kind": row.kind},
        )  # fmt: skip
    versions.bump_circuits(environment.pk)
    publish.circuits_changed(environment.pk)
    return len(rows)


def _target(row: AlertCause) -> str:
    return f"{row.kind} {row.circuit.dependency.slug}" if row.circuit else row.kind
