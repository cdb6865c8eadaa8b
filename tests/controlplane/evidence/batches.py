"""Observations for the tests of evidence: stored as rows and counted, as the edge would."""

from __future__ import annotations

import json
from datetime import timedelta

from django.db import connection

from controlplane import clock, redis_clients
from controlplane.evidence import counters
from controlplane.evidence.counters import Row
from controlplane.models import Dependency, Session

_INSERT = """
INSERT INTO observation (
    received_at, environment_id, key_id, agent_id, worker_id, session_id, seq, dependency_id, tool_id, generation,
    operation, at, span_s, ok, empty, retryable_error, timeout, rate_limited, semantic_error, unknown_tool, cancelled,
    rejected, attempts, slow, slow_failures, latency_sum_ms, latency_max_ms, latency_hist, streak, retry_after_s,
    counted, samples
) VALUES (%s, %s, %s, %s, %s, %s, 1, %s, %s, %s, %s, %s, 1, %s, %s, %s, 0, 0, %s, 0, 0, 0, 0, %s, 0, 0, 0, '{}',
          %s, %s, %s, %s)
"""


def observe(
    session: Session,
    dependency: Dependency,
    *,
    ok: int = 0,
    empty: int = 0,
    failures: int = 0,
    semantic: int = 0,
    slow: int = 0,
    streak: int | None = None,
    generation: int = 0,
    operation: str = "web_search",
    age_s: float = 0.0,
    retry_after_s: float | None = None,
    window_s: float = 60.0,
    counted: bool = True,
    samples: tuple = (),
    tool_id: int | None = None,
    count: bool = True,
) -> Row:
    """Store one slice that ended `age_s` ago and, unless told otherwise, count it."""
    now = clock.now()
    at = now - timedelta(seconds=age_s)
    trailing = failures if streak is None else streak
    values = [
        now,
        dependency.environment_id,
        session.key_id,
        session.worker.agent_id,
        session.worker_id,
        session.pk,
        dependency.pk,
        tool_id or dependency.tools.first().pk,
        generation,
        operation,
        at,
        ok,
        empty,
        failures,
        semantic,
        slow,
        trailing,
        retry_after_s,
        counted,
        json.dumps(list(samples)),
    ]
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, values)
    row = Row(
        environment_id=dependency.environment_id,
        dependency_id=dependency.pk,
        generation=generation,
        worker_id=session.worker_id,
        session=str(session.pk),
        window_s=window_s,
        at=at.timestamp(),
        received_at=now.timestamp(),
        ok=ok,
        empty=empty,
        failures=failures,
        slow=slow,
        streak=trailing,
        operation=operation,
        retry_after_s=retry_after_s,
        counted=counted,
    )
    if count:
        counters.count_blocking(redis_clients.blocking(), [row])
    return row
