"""Runs whose agents have gone: a run does not stay `running` for ever because nobody is left to end it."""

from datetime import datetime, timedelta

from django.db import connection

LOST_AFTER_S = 120.0
"""A session that has been silent for so long has vanished; it is asked to be heard every twenty seconds at most."""

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
"""


def abandon_lost(*, now: datetime, limit: int = 500) -> int:
    """Mark running runs abandoned whose session has vanished; returns how many.

    A later report of higher revision still wins: the agent was only cut off.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ABANDON, {"before": now - timedelta(seconds=LOST_AFTER_S), "limit": limit})
        return int(cursor.rowcount)
