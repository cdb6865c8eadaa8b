"""The one clock. Every deadline is database time, so processes on machines with skewed clocks agree."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from django.db import connection

_frozen: datetime | None = None


def now() -> datetime:
    """The database's time, in UTC; moves on inside a transaction."""
    if _frozen is not None:
        return _frozen
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (value,) = cursor.fetchone()
    return value.astimezone(UTC)


def as_read(database_time: datetime) -> datetime:
    """Pass on a time that a statement already brought from the database; a frozen clock still wins."""
    return _frozen or database_time


def seconds(at: datetime) -> float:
    """An instant as the decision core wants it: POSIX seconds."""
    return at.timestamp()


def instant(at_s: float | None) -> datetime | None:
    """The inverse of `seconds`; None stays None."""
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC)


@contextmanager
def frozen(at: datetime) -> Iterator["Frozen"]:
    """For tests only: time stands still at `at` until it is moved by hand."""
    global _frozen
    before, _frozen = _frozen, at
    try:
        yield Frozen()
    finally:
        _frozen = before


class Frozen:
    """The hand on the stopped clock."""

    def advance(self, seconds: float) -> datetime:
        """Move the clock and return the new time."""
        global _frozen
        assert _frozen is not None
        _frozen += timedelta(seconds=seconds)
        return _frozen
