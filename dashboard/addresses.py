"""A list's address: its filters and its place in the list, so that it can be pasted into a chat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest

from controlplane.selectors import keyset
from controlplane.selectors.keyset import Columns, Key, Order

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


def order(request: HttpRequest, columns: Columns, *, falling: bool = True) -> tuple[Order, dict[str, str]]:
    """In which order a list is wanted, and the same for an address: nothing where it is the usual one."""
    found, usual = (keyset.order(word, columns, falling=falling) for word in (text(request, "order"), ""))
    return found, {"order": "" if found == usual else found.word}


def key(request: HttpRequest, by: Order, columns: Columns, *, of_id: Callable[[str], UUID | int] = UUID) -> Key | None:
    """The place in a list; an address that was cut short starts at its beginning."""
    given = {name: str(value).replace("\x00", "") for name, value in request.GET.items()}
    return keyset.key(given, by, columns, of_id=of_id)


def place(after: Key | None) -> dict[str, str]:
    """The same, for an address."""
    if after is None:
        return {}
    said = (value.isoformat() if isinstance(value, datetime) else str(value) for value in after.values)
    return dict(zip(keyset.words(len(after.values)), said, strict=True))
