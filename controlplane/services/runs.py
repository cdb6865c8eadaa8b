"""Runs whose agents have gone, runs added up by the hour, and runs that have been kept for long enough."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from controlplane.models import RollupMark

LOST_AFTER_S = 120.0
"""A session that has been silent for so long has vanished; it is asked to be heard every twenty seconds at most."""

OVERLAP = timedelta(minutes=10)
"""Reports that were in flight at the last look are seen at the next; an hour that is made anew twice is the same."""

STILL_WHOLE = timedelta(days=1)
"""Hours are left alone this long before the first of their runs may be dropped."""

_ABANDON = """
WITH lost AS (
    SELECT r.id FROM controlplane_run r
    LEFT JOIN controlplane_session s ON s.id = r.session
    WHERE r.status = 'running' AND r.reported_at < %(before)s AND (s.id IS NULL OR s.last_seen_at < %(before)s)
    ORDER BY r.id LIMIT %(limit)s
    FOR NO KEY UPDATE OF r SKIP LOCKED
)
UPDATE controlplane_run r
SET status = 'abandoned', end_cause = 'session_lost', ended_at = GREATEST(r.started_at, r.reported_at)
FROM lost WHERE r.id = lost.id
RETURNING r.environment_id, r.agent_id, date_trunc('hour', r.started_at, 'UTC')
"""

_TOUCHED = """
SELECT DISTINCT environment_id, agent_id, date_trunc('hour', started_at, 'UTC')
FROM controlplane_run WHERE reported_at >= %(since)s AND started_at >= %(whole)s
"""

_ADD_UP = """
INSERT INTO controlplane_runhour (environment_id, agent_id, at, runs, degraded, undisclosed, ended, abandoned, steps,
    tool_seconds, model_seconds, tokens, cost)
SELECT t.environment_id, t.agent_id, t.at, count(*), count(*) FILTER (WHERE r.degraded),
    count(*) FILTER (WHERE r.degraded AND r.disclosed IS FALSE), count(*) FILTER (WHERE r.status = 'ended'),
    count(*) FILTER (WHERE r.status = 'abandoned'), sum(r.steps), sum(r.tool_seconds), sum(r.model_seconds),
    sum(r.tokens), sum(r.cost)
FROM unnest(%s::bigint[], %s::bigint[], %s::timestamptz[]) AS t(environment_id, agent_id, at)
JOIN controlplane_run r ON r.environment_id = t.environment_id AND r.agent_id = t.agent_id
    AND r.started_at >= t.at AND r.started_at < t.at + interval '1 hour'
GROUP BY 1, 2, 3
ON CONFLICT (environment_id, agent_id, at) DO UPDATE SET
    runs = EXCLUDED.runs, degraded = EXCLUDED.degraded, undisclosed = EXCLUDED.undisclosed, ended = EXCLUDED.ended,
    abandoned = EXCLUDED.abandoned, steps = EXCLUDED.steps, tool_seconds = EXCLUDED.tool_seconds,
    model_seconds = EXCLUDED.model_seconds, tokens = EXCLUDED.tokens, cost = EXCLUDED.cost
"""

_PAST = """
SELECT id FROM controlplane_run
WHERE reported_at < %(added_up)s AND (
    started_at < %(every)s
    OR (started_at < %(healthy)s AND status = 'finished' AND NOT degraded
        AND (hashtext(id::text) & 1023) >= %(share)s * 1024))
LIMIT %(limit)s
"""

Hour = tuple[int, int, datetime]
"""Environment, agent and the beginning of an hour."""


@transaction.atomic
def abandon_lost(*, now: datetime, limit: int = 500) -> int:
    """Mark running runs abandoned whose session has vanished; returns how many.

    A later report of higher revision still wins: the agent was only cut off.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ABANDON, {"before": now - timedelta(seconds=LOST_AFTER_S), "limit": limit})
        found: list[Hour] = cursor.fetchall()
    _add_up([hour for hour in dict.fromkeys(found) if hour[2] >= _whole_since(now)])
    return len(found)


@transaction.atomic
def add_up_hours(*, now: datetime) -> int:
    """Make the hours anew whose runs have reported since the last time; how many hours."""
    RollupMark.objects.bulk_create([RollupMark(pk=1)], ignore_conflicts=True)
    until = RollupMark.objects.values_list("runs_until", flat=True).get(pk=1)
    whole = _whole_since(now)
    with connection.cursor() as cursor:
        cursor.execute(_TOUCHED, {"since": min(until, now) - OVERLAP if until else whole, "whole": whole})
        touched: list[Hour] = cursor.fetchall()
    _add_up(touched)
    RollupMark.objects.filter(pk=1).update(runs_until=now)
    return len(touched)


def _whole_since(now: datetime) -> datetime:
    """The first hour whose runs are all still there."""
    kept = now - timedelta(days=settings.KEEP_ALL_RUNS_DAYS) + STILL_WHOLE
    return kept.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)


def _add_up(hours: list[Hour]) -> None:
    if hours:
        with connection.cursor() as cursor:
            cursor.execute(_ADD_UP, [list(column) for column in zip(*sorted(hours), strict=True)])


@transaction.atomic
def prune_runs(*, now: datetime, limit: int = 5_000) -> int:
    """Drop runs that have been kept for long enough, and their step logs; how many runs.

    First those that lacked nothing and ended well, but for a share of them; none that is not in its hour yet.
    """
    added_up = RollupMark.objects.filter(pk=1).values_list("runs_until", flat=True).first()
    if added_up is None:
        return 0
    asked: dict[str, Any] = {
        "added_up": added_up - OVERLAP,
        "every": now - timedelta(days=settings.KEEP_RUNS_DAYS),
        "healthy": now - timedelta(days=settings.KEEP_ALL_RUNS_DAYS),
        "share": settings.KEEP_RUNS_SHARE,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PAST, asked)
        past = [pk for (pk,) in cursor.fetchall()]
        cursor.execute("DELETE FROM controlplane_steplog WHERE run_id = ANY(%s)", [past])
        cursor.execute("DELETE FROM controlplane_run WHERE id = ANY(%s)", [past])
    return len(past)


_PRUNE_LOGS = """
DELETE FROM controlplane_steplog WHERE run_id IN (
    SELECT l.run_id FROM controlplane_steplog l JOIN controlplane_run r ON r.id = l.run_id
    WHERE r.started_at < %s LIMIT %s)
"""


def prune_step_logs(*, now: datetime, limit: int = 5_000) -> int:
    """Drop the step logs of runs that began long ago; the runs stay."""
    with connection.cursor() as cursor:
        cursor.execute(_PRUNE_LOGS, [now - timedelta(days=settings.KEEP_STEP_LOGS_DAYS), limit])
        return int(cursor.rowcount)
