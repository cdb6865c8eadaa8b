"""The same window from Postgres rows: the truth that the counters are an accelerator of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from recloser.core.circuit import Evidence
from recloser.core.policy import CircuitPolicy
from recloser.core.window import bucket_width, live_buckets

from controlplane.evidence.counters import KEEP_STREAK_S
from controlplane.evidence.live import LATELY_S, Live, live
from controlplane.evidence.outcomes import FAILED, JUDGED, SUCCEEDED
from controlplane.evidence.tally import Tally, Voice, add, evidence_of
from controlplane.models import Dependency

_OURS = """
dependency_id = %(dependency)s AND generation = %(generation)s AND counted
AND NOT key_id = ANY(%(keys)s::bigint[]) AND NOT worker_id = ANY(%(workers)s::bigint[])
"""
_WINDOW = f"""
SELECT worker_id, session_id, operation, sum(ok), sum(empty), sum({FAILED}), sum(LEAST(slow, {JUDGED})),
       max(extract(epoch FROM at)::float8 + retry_after_s) FILTER (WHERE {FAILED} > 0)
FROM observation
WHERE {_OURS} AND received_at >= %(since)s
  AND floor(extract(epoch FROM at)::float8 / %(width)s) BETWEEN %(first)s AND %(last)s
GROUP BY 1, 2, 3
"""  # noqa: S608
_PARTS = f"""
WITH part AS (
    SELECT key_id, worker_id, sum({FAILED}) AS failures, sum(LEAST(slow, {JUDGED})) AS slow
    FROM observation
    WHERE {_OURS} AND received_at >= %(since)s AND {FAILED} + slow > 0
      AND floor(extract(epoch FROM at)::float8 / %(width)s) BETWEEN %(first)s AND %(last)s
    GROUP BY 1, 2
)
SELECT p.worker_id, p.failures, p.slow, coalesce(k.prefix, '?'), coalesce(a.slug || '/' || w.instance, '?')
FROM part p LEFT JOIN controlplane_agentkey k ON k.id = p.key_id LEFT JOIN controlplane_worker w ON w.id = p.worker_id
LEFT JOIN controlplane_agent a ON a.id = w.agent_id
"""  # noqa: S608
_STREAK = f"""
WITH ended AS (
    SELECT received_at, id FROM observation
    WHERE {_OURS} AND received_at >= %(horizon)s AND {SUCCEEDED} > 0
    ORDER BY received_at DESC, id DESC LIMIT 1
)
SELECT o.worker_id, o.session_id, sum(LEAST(o.streak, {FAILED}))
FROM observation o LEFT JOIN ended ON true
WHERE {_OURS} AND o.received_at >= COALESCE(ended.received_at, %(horizon)s)
  AND (ended.id IS NULL OR (o.received_at, o.id) >= (ended.received_at, ended.id))
  AND LEAST(o.streak, {FAILED}) > 0
