"""Lists by any of their columns, page by page from a key: the cost does not grow with the page number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from django.db.models import BooleanField, F, Func, Model, QuerySet, Value
from django.db.models.lookups import GreaterThan, LessThan

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
    """By which column, and from which end; among equals by time, and the id breaks what ties are left."""

    column: str
    falling: bool = True
    then: str = ""
    """The column of time; empty where that is the column itself."""

    @property
    def word(self) -> str:
        """As an address has it: `-at`, `steps`."""
        return f"-{self.column}" if self.falling else self.column

    @property
    def names(self) -> tuple[str, ...]:
        """Every column of the order."""
        return (self.column, self.then, "pk") if self.then else (self.column, "pk")


@dataclass(frozen=True, slots=True)
class Key:
    """A place in the list: the values of its columns, the id last."""

    values: tuple[Any, ...]


def order(word: str, columns: Columns, *, falling: bool = True) -> Order:
    """What the word says; the first column, from its usual end, where it says nothing that there is."""
    column, first = word.removeprefix("-"), next(iter(columns))
    if column not in columns:
        return Order(first, falling)
    in_time = columns[first] is instant and column != first
    return Order(column, word.startswith("-"), first if in_time else "")


def key(
    given: Mapping[str, str], by: Order, columns: Columns, *, of_id: Callable[[str], UUID | int] = UUID
) -> Key | None:
    """The place that an address names; one that was cut short starts at the beginning."""
    readers = {**columns, "pk": of_id}
    try:
        said = zip(by.names, words(len(by.names)), strict=True)
        return Key(tuple(readers[name](given.get(word, "")) for name, word in said))
    except (ValueError, OverflowError):
        return None


def words(length: int) -> tuple[str, ...]:
    """How an address calls the values of a key."""
    return ("before", "at", "id") if length == 3 else ("before", "id")


class _Row(Func):
    """`(a, b, c)`: compared whole, so that an index in this order leads straight to the place."""

    function = ""
    output_field = BooleanField()


def beyond(rows: QuerySet[Row], by: Order, after: Key | None) -> QuerySet[Row]:
    """The rows in this order, from the key on."""
    if after is not None:
        compared = LessThan if by.falling else GreaterThan
        rows = rows.filter(compared(_Row(*map(F, by.names)), _Row(*map(Value, after.values))))
    return rows.order_by(*(f"-{name}" if by.falling else name for name in by.names))


def next_key(found: list[Any], limit: int, by: Order) -> Key | None:
    """Where the next page begins, of `limit` + 1 rows that were asked for."""
    return Key(tuple(getattr(found[limit - 1], name) for name in by.names)) if len(found) > limit else None


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
