"""Lists by any of their columns, page by page from a key: the cost does not grow with the page number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet

Row = TypeVar("Row", bound=Model)

Columns = Mapping[str, Callable[[str], Any]]
"""By name of the column, what reads its value from an address; none of them is ever empty."""


def instant(text: str) -> datetime:
    """A moment with its zone."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(text)
    return found


def number(text: str) -> int:
    """An id that is counted."""
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError(text)
    return int(text)


@dataclass(frozen=True, slots=True)
class Order:
    """By which column, and from which end; the id breaks ties."""

    column: str
    falling: bool = True

    @property
    def word(self) -> str:
        """As an address has it: `-at`, `steps`."""
        return f"-{self.column}" if self.falling else self.column


@dataclass(frozen=True, slots=True)
class Key:
    """A place in the list: the value of its column, and the id."""

    value: Any
    id: UUID | int


def order(word: str, columns: Columns, *, falling: bool = True) -> Order:
    """What the word says; the first column, from its usual end, where it says nothing that there is."""
    column = word.removeprefix("-")
    return Order(column, word.startswith("-")) if column in columns else Order(next(iter(columns)), falling)


def key(value: str, pk: str, by: Order, columns: Columns, *, of_id: Callable[[str], UUID | int] = UUID) -> Key | None:
    """The place that an address names; one that was cut short starts at the beginning."""
    try:
        return Key(columns[by.column](value), of_id(pk))
    except (ValueError, OverflowError):
        return None


def beyond(rows: QuerySet[Row], by: Order, after: Key | None) -> QuerySet[Row]:
    """The rows in this order, from the key on."""
    sign, way = ("-", "lt") if by.falling else ("", "gt")
    if after is not None:
        further = Q(**{f"{by.column}__{way}": after.value}) | Q(**{by.column: after.value, f"id__{way}": after.id})
        rows = rows.filter(further, **{f"{by.column}__{way}e": after.value})
    return rows.order_by(f"{sign}{by.column}", f"{sign}id")


def next_key(found: list[Any], limit: int, by: Order) -> Key | None:
    """Where the next page begins, of `limit` + 1 rows that were asked for."""
    return Key(getattr(found[limit - 1], by.column), found[limit - 1].pk) if len(found) > limit else None


Found = TypeVar("Found", bound="Page", covariant=True)


class Page(Protocol):
    """One page of a list."""

    @property
    def after(self) -> Any:
        """Where the next begins; None: this was the last."""


@dataclass(frozen=True, slots=True)
class Walk(Generic[Found]):
    """All pages of a list, one after the other, each read when it is asked for."""

    read: Callable[[Any], Found]

    def __iter__(self) -> Iterator[Found]:
        """From the first to the last."""
        after = None
        while True:
            page = self.read(after)
            yield page
            if (after := page.after) is None:
                return
