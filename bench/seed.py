"""A month of a large fleet, made by the database itself: bench only.

    DATABASE_URL=... python -m bench.seed [--environment big] [--circuits 500] [--runs 1000000] [--trips 1000000]

On a migrated database, in about a minute: circuits with outages, transitions and probe rounds; runs, a tenth of them
degraded; trips of every scope; the observations of the last hour; hours and days that stand for 50 million calls. Rows
are copies of one that a model made, so a new column needs no change here. It refuses an environment that exists.
"""

from __future__ import annotations

import argparse
import os
import time
import uuid
from datetime import timedelta
from typing import Any

from bench import stage

CALLS = 50_000_000
DAYS = 30
OUTAGES = 40
"""Of each circuit."""
ROUNDS = 100

Sql = str


def main() -> None:
    """Fill the database that DATABASE_URL names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", default="big")
    parser.add_argument("--circuits", type=int, default=500)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--trips", type=int, default=1_000_000)
    asked = parser.parse_args()
    if "DATABASE_URL" not in os.environ:
        raise SystemExit("Which database? Set DATABASE_URL.")
    os.environ.update({name: os.environ.get(name, value) for name, value in stage.SECRETS.items()})
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    import django

    django.setup()
    from controlplane import clock
    from controlplane.models import Environment

    if Environment.objects.filter(slug=asked.environment).exists():
        raise SystemExit(f"There is an environment {asked.environment!r} already. Name another one.")
    fleet = stage.Fleet(asked.environment, clock.now())
    fleet.circuits(asked.circuits)
    month(fleet, runs=asked.runs, trips=asked.trips)
    fleet.observations(3600.0, 10.0)


def month(fleet: stage.Fleet, *, runs: int, trips: int) -> None:
    """Everything but the observations, and how long each took."""
    steps = {
        "runs": lambda: _runs(fleet, runs),
        "trips": lambda: _trips(fleet, trips),
        "outages": lambda: _outages(fleet),
        "probe rounds": lambda: _rounds(fleet),
        "rollups": lambda: _rollups(fleet),
    }
    for name, make in steps.items():
        begun = time.perf_counter()
        print(f"  {make():>9,} {name} in {time.perf_counter() - begun:.1f} s", flush=True)


def copies(like: Any, series: Sql, /, **other: Sql) -> int:
    """So many rows like this one, which is not stored itself; `other` has SQL for the columns that differ."""
    from django.db import connection

    fields = [field for field in like._meta.local_concrete_fields if field.column and field.column != "pk"]
    given = {field.column: field.get_db_prep_save(getattr(like, field.attname), connection) for field in fields}
    columns = [name for name in given if other.get(name) != "DEFAULT"]
    chosen = [other.get(name, f"%({name})s") for name in columns]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {like._meta.db_table} ({', '.join(columns)}) SELECT {', '.join(chosen)} FROM {series}",  # noqa: S608
            given,
        )
        return int(cursor.rowcount)


def _numbers(count: int) -> Sql:
    return f"generate_series(0, {count - 1}) AS n"


def _spread(fleet: stage.Fleet, count: int) -> Sql:
    """An instant for each of `count` rows, the newest now, the oldest a month ago."""
    return f"'{fleet.now.isoformat()}'::timestamptz - n * interval '{DAYS} days' / {count}"


def _nth(values: list[Any], kind: str) -> Sql:
    """One of these for each row."""
    listed = ", ".join(f"'{value}'" for value in values)
    return f"(ARRAY[{listed}]::{kind}[])[1 + (n %% {len(values)})]"


def _runs(fleet: stage.Fleet, count: int) -> int:
    from controlplane.models import Run

    like = Run(
        id=uuid.uuid4(), environment=fleet.environment, agent=fleet.agent, worker=fleet.workers[0], revision=1,
        started_at=fleet.now, reported_at=fleet.now, steps=12, step_limit=20, tools=["tool_000", "tool_001"],
        tool_seconds=61.4, model_seconds=28.2, tokens=18_230, cost=0.41,
    )  # fmt: skip
    lacked = """jsonb_build_array(jsonb_build_object('tool', 'tool_' || lpad((n %% 500)::text, 3, '0'), 'dependency',
        'service-' || lpad((n %% 500)::text, 3, '0'), 'cause', 'failure_rate', 'scope', 'fleet', 'step', 4))"""
    at = _spread(fleet, count)
    return copies(
        like, _numbers(count), id="gen_random_uuid()", worker_id=_nth([one.pk for one in fleet.workers], "bigint"),
        session=_nth([one.pk for one in fleet.sessions], "uuid"), task_kind=_nth(["brief", "triage", "reply"], "text"),
        status="CASE WHEN n < 200 THEN 'running' ELSE 'finished' END", started_at=at,
        ended_at=f"CASE WHEN n < 200 THEN NULL ELSE {at} + interval '90 s' END",
        reported_at=f"least({at} + interval '90 s', '{fleet.now.isoformat()}')", degraded="n %% 10 = 0",
        disclosed="CASE WHEN n %% 10 = 0 THEN n %% 50 > 0 END",
        missing=f"CASE WHEN n %% 10 = 0 THEN {lacked} ELSE '[]'::jsonb END",
        parent="CASE WHEN n %% 20 = 1 THEN gen_random_uuid() END",
    )  # fmt: skip


def _trips(fleet: stage.Fleet, count: int) -> int:
    from controlplane.models import Trip

    like = Trip(
        environment=fleet.environment, key=fleet.key, delivery="enforce", action="remove_tool", step=4,
        evidence={"consecutive_failures": 5}, threshold={"consecutive_failures": 5}, at=fleet.now,
        received_at=fleet.now,
    )  # fmt: skip
    scope = "CASE WHEN n %% 20 = 0 THEN 'fleet' WHEN n %% 20 < 4 THEN 'worker' ELSE 'run' END"
    at = _spread(fleet, count)
    return copies(
        like, _numbers(count), id="gen_random_uuid()", scope=scope, at=at, received_at=at,
        signal=_nth(["consecutive_failures", "failure_rate", "identical_calls", "no_progress"], "text"),
        dependency_id=_nth([one.pk for one in fleet.dependencies], "bigint"),
        tool_id=_nth([one.pk for one in fleet.tools], "bigint"),
        worker_id=_nth([one.pk for one in fleet.workers], "bigint"), run="gen_random_uuid()",
    )  # fmt: skip


def _outages(fleet: stage.Fleet) -> int:
    """Each half an hour long; with the transitions into it, through its probe and out of it."""
    from controlplane.models import Circuit, Outage, Transition

    count = OUTAGES * len(fleet.dependencies)
    circuit = _nth(list(Circuit.objects.filter(environment=fleet.environment).values_list("pk", flat=True)), "bigint")
    begun = f"{_spread(fleet, count)} - interval '40 min'"
    like = Outage(started_at=fleet.now, cause="failure_rate")
    made = copies(like, _numbers(count), id="DEFAULT", circuit_id=circuit, started_at=begun,
                  ended_at=f"{begun} + interval '30 min'")  # fmt: skip
    moves = (("closed", "open", "failure_rate", 0), ("open", "half_open", "probe_due", 29),
             ("half_open", "closed", "probe_passed", 30))  # fmt: skip
    for place, (before, after, cause, minute) in enumerate(moves):
        moved = Transition(at=fleet.now, generation=0, from_state=before, to_state=after, from_mode="auto",
                           to_mode="auto", cause=cause, alerted_at=fleet.now)  # fmt: skip
        copies(moved, _numbers(count), id="DEFAULT", circuit_id=circuit, generation=f"1000000 + n * 3 + {place}",
               at=f"{begun} + interval '{minute} min'")  # fmt: skip
    return made


def _rounds(fleet: stage.Fleet) -> int:
    from controlplane.models import Circuit, ProbeRound

    count = ROUNDS * len(fleet.dependencies)
    circuit = _nth(list(Circuit.objects.filter(environment=fleet.environment).values_list("pk", flat=True)), "bigint")
    like = ProbeRound(
        generation=0, due_at=fleet.now, granted_at=fleet.now, lease_expires_at=fleet.now, finished_at=fleet.now,
        verdict="good", applied=True, operation="search", asked={"method": "GET", "url": "https://example.com/health"},
        answered={"status": 200, "took_ms": 84.0, "cause": "passed"},
    )  # fmt: skip
    at = _spread(fleet, count)
    return copies(like, _numbers(count), id="gen_random_uuid()", circuit_id=circuit, due_at=at, granted_at=at,
                  finished_at=at)  # fmt: skip


def _rollups(fleet: stage.Fleet) -> int:
    """An hour's and a day's row of each circuit, of the same calls."""
    return sum(_rolled(fleet, *each) for each in (("RollupHour", DAYS * 24, "hour"), ("RollupDay", DAYS, "day")))


def _rolled(fleet: stage.Fleet, model: str, buckets: int, unit: str) -> int:
    from controlplane import models
    from controlplane.models.rollup import BUCKETS, COUNTS

    calls = CALLS // (len(fleet.dependencies) * buckets)
    failures = calls // 50
    counts = dict.fromkeys(COUNTS, 0) | {"observations": calls // 4, "ok": calls - failures, "timeout": failures}
    like = getattr(models, model)(
        environment_id=fleet.environment.pk, agent_id=fleet.agent.pk, dependency_id=0, tool_id=0, at=fleet.now,
        latency_sum_ms=100.0 * calls, latency_max_ms=900.0, latency_hist=[0] * 7 + [calls] + [0] * (BUCKETS - 8),
        **(counts | {"counted": calls, "attempts": calls}),
    )  # fmt: skip
    keys = ", ".join(f"({one.pk}, {tool.pk})" for one, tool in zip(fleet.dependencies, fleet.tools, strict=True))
    series = f"(VALUES {keys}) AS d(dependency, tool) CROSS JOIN generate_series(1, {buckets}) AS n"
    last = (fleet.now - timedelta(hours=1)).isoformat()
    return copies(like, series, dependency_id="d.dependency", tool_id="d.tool",
                  at=f"date_trunc('{unit}', '{last}'::timestamptz, 'UTC') - n * interval '1 {unit}'")  # fmt: skip


if __name__ == "__main__":
    main()
