"""Partitions made ahead and dropped when old: observations and minutes by day, hours and audit by month."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from django.conf import settings
from django.db import connection, transaction

from controlplane.models import AuditAnchor
from controlplane.services import rollups

DAYS_AHEAD = 3
MONTHS_AHEAD = 2
BY_DAY, BY_MONTH = ("observation", "rollup_minute"), ("audit_entry", "rollup_hour")
LOCK_MS = 2_000
MAKER = 7_265_636_001
"""The advisory lock that one maker of partitions holds."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Span:
    """One partition: its name, and the stretch of time it holds."""

    parent: str
    name: str
    begins: datetime
    ends: datetime


def make_ahead(*, now: datetime) -> list[str]:
    """Make what is missing of the next days and months; names of those made. Rows wait in DEFAULT meanwhile."""
    days = [span for parent in BY_DAY if _exists(parent) for span in _days(parent, now, DAYS_AHEAD)]
    months = [span for parent in BY_MONTH if _exists(parent) for span in _months(parent, now, MONTHS_AHEAD)]
    return [span.name for span in (*days, *months) if not _exists(span.name) and _make(span)]


def drop_old(*, now: datetime) -> list[str]:
    """Drop what retention has passed; names of what was dropped.

    Of the audit the last hash is kept as an anchor; observations that are not rolled up yet stay.
    """
    dropped = [name for name in _past("observation", now) if _drop_observations(name)]
    dropped += [name for name in _past("audit_entry", now) if _drop_audit(name, now)]
    dropped += [name for parent in ("rollup_minute", "rollup_hour") for name in _past(parent, now) if _drop(name)]
    for parent in ("observation", "rollup_minute", "rollup_hour"):
        _empty_default(parent, now - keep(parent))
    return dropped


def keep(parent: str) -> timedelta:
    """For how long a table's rows are kept."""
    return {
        "observation": timedelta(hours=settings.KEEP_OBSERVATIONS_HOURS),
        "rollup_minute": timedelta(days=settings.KEEP_MINUTES_DAYS),
        "rollup_hour": timedelta(days=settings.KEEP_HOURS_DAYS),
        "audit_entry": timedelta(days=settings.KEEP_AUDIT_DAYS),
    }[parent]


def _past(parent: str, now: datetime) -> list[str]:
    return [name for name, ends in _partitions(parent) if ends <= now - keep(parent)]


def _days(parent: str, now: datetime, ahead: int) -> Iterator[Span]:
    first = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for day in (first + timedelta(days=offset) for offset in range(ahead + 1)):
        yield Span(parent, f"{parent}_{day:%Y%m%d}", day, day + timedelta(days=1))


def _months(parent: str, now: datetime, ahead: int) -> Iterator[Span]:
    month = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    for _ in range(ahead + 1):
        following = _next_month(month)
        yield Span(parent, f"{parent}_{month:%Y%m}", month, following)
        month = following


def _next_month(month: datetime) -> datetime:
    return (month + timedelta(days=32)).replace(day=1)


def _exists(name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        return bool(cursor.fetchone()[0])


@transaction.atomic
def _make(span: Span) -> bool:
    """Attach a new partition; rows of its time that DEFAULT holds move into it, except the audit's: those stay."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [MAKER])
        if _exists(span.name):
            return False
        waiting = _waiting(span)
        if waiting and span.parent == "audit_entry":
            log.warning("partition_skipped", name=span.name, rows_in_default=waiting)
            return False
        cursor.execute(f"CREATE TABLE {span.name} (LIKE {span.parent} INCLUDING ALL)")
        if waiting:
            _move(span)
        bounds = [span.begins.isoformat(), span.ends.isoformat()]
        cursor.execute(
            f"ALTER TABLE {span.parent} ATTACH PARTITION {span.name} FOR VALUES FROM ('{bounds[0]}') TO ('{bounds[1]}')"
        )
    return True


def _column(parent: str) -> str:
    return "received_at" if parent == "observation" else "at"


def _waiting(span: Span) -> int:
    column = _column(span.parent)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT count(*) FROM {span.parent}_default WHERE {column} >= %s AND {column} < %s",  # noqa: S608
            [span.begins, span.ends],
        )
        return int(cursor.fetchone()[0])


def _move(span: Span) -> None:
    """Nobody may add to DEFAULT between the move and the attachment."""
    column, default = _column(span.parent), f"{span.parent}_default"
    with connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {default} IN ACCESS EXCLUSIVE MODE")
        cursor.execute(
            f"WITH moved AS (DELETE FROM {default} WHERE {column} >= %s AND {column} < %s RETURNING *) "  # noqa: S608
            f"INSERT INTO {span.name} SELECT * FROM moved",
            [span.begins, span.ends],
        )


_CHILDREN = """
SELECT c.relname, substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \\(''([^'']+)''\\)')::timestamptz
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass(%s) AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
ORDER BY 2
"""


def _partitions(parent: str) -> list[tuple[str, datetime]]:
    """Name and end of each partition but DEFAULT, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_CHILDREN, [parent])
        return list(cursor.fetchall())


@transaction.atomic
def _drop(name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
    return True


@transaction.atomic
def _drop_observations(name: str) -> bool:
    """Nobody adds to it while it is seen that all of it is rolled up."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
        cursor.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
    if not rollups.is_rolled_up(name):
        log.warning("partition_kept", name=name, reason="not rolled up yet")
        return False
    return _drop(name)


@transaction.atomic
def _drop_audit(name: str, now: datetime) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id, hash FROM {name} ORDER BY id DESC LIMIT 1")  # noqa: S608
        last = cursor.fetchone()
    if last is not None:
        AuditAnchor.objects.create(last_id=last[0], hash=last[1], dropped_at=now, partition=name)
    return _drop(name)


def _empty_default(parent: str, before: datetime) -> None:
    """What no partition was made for goes when its time has come, too."""
    rolled_up = f" AND stored_by < {rollups.mark()}" if parent == "observation" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {parent}_default WHERE {_column(parent)} < %s{rolled_up}", [before])  # noqa: S608
