"""A list's address: its filters and its place in the list, so that it can be pasted into a chat."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest

LONGEST = 200


def query(values: Mapping[str, object], **changes: object) -> str:
    """`?name=value` of all that is set."""
    return "?" + urlencode({name: value for name, value in {**values, **changes}.items() if value})


def text(request: HttpRequest, name: str) -> str:
    """A filter as it was given, cut to what a name may be."""
    return request.GET.get(name, "").replace("\x00", "")[:LONGEST]


def choice(request: HttpRequest, name: str, among: Mapping[str, object] | tuple[str, ...], default: str = "") -> str:
    """A filter that is one of a few words; anything else is none."""
    value = request.GET.get(name, default)
    return value if value in among else default


def key(request: HttpRequest) -> tuple[datetime, UUID] | None:
    """The place in a list by time and id; an address that was cut short starts at the newest."""
    try:
        at, pk = datetime.fromisoformat(request.GET["before"]), UUID(request.GET["id"])
    except (KeyError, ValueError):
        return None
    return (at, pk) if at.tzinfo else None


def place(at: datetime, pk: object) -> dict[str, str]:
    """The same, for an address."""
    return {"before": at.isoformat(), "id": str(pk)}
