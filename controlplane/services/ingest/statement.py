"""The one SQL statement of a batch: it raises the session's number, and appends only if the number rose.

Parameters go as text, whatever they are: their types are the statement's own, so a session whose numbers grow, or that
leaves something out, runs the statement that is prepared already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.clock import STATEMENT_TIME
from controlplane.delivery.documents import ENTRY

_NAMED = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in Postgres' own words, and the names of its parameters in their order."""

    text: str
    names: tuple[str, ...]

    def values(self, parameters: Mapping[str, Any]) -> list[Any]:
        """The parameters that it wants."""
        return [parameters[name] for name in self.names]


def _statement(query: str) -> Statement:
    """From %(name)s to $1, once: psycopg would do it anew each time for a text as long as this."""
    names = tuple(dict.fromkeys(_NAMED.findall(query)))
    return Statement(_NAMED.sub(lambda found: f"${names.index(found[1]) + 1}", query), names)


_TAKE = f"""
WITH moment AS (SELECT {STATEMENT_TIME} AS now),
raised AS (
    INSERT INTO controlplane_session AS s (
        id, worker_id, key_id, last_seq, started_at, last_seen_at, sdk, pid, feed,
        config_epoch, config_version, circuits_epoch, circuits_version, stale_s)
    SELECT %(session)s, %(worker)s, %(key)s, %(seq)s, m.now, m.now, %(sdk)s, %(pid)s, %(feed)s,
        %(config_epoch)s, %(config_version)s, %(circuits_epoch)s, %(circuits_version)s, %(stale_s)s
    FROM moment m
    ON CONFLICT (id) DO UPDATE SET
        last_seq = EXCLUDED.last_seq, last_seen_at = EXCLUDED.last_seen_at,
        sdk = EXCLUDED.sdk, pid = EXCLUDED.pid, feed = EXCLUDED.feed, stale_s = EXCLUDED.stale_s,
        config_epoch = EXCLUDED.config_epoch, config_version = EXCLUDED.config_version,
        circuits_epoch = EXCLUDED.circuits_epoch, circuits_version = EXCLUDED.circuits_version
    WHERE s.last_seq < EXCLUDED.last_seq AND s.key_id = EXCLUDED.key_id AND s.worker_id = EXCLUDED.worker_id
    RETURNING s.id
),
seen AS (
    UPDATE controlplane_worker w SET last_seen_at = m.now, key_id = %(key)s FROM moment m, raised
    WHERE w.id = %(worker)s AND w.last_seen_at < m.now - interval '5 seconds'
),
used AS (
    UPDATE controlplane_agentkey k SET last_used_at = m.now FROM moment m, raised
    WHERE k.id = %(key)s AND (k.last_used_at IS NULL OR k.last_used_at < m.now - interval '1 minute')
),
trust AS (
    SELECT k.quarantined_at IS NOT NULL AS key_quarantined, w.quarantined_at IS NOT NULL AS worker_quarantined
    FROM controlplane_agentkey k, controlplane_worker w WHERE k.id = %(key)s AND w.id = %(worker)s
),
stored AS (
    INSERT INTO observation (
        received_at, environment_id, key_id, agent_id, worker_id, session_id, seq, dependency_id, tool_id,
        generation, operation, at, span_s, ok, empty, retryable_error, timeout, rate_limited, semantic_error,
        unknown_tool, cancelled, rejected, attempts, slow, slow_failures, latency_sum_ms, latency_max_ms,
        latency_hist, streak, retry_after_s, counted, samples)
    SELECT m.now, %(environment)s, %(key)s, %(agent)s, %(worker)s, raised.id, %(seq)s, o.dependency_id, o.tool_id,
        o.generation, o.operation, m.now - make_interval(secs => o.age_s), o.span_s, o.ok, o.empty, o.retryable_error,
        o.timeout, o.rate_limited, o.semantic_error, o.unknown_tool, o.cancelled, o.rejected, o.attempts, o.slow,
        o.slow_failures, o.latency_sum_ms, o.latency_max_ms, o.latency_hist, o.streak, o.retry_after_s,
        o.countable AND o.generation = coalesce(c.generation, 0)
            AND NOT trust.key_quarantined AND NOT trust.worker_quarantined,
        o.samples
    FROM raised CROSS JOIN moment m CROSS JOIN trust CROSS JOIN jsonb_to_recordset(%(observations)s::jsonb) AS o(
        dependency_id bigint, tool_id bigint, generation bigint, operation text, age_s float8, span_s float8,
        ok int, empty int, retryable_error int, timeout int, rate_limited int, semantic_error int,
        unknown_tool int, cancelled int, rejected int, attempts int, slow int, slow_failures int,
        latency_sum_ms float8, latency_max_ms float8, latency_hist int[], streak int, retry_after_s float8,
        countable boolean, samples jsonb)
    LEFT JOIN controlplane_circuit c ON c.dependency_id = o.dependency_id
    RETURNING id, dependency_id, generation, operation, at, received_at, ok, empty, retryable_error, timeout,
        rate_limited, slow, streak, retry_after_s, counted
)
"""  # noqa: S608 (nothing but our own constants are put in)

