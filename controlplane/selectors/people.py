"""People for people: who may sign in, and what was done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from controlplane.models import AuditEntry, Environment, User

PAGE = 60


def people() -> list[User]:
    """Everyone who may sign in, and those who no longer may, after them."""
    return list(User.objects.order_by("-is_active", "username"))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries of the audit; empty means any."""

    actor: str = ""
    action: str = ""
    target: str = ""
    accepted: str = ""
    everywhere: bool = False
    """Also what belongs to no environment, such as people and networks."""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def narrowed(self) -> bool:
        """Whether anything is chosen."""
        return self != Filter(everywhere=self.everywhere)


@dataclass(frozen=True, slots=True)
class AuditList:
    """One page of entries, and the id that the next begins beyond."""

    entries: list[AuditEntry]
    below: int | None

    @property
    def after(self) -> int | None:
        """As every list calls it."""
        return self.below


def audit(
    environment: Environment, wanted: Filter, *, oldest: bool = False, below: int | None = None, limit: int = PAGE
) -> AuditList:
    """The entries that match, newest first; or the oldest first, and then `below` is what they begin above."""
    rows = _matching(environment, wanted)
    if below is not None:
        rows = rows.filter(id__gt=below) if oldest else rows.filter(id__lt=below)
    found = list(rows.order_by("id" if oldest else "-id")[: limit + 1])
    return AuditList(found[:limit], found[limit - 1].id if len(found) > limit else None)


def _matching(environment: Environment, wanted: Filter) -> QuerySet[AuditEntry]:
    here = Q(environment_id=environment.pk) | (Q(environment_id=None) if wanted.everywhere else Q(pk__in=[]))
    rows = AuditEntry.objects.filter(here)
    values = {
        "actor": wanted.actor,
        "action": wanted.action,
        "target__icontains": wanted.target,
        "at__gte": wanted.since,
        "at__lt": wanted.until,
    }
    rows = rows.filter(**{name: value for name, value in values.items() if value})
    return rows.filter(accepted=wanted.accepted == "yes") if wanted.accepted else rows
