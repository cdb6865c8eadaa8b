"""What people say of a trip afterwards: that it was right, or that nothing was wrong with the dependency."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from controlplane.models import Trip
from controlplane.services import audit
from controlplane.services.errors import Refused


@audit.refusals("mark_false_trip")
@transaction.atomic
def mark_false_trip(*, trip: Trip, actor: str, reason: str, now: datetime) -> bool:
    """Say that it should not have tripped; False if somebody has said so before."""
    said = reason.strip()
    if not said or len(said) > 500:
        mend = "say in up to 500 characters what shows that nothing was wrong"
        raise Refused("bad_field", "the reason is missing or too long", mend, "reason")
    marked = Trip.objects.filter(pk=trip.pk, false_trip_at=None).update(false_trip_at=now, false_trip_by=actor)
    if marked:
        _audit(trip, "mark_false_trip", actor, said)
    return bool(marked)


@transaction.atomic
def unmark_false_trip(*, trip: Trip, actor: str, reason: str = "") -> bool:
    """Take that back; False if nobody had said so."""
    marked = Trip.objects.filter(pk=trip.pk, false_trip_at__isnull=False)
    unmarked = marked.update(false_trip_at=None, false_trip_by="")
    if unmarked:
        _audit(trip, "unmark_false_trip", actor, reason.strip()[:500])
    return bool(unmarked)


def _audit(trip: Trip, action: str, actor: str, reason: str) -> None:
    audit.record(
        actor=actor, action=action, target=str(trip.pk), accepted=True, environment_id=trip.environment_id,
        reason=reason, detail={"signal": trip.signal, "scope": trip.scope},
    )  # fmt: skip
