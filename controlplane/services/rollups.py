"""Observations added up by minute, hour and day: each row once, whenever it becomes visible, whatever dies.

An id is given before its row is committed, so a watermark of ids would skip rows. Ours is one of transactions: a
statement's snapshot knows the oldest transaction that still runs, and whatever older ones stored is there to be added.
"""

from __future__ import annotations

import time
from datetime import datetime

import structlog
from django.db import connection, transaction

from controlplane.evidence.outcomes import JUDGED
from controlplane.models import RollupMark
from controlplane.models.rollup import BUCKETS, COUNTS

BATCH = 20_000
"""Rows of one transaction, a little more where one agent's batch ends beyond."""
BUDGET_S = 20.0

KEY = ("environment_id", "dependency_id", "tool_id", "agent_id", "at")
log = structlog.get_logger(__name__)

_OF_ROWS = {
    "observations": "count(*)",
    "counted": f"coalesce(sum({JUDGED}) FILTER (WHERE counted), 0)",
    "not_counted": f"coalesce(sum({JUDGED}) FILTER (WHERE NOT counted), 0)",
}


def _added(of_rows: bool) -> str:
    """The sums of a group: of observations, or of sums that were made before."""
    counts = [
        f"{_OF_ROWS.get(name, f'sum({name})') if of_rows else f'sum({name})'}::bigint AS {name}" for name in COUNTS
    ]
    hist = ", ".join(f"coalesce(sum(latency_hist[{place}]), 0)::bigint" for place in range(1, BUCKETS + 1))
    times = "sum(latency_sum_ms) AS latency_sum_ms, max(latency_max_ms) AS latency_max_ms"
    return f"{', '.join(counts)}, {times}, ARRAY[{hist}] AS latency_hist"


def _level(unit: str, source: str, *, of_rows: bool = False) -> str:
    key = "environment_id, dependency_id, tool_id, agent_id"
    return (
        f"SELECT {key}, date_trunc('{unit}', at, 'UTC') AS at, {_added(of_rows)} FROM {source} GROUP BY 1, 2, 3, 4, 5"  # noqa: S608
    )


def _into(table: str, source: str) -> str:
    names = (*KEY, *COUNTS, "latency_sum_ms", "latency_max_ms", "latency_hist")
    sums = [f"{name} = old.{name} + EXCLUDED.{name}" for name in (*COUNTS, "latency_sum_ms")]
    hist = ", ".join(f"old.latency_hist[{n}] + EXCLUDED.latency_hist[{n}]" for n in range(1, BUCKETS + 1))
    return (
        f"INSERT INTO {table} AS old ({', '.join(names)}) SELECT {', '.join(names)} FROM {source} "  # noqa: S608
        f"ON CONFLICT (dependency_id, at, tool_id, agent_id, environment_id) DO UPDATE SET {', '.join(sums)}, "
        f"latency_max_ms = greatest(old.latency_max_ms, EXCLUDED.latency_max_ms), latency_hist = ARRAY[{hist}]"
    )


_ADD = f"""
WITH raw AS (SELECT * FROM observation WHERE stored_by >= %(since)s AND stored_by < %(until)s),
minute AS ({_level("minute", "raw", of_rows=True)}),
hour AS ({_level("hour", "minute")}),
day AS ({_level("day", "hour")}),
minutes AS ({_into("rollup_minute", "minute")}),
hours AS ({_into("rollup_hour", "hour")}),
days AS ({_into("rollup_day", "day")})
SELECT count(*), coalesce(max(id), 0) FROM raw
"""  # noqa: S608

_MOMENT = """
SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint, clock_timestamp()
FROM pg_current_snapshot() AS s
"""
_NEXT = """
SELECT stored_by FROM observation WHERE stored_by >= %s AND stored_by < %s ORDER BY stored_by OFFSET %s LIMIT 1
"""
_ADOPT = """
UPDATE observation
SET stored_by = CASE WHEN id <= %s AND stored_by < %s THEN 0 ELSE pg_current_xact_id()::text::bigint END
"""


def roll_up(*, limit: int = BATCH, budget_s: float = BUDGET_S) -> int:
    """Add what has become visible since the last time, in transactions of about `limit` rows; how many rows.

    Any number may call it at once: one adds, the others find nothing to do.
    """
    total, more, ends = 0, True, time.monotonic() + budget_s
    while more and time.monotonic() < ends:
        added, more = _roll_batch(limit)
        total += added
    return total


@transaction.atomic
def _roll_batch(limit: int) -> tuple[int, bool]:
    """One transaction: sums and mark are committed together or not at all. Rows added, and whether some are left."""
    held = _locked_mark()
    if held is None:
        return 0, False
    oldest, following, now = _moment()
    if held.stored_by > following:
        _adopt(held, oldest)
        return 0, True
    until = _until(held.stored_by, oldest, limit)
    added, last_id = _add(held.stored_by, until)
    _move(held, until, last_id, now if until == oldest else held.rolled_at)
    return added, until < oldest


def _move(held: RollupMark, until: int, last_id: int, rolled_at: datetime | None) -> None:
    held.stored_by, held.last_id, held.rolled_at = until, max(held.last_id, last_id), rolled_at
    held.save(update_fields=["stored_by", "last_id", "rolled_at"])


def _locked_mark() -> RollupMark | None:
    """The one mark, locked; None while somebody else holds it."""
    RollupMark.objects.bulk_create([RollupMark(pk=1)], ignore_conflicts=True)
    return RollupMark.objects.select_for_update(skip_locked=True).filter(pk=1).first()


def _moment() -> tuple[int, int, datetime]:
    """The oldest transaction that still runs, the next that will begin, and the time."""
    with connection.cursor() as cursor:
        cursor.execute(_MOMENT)
        oldest, following, now = cursor.fetchone()
    return oldest, following, now


def _until(since: int, oldest: int, limit: int) -> int:
    """Where this transaction's part ends; never between rows of one transaction, which carry one number."""
    with connection.cursor() as cursor:
        cursor.execute(_NEXT, [since, oldest, limit])
        row = cursor.fetchone()
    return oldest if row is None else max(row[0], since + 1)


def _add(since: int, until: int) -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(_ADD, {"since": since, "until": until})
        rows, last_id = cursor.fetchone()
    return rows, last_id


def _adopt(held: RollupMark, oldest: int) -> None:
    """This is another server than the one that gave the mark's number (a restore): number the rows anew.

    What was added is told by its id, which goes on counting, and by the old number.
    """
    log.warning("rollups go on upon another server", rows_up_to=held.last_id)
    with connection.cursor() as cursor:
        cursor.execute(_ADOPT, [held.last_id, held.stored_by])
    _move(held, oldest, held.last_id, held.rolled_at)


def mark() -> int:
    """Rows stored by transactions before this one are in the sums, and no others."""
    return RollupMark.objects.filter(pk=1).values_list("stored_by", flat=True).first() or 0


def is_rolled_up(partition: str) -> bool:
    """Whether every row of an observation partition is in the sums; the caller keeps others from adding to it."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT NOT EXISTS (SELECT FROM {partition} WHERE stored_by >= %s)", [mark()])  # noqa: S608
        return bool(cursor.fetchone()[0])