_REPORTS = """,
tripped AS (
    INSERT INTO controlplane_trip (
        id, environment_id, scope, signal, dependency_id, tool_id, key_id, worker_id, run, step, action, delivery,
        evidence, threshold, shares, policy, at, received_at, false_trip_by)
    SELECT t.id, %(environment)s, t.scope, t.signal, t.dependency_id, t.tool_id, %(key)s, %(worker)s, t.run, t.step,
        t.action, t.delivery, t.evidence, t.threshold, '{}', t.policy,
        m.now - make_interval(secs => t.age_s), m.now, ''
    FROM raised CROSS JOIN moment m CROSS JOIN jsonb_to_recordset(%(trips)s::jsonb) AS t(
        id uuid, scope text, signal text, dependency_id bigint, tool_id bigint, run uuid, step int, action text,
        delivery text, evidence jsonb, threshold jsonb, policy text, age_s float8)
    ON CONFLICT (id) DO NOTHING
),
reported AS (
    INSERT INTO controlplane_run AS old (
        id, environment_id, agent_id, worker_id, session, parent, revision, task_kind, status, end_cause, started_at,
        ended_at, reported_at, steps, step_limit, degraded, disclosed, disclosure, handover, tools, missing,
        tool_seconds, model_seconds, tokens, cost)
    SELECT r.id, %(environment)s, %(agent)s, %(worker)s, raised.id, r.parent, r.revision, r.task_kind, r.status,
        r.end_cause, m.now - make_interval(secs => r.started_age_s), m.now - make_interval(secs => r.ended_age_s),
        m.now, r.steps, r.step_limit, r.degraded, r.disclosed, r.disclosure, r.handover, r.tools, r.missing,
        r.tool_seconds, r.model_seconds, r.tokens, r.cost
    FROM raised CROSS JOIN moment m CROSS JOIN jsonb_to_recordset(%(runs)s::jsonb) AS r(
        id uuid, parent uuid, revision int, task_kind text, status text, end_cause text, started_age_s float8,
        ended_age_s float8, steps int, step_limit int, degraded boolean, disclosed boolean, disclosure text,
        handover text, tools jsonb, missing jsonb, tool_seconds float8, model_seconds float8, tokens bigint,
        cost float8)
    ORDER BY r.id
    ON CONFLICT (id) DO UPDATE SET
        worker_id = EXCLUDED.worker_id, session = EXCLUDED.session, parent = EXCLUDED.parent,
        revision = EXCLUDED.revision, task_kind = EXCLUDED.task_kind, status = EXCLUDED.status,
        end_cause = EXCLUDED.end_cause, ended_at = EXCLUDED.ended_at, reported_at = EXCLUDED.reported_at,
        steps = EXCLUDED.steps, step_limit = EXCLUDED.step_limit, degraded = EXCLUDED.degraded,
        disclosed = EXCLUDED.disclosed, disclosure = EXCLUDED.disclosure,
        handover = coalesce(nullif(EXCLUDED.handover, ''), old.handover), tools = EXCLUDED.tools,
        missing = EXCLUDED.missing, tool_seconds = EXCLUDED.tool_seconds, model_seconds = EXCLUDED.model_seconds,
        tokens = EXCLUDED.tokens, cost = EXCLUDED.cost
    WHERE old.revision < EXCLUDED.revision AND old.agent_id = EXCLUDED.agent_id
    RETURNING old.id
),
logged AS (
    INSERT INTO controlplane_steplog (run_id, lines)
    SELECT l.run_id, l.lines
    FROM reported JOIN jsonb_to_recordset(%(step_logs)s::jsonb) AS l(run_id uuid, lines jsonb)
         ON l.run_id = reported.id
    ON CONFLICT (run_id) DO UPDATE SET lines = EXCLUDED.lines
)
"""

_ANSWER = f"""
SELECT extract(epoch FROM m.now)::float8 AS now,
    EXISTS (SELECT FROM raised) AS rose,
    trust.key_quarantined,
    trust.worker_quarantined,
    EXISTS (SELECT FROM jsonb_to_recordset(%(runs)s::jsonb) AS r(id uuid) JOIN controlplane_run old ON old.id = r.id
        WHERE old.agent_id <> %(agent)s) AS foreign_run,
    EXISTS (SELECT FROM jsonb_to_recordset(%(trips)s::jsonb) AS t(id uuid) JOIN controlplane_trip old ON old.id = t.id
        WHERE old.environment_id <> %(environment)s) AS foreign_trip,
    v.epoch, v.config, v.circuits,
    (SELECT coalesce(jsonb_agg(jsonb_build_object(
            'dependency_id', dependency_id, 'generation', generation, 'operation', operation,
            'at', extract(epoch FROM at), 'received', extract(epoch FROM received_at),
            'ok', ok, 'empty', empty, 'retryable_error', retryable_error, 'timeout', timeout,
            'rate_limited', rate_limited, 'slow', slow, 'streak', streak, 'retry_after_s', retry_after_s,
            'counted', counted
        ) ORDER BY id), '[]') FROM stored)::text AS stored,
    (SELECT coalesce(jsonb_object_agg(c.dependency_id, {ENTRY}), '{{}}')
        FROM controlplane_circuit c WHERE c.dependency_id = ANY(%(dependencies)s))::text AS circuits_named
FROM moment m CROSS JOIN trust JOIN controlplane_documentversion v ON v.environment_id = %(environment)s
"""  # noqa: S608

TAKE = _statement(_TAKE + _ANSWER)
"""A batch of observations alone: nearly all are."""

TAKE_REPORTS = _statement(_TAKE + _REPORTS + _ANSWER)
"""A batch with trips or runs, too."""

FAR = _statement("""
SELECT last_seq, key_id = %(key)s AND worker_id = %(worker)s AS own FROM controlplane_session WHERE id = %(session)s
""")
"""How far a session has come, and whether it is the caller's."""

OWNER = _statement("""
SELECT s.key_id = %(key)s AND w.instance = %(instance)s AS own
FROM controlplane_session s JOIN controlplane_worker w ON w.id = s.worker_id WHERE s.id = %(session)s
""")
"""Whether a session that exists is the caller's; asked before anything is made for it."""
