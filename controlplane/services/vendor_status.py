"""Vendors' status pages: which is read for a dependency, when, and what it said. No circuit is moved by any of it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import Q
from recloser.core.types import State

from controlplane.models import Dependency, VendorStatus
from controlplane.services import audit, egress
from controlplane.services.errors import Refused

WHILE_OUT, WHILE_CLOSED = timedelta(seconds=60), timedelta(minutes=15)
"""How often a page is read, give or take a tenth."""
LEASE = timedelta(seconds=60)
"""Who claimed a page and died is followed by the next after this."""
LONGEST_ADDRESS, LONGEST_COMPONENT = 500, 200

FIELD = "status_address"


@dataclass(frozen=True, slots=True)
class Page:
    """One page to read, with what the vendor gave us to ask whether it has changed."""

    id: int
    address: str
    component: str
    etag: str
    last_modified: str


@dataclass(frozen=True, slots=True)
class Read:
    """What came of it: `problem` in our words, or what the page said; None for both: it has not changed."""

    problem: str = ""
    told: Mapping[str, object] | None = None
    """Of VendorStatus: level, said, said_at, link, etag, last_modified."""


@audit.refusals("set_vendor_status")
@transaction.atomic
def set_status(*, dependency: Dependency, address: str, actor: str, now: datetime, component: str = "") -> VendorStatus:
    """Have this page read beside the dependency's circuit; another page than before begins unread."""
    wanted = {"address": _demand_address(address), "component": _demand_component(component)}
    row = VendorStatus.objects.filter(dependency=dependency).first()
    if row is not None and all(getattr(row, name) == value for name, value in wanted.items()):
        return row
    VendorStatus.objects.filter(dependency=dependency).delete()
    row = VendorStatus.objects.create(dependency=dependency, due_at=now, updated_at=now, updated_by=actor, **wanted)
    shown = f"{urlsplit(row.address).hostname}"
    _audit(actor, "set_vendor_status", dependency, {"host": shown, "component": row.component})
    return row


@transaction.atomic
def remove_status(*, dependency: Dependency, actor: str) -> None:
    """Read nothing any more, and forget what was read."""
    if VendorStatus.objects.filter(dependency=dependency).delete()[0]:
        _audit(actor, "remove_vendor_status", dependency, {})


@transaction.atomic
def claim_due(*, now: datetime, limit: int = 50) -> list[int]:
    """Pages to read now; two claimers never get the same one. A circuit that opens does not wait for the slow pace."""
    out = ~Q(dependency__circuit__state=State.CLOSED.value) & Q(tried_at__lte=now - WHILE_OUT * 1.1)
    due = VendorStatus.objects.filter(Q(due_at__lte=now) | out).order_by("due_at", "pk")
    claimed = list(due.select_for_update(skip_locked=True, no_key=True, of=("self",))[:limit])
    ids = [row.pk for row in claimed]
    VendorStatus.objects.filter(pk__in=ids).update(due_at=now + LEASE, tried_at=now)
    return ids


def pages(ids: list[int]) -> list[Page]:
    """What is to be asked of these; one that was removed meanwhile is left out."""
    rows = VendorStatus.objects.filter(pk__in=ids)
    return [Page(row.pk, row.address, row.component, row.etag, row.last_modified) for row in rows]


@transaction.atomic
def record(*, page: Page, read: Read, now: datetime) -> bool:
    """Keep what a page said, or since when it says nothing; False where another page is read by now."""
    row = VendorStatus.objects.select_for_update(no_key=True, of=("self",)).filter(pk=page.id).first()
    if row is None:
        return False
    row.due_at = now + _pace(row) * random.uniform(0.9, 1.1)  # noqa: S311
    row.problem = read.problem[:200]
    if read.problem:
        row.failing_since = row.failing_since or now
    else:
        row.read_at, row.failing_since = now, None
    for name, value in (read.told or {}).items():
        setattr(row, name, value)
    row.save()
    return True


def _pace(row: VendorStatus) -> timedelta:
    closed = Dependency.objects.filter(pk=row.dependency_id, circuit__state=State.CLOSED.value).exists()
    return WHILE_CLOSED if closed else WHILE_OUT


def _demand_address(address: str) -> str:
    text = address.strip()
    try:
        parts = urlsplit(text)
        plain = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username and parts.port != 0
    except ValueError:
        plain = False
    if not plain or not text.isprintable() or " " in text:
        mend = "write it as https://status.example.com/api/v2/summary.json, or a feed's address"
        raise Refused("bad_field", "this is no plain web address", mend, FIELD)
    if len(text) > LONGEST_ADDRESS:
        raise Refused("bad_field", "the address is too long", f"use up to {LONGEST_ADDRESS} characters", FIELD)
    egress.demand_reachable(text, field=FIELD)
    return text


def _demand_component(component: str) -> str:
    text = component.strip()
    if len(text) > LONGEST_COMPONENT or not (text.isprintable() or not text):
        mend = f"use the page's own name of it, up to {LONGEST_COMPONENT} printable characters"
        raise Refused("bad_field", "this is no component's name", mend, "status_component")
    return text


def _audit(actor: str, action: str, dependency: Dependency, detail: dict[str, str]) -> None:
    audit.record(
        actor=actor,
        action=action,
        target=dependency.slug,
        accepted=True,
        environment_id=dependency.environment_id,
        detail=detail,
    )