GROUP BY 1, 2
"""  # noqa: S608
_OWN = f"""
WITH seen AS (
    SELECT DISTINCT worker_id, session_id FROM observation
    WHERE {_OURS} AND received_at >= %(since)s AND {JUDGED} > 0
      AND floor(extract(epoch FROM at)::float8 / %(width)s) BETWEEN %(first)s AND %(last)s
), mine AS (
    SELECT o.worker_id, o.session_id, o.id, LEAST(o.streak, {FAILED}) AS failures_at_end,
           max(o.id) FILTER (WHERE {SUCCEEDED} > 0) OVER (PARTITION BY o.worker_id, o.session_id) AS ended
    FROM observation o JOIN seen USING (worker_id, session_id)
    WHERE {_OURS} AND received_at >= %(horizon)s
)
SELECT s.worker_id, s.session_id, COALESCE(sum(failures_at_end) FILTER (WHERE ended IS NULL OR m.id >= ended), 0)
FROM seen s LEFT JOIN mine m USING (worker_id, session_id)
GROUP BY 1, 2
"""  # noqa: S608
_CALLED = f"dependency_id = %(dependency)s AND counted AND {JUDGED} > 0 AND received_at >= %(since)s"
_CALLERS = f"SELECT DISTINCT worker_id, session_id FROM observation WHERE {_CALLED} AND at >= %(since)s"  # noqa: S608
_CALLED_BEFORE = f"""
SELECT EXISTS (SELECT FROM observation WHERE {_CALLED} AND received_at < to_timestamp(%(before)s))
"""  # noqa: S608
_BEFORE = f"""
SELECT EXISTS (
    SELECT FROM observation
    WHERE dependency_id = %(dependency)s AND generation = %(generation)s AND counted AND {JUDGED} > 0
      AND received_at >= %(horizon)s AND received_at < to_timestamp(%(before)s)
)
"""  # noqa: S608


def recount(dependency_id: int, generation: int, policy: CircuitPolicy, now: datetime) -> Evidence:
    """The window of a dependency's circuit, every worker's part included."""
    environment_id = Dependency.objects.values_list("environment_id", flat=True).get(pk=dependency_id)
    return of_rows(dependency_id, generation, policy, now, live(environment_id, now))


def of_rows(dependency_id: int, generation: int, policy: CircuitPolicy, now: datetime, live: Live) -> Evidence:
    """The same, with who lives and who is quarantined already known."""
    tally = Tally()
    asked = _asked(dependency_id, generation, policy, now, live)
    with connection.cursor() as cursor:
        cursor.execute(_WINDOW, asked)
        for row in cursor.fetchall():
            _add(tally, *row)
        cursor.execute(_STREAK, asked)
        for worker, session, failures in cursor.fetchall():
            tally.streak += int(failures)
            tally.witnesses.add((str(worker), str(session)))
        cursor.execute(_OWN, asked)
        for worker, session, length in cursor.fetchall():
            tally.active_sessions += 1
            tally.own_streaks[str(worker), str(session)] = int(length)
    tally.callers = callers(dependency_id, now)
    _keep_long(tally, policy)
    return evidence_of(tally, live, now.timestamp())


@dataclass(frozen=True, slots=True)
class Part:
    """What one worker reported by one key: its failures and slow calls in the window."""

    worker_id: int
    failures: int
    slow: int
    key: str
    """Its prefix; "?" of one that is gone."""
    worker: str
    """Agent and instance."""


def parts(dependency_id: int, generation: int, policy: CircuitPolicy, now: datetime, live: Live) -> list[Part]:
    """Whose claims the window rests on."""
    with connection.cursor() as cursor:
        cursor.execute(_PARTS, _asked(dependency_id, generation, policy, now, live))
        return [Part(pk, int(failures), int(slow), *names) for pk, failures, slow, *names in cursor.fetchall()]


def callers(dependency_id: int, now: datetime) -> set[Voice]:
    """Who called the dependency lately, in whichever generation of its circuit."""
    with connection.cursor() as cursor:
        cursor.execute(_CALLERS, {"dependency": dependency_id, "since": now - timedelta(seconds=LATELY_S)})
        return {(str(worker), str(session)) for worker, session in cursor.fetchall()}


def has_callers_before(dependency_id: int, before: float, now: datetime) -> bool:
    """Whether somebody called lately and before the callers were first counted."""
    since = now - timedelta(seconds=LATELY_S)
    with connection.cursor() as cursor:
        cursor.execute(_CALLED_BEFORE, {"dependency": dependency_id, "since": since, "before": before - 0.005})
        return bool(cursor.fetchone()[0])


def _keep_long(tally: Tally, policy: CircuitPolicy) -> None:
    """What the counters would have said of own streaks: the long ones, where there are two or more."""
    limit = policy.consecutive_failures
    long = {voice: length for voice, length in tally.own_streaks.items() if limit is not None and length >= limit}
    tally.own_streaks = long if len(long) >= 2 else {}


def _asked(dependency_id: int, generation: int, policy: CircuitPolicy, now: datetime, live: Live) -> dict[str, Any]:
    numbers = live_buckets(now.timestamp(), policy.window_s)
    width = bucket_width(policy.window_s)
    return {
        "dependency": dependency_id,
        "generation": generation,
        "keys": list(live.quarantined_keys),
        "workers": list(live.quarantined_workers),
        "since": now - timedelta(seconds=policy.window_s + width),
        "width": width,
        "first": numbers[0],
        "last": numbers[-1],
        "horizon": now - timedelta(seconds=KEEP_STREAK_S),
    }


def _add(
    tally: Tally,
    worker: int,
    session: Any,
    operation: str,
    ok: int,
    empty: int,
    failures: int,
    slow: int,
    wait: float | None,
) -> None:
    counts = {"ok": int(ok), "empty": int(empty), "failures": int(failures), "slow": int(slow)}
    own = tally.voice(str(worker), str(session))
    for name, value in counts.items():
        add(tally.total, name, value)
        add(own, name, value)
    if failures:
        tally.operations.add(operation)
    if wait is not None:
        tally.retry_until = max(wait, tally.retry_until or wait)


def has_rows_before(dependency_id: int, generation: int, before: float, horizon: datetime) -> bool:
    """Whether a row that counts came in before the counters began; then they are not whole."""
    asked: dict[str, Any] = {
        "dependency": dependency_id,
        "generation": generation,
        "before": before - 0.005,
        "horizon": horizon,
    }
    with connection.cursor() as cursor:
        cursor.execute(_BEFORE, asked)
        return bool(cursor.fetchone()[0])
