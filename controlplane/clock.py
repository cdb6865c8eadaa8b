"""The one clock. Every deadline is database time, so processes on machines with skewed clocks agree."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

STATEMENT_TIME = "coalesce(%(now)s::timestamptz, clock_timestamp())"
"""How a statement reads the clock by itself: database time, unless `substitute()` is given to it as `now`."""

_frozen: datetime | None = None


def now() -> datetime:
    """The database's time, in UTC; moves on inside a transaction."""
    if _frozen is not None:
        return _frozen
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        value: datetime = cursor.fetchone()[0]
    return value.astimezone(UTC)


def substitute() -> datetime | None:
    """What stands in for database time: None, save in tests and rehearsals."""
    return _frozen


def reckoned(read_at: datetime, tick: float) -> float:
    """POSIX seconds now, reckoned on from a time read when the process's monotonic clock stood at `tick`."""
    return seconds(_frozen) if _frozen is not None else seconds(read_at) + time.monotonic() - tick


def refusal() -> str | None:
    """Why the clock of this process may not be moved by hand, though RECLOSER_TEST_CLOCK asks for that."""
    name = str(connection.settings_dict["NAME"])
    return None if name.startswith("test") or not settings.TEST_CLOCK else f"{name} is not called a test database"


def hold(at: datetime | None) -> None:
    """For rehearsals only: time stands still at `at`, in this process, until it is held elsewhere; None lets it go."""
    global _frozen
    if not settings.TEST_CLOCK or refusal() is not None:
        raise ImproperlyConfigured("this clock is not moved by hand: RECLOSER_TEST_CLOCK is not set, or refused")
    _frozen = at


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
