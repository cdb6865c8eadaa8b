"""Baselines of healthy runs, for the signal `budget_burn`: what a step costs where nothing is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Max
from recloser.core.budget import HEALTHY_RUNS

from controlplane.delivery import publish, versions
from controlplane.models import Baseline

LATEST_RUNS = 200
"""A baseline follows the agent as it is now."""
LOOKED_THROUGH = 1000
"""So many runs are looked through for them, however few of them tell what they spent."""
WORTH_TELLING = 0.1
"""Agents fetch their config anew only for a baseline that has moved by more than this share."""
MOST_KINDS = 100
"""So many kinds of task of one agent have a baseline: a kind is a word that the agent's key claims."""
OVERLAP = timedelta(minutes=10)
"""Reports that were in flight at the last look are seen at the next."""

_TOUCHED = """
SELECT DISTINCT environment_id, agent_id, task_kind FROM controlplane_run
WHERE reported_at >= %s AND task_kind <> '' AND status = 'finished' AND NOT degraded
ORDER BY environment_id, agent_id, task_kind
"""

_MEASURE = """
SELECT t.environment_id, t.agent_id, t.task_kind, healthy.runs, healthy.tokens, healthy.cost
FROM unnest(%(environments)s::bigint[], %(agents)s::bigint[], %(kinds)s::text[])
    AS t(environment_id, agent_id, task_kind)
CROSS JOIN LATERAL (
    SELECT count(*) AS runs,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY latest.tokens / latest.steps::float8) AS tokens,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY latest.cost / latest.steps) AS cost
    FROM (
        SELECT r.tokens, r.cost, r.steps FROM (
            SELECT id, worker_id, tokens, cost, steps, started_at FROM controlplane_run
            WHERE environment_id = t.environment_id AND agent_id = t.agent_id AND task_kind = t.task_kind
                AND status = 'finished' AND NOT degraded
            ORDER BY started_at DESC LIMIT %(looked)s
        ) r
        LEFT JOIN controlplane_worker w ON w.id = r.worker_id
        WHERE r.steps > 0 AND (r.tokens > 0 OR r.cost > 0) AND w.quarantined_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM controlplane_trip p WHERE p.run = r.id)
        ORDER BY r.started_at DESC LIMIT %(latest)s
    ) latest
) healthy
ORDER BY 1, 2, 3
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found for one kind of task."""

    environment_id: int
    agent_id: int
    task_kind: str
    runs: int
    tokens_per_step: float | None
    cost_per_step: float | None


def refresh(*, now: datetime) -> int:
    """Look through the kinds of task whose healthy runs have reported since the last time; how many agents hear of."""
    looked_at = Baseline.objects.aggregate(last=Max("looked_at"))["last"]
    since = min(looked_at, now) - OVERLAP if looked_at else now - timedelta(days=settings.KEEP_ALL_RUNS_DAYS)
    found = _measured(_touched(since))
    by_environment = groupby(found, key=attrgetter("environment_id"))
    return sum(_write(environment_id, list(measured), now) for environment_id, measured in by_environment)


def _touched(since: datetime) -> list[tuple[int, int, str]]:
    with connection.cursor() as cursor:
        cursor.execute(_TOUCHED, [since])
        return list(cursor.fetchall())


def _measured(kinds: list[tuple[int, int, str]]) -> list[Measured]:
    if not kinds:
        return []
    environments, agents, names = (list(column) for column in zip(*kinds, strict=True))
    asked: dict[str, Any] = {
        "environments": environments, "agents": agents, "kinds": names, "latest": LATEST_RUNS, "looked": LOOKED_THROUGH,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_MEASURE, asked)
        return [
            Measured(environment_id, agent_id, kind, runs, _rate(tokens), _rate(cost))
            for environment_id, agent_id, kind, runs, tokens, cost in cursor.fetchall()
        ]


def _rate(value: float | None) -> float | None:
    """To three digits, so that two documents that mean the same are the same; nothing spent is nothing told."""
    return float(f"{value:.3g}") if value else None


@transaction.atomic
def _write(environment_id: int, found: list[Measured], now: datetime) -> int:
    held = {
        (row.agent_id, row.task_kind): row
        for row in Baseline.objects.select_for_update(no_key=True).filter(environment=environment_id)
    }
    rows = [_row(held.get((one.agent_id, one.task_kind)), one, now) for one in _within_caps(found, held)]
    told = sum(_is_told(row, held.get((row.agent_id, row.task_kind))) for row in rows)
    Baseline.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["agent", "task_kind"],
        update_fields=["runs", "tokens_per_step", "cost_per_step", "looked_at"],
    )  # fmt: skip
    if told:
        versions.bump_config(environment_id)
        publish.config_changed(environment_id)
    return told


def _within_caps(found: Iterable[Measured], held: Mapping[tuple[int, str], Baseline]) -> list[Measured]:
    """Kinds that have a baseline already, and new ones while the agent has room, those with most runs first."""
    kinds: dict[int, int] = {}
    for agent_id, _ in held:
        kinds[agent_id] = kinds.get(agent_id, 0) + 1
    kept = []
    for one in sorted(found, key=lambda one: (-one.runs, one.agent_id, one.task_kind)):
        if (one.agent_id, one.task_kind) not in held:
            if kinds.get(one.agent_id, 0) >= MOST_KINDS:
                continue
            kinds[one.agent_id] = kinds.get(one.agent_id, 0) + 1
        kept.append(one)
    return kept


def _row(held: Baseline | None, found: Measured, now: datetime) -> Baseline:
    """The new row; figures that have hardly moved stay as they were told."""
    moved = held is None or held.runs < HEALTHY_RUNS or _has_moved(held, found)
    figures: Measured | Baseline = found if moved or held is None else held
    return Baseline(
        environment_id=found.environment_id, agent_id=found.agent_id, task_kind=found.task_kind, runs=found.runs,
        tokens_per_step=figures.tokens_per_step, cost_per_step=figures.cost_per_step, looked_at=now,
    )  # fmt: skip


def _has_moved(held: Baseline, found: Measured) -> bool:
    pairs = ((held.tokens_per_step, found.tokens_per_step), (held.cost_per_step, found.cost_per_step))
    return any(_is_other(old, new) for old, new in pairs)


def _is_other(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is not new
    return abs(new - old) > WORTH_TELLING * old


def _is_told(row: Baseline, held: Baseline | None) -> bool:
    """Whether agents have to hear of it: it begins, ends, or has moved."""
    before, after = (one is not None and one.runs >= HEALTHY_RUNS for one in (held, row))
    if before != after or held is None:
        return before != after
    return after and (row.tokens_per_step, row.cost_per_step) != (held.tokens_per_step, held.cost_per_step)


def prune(*, now: datetime) -> int:
    """Forget the kinds of task of which no healthy run has been seen for as long as any run is kept."""
    past = now - timedelta(days=settings.KEEP_RUNS_DAYS)
    return Baseline.objects.filter(looked_at__lt=past).delete()[0]
