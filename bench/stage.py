"""A database of its own for a bench, thrown away afterwards, and a fleet to fill it with."""

from __future__ import annotations

import os
import uuid
from datetime import datetime, timedelta
from typing import Any

SECRETS = {
    "RECLOSER_SECRET_KEY": "only-for-benches-and-never-for-anything-else",
    "RECLOSER_FIELD_KEYS": "a2V5LWZvci10ZXN0cy1vbmx5LTMyLWJ5dGVzLWxvbmc=",
    "RECLOSER_LOG_LEVEL": "WARNING",
}


def servers() -> None:
    """Start Postgres and Valkey for this process and its children, and migrate."""
    from deploy.local import embedded

    started = embedded.ensure("test")
    os.environ.update(SECRETS, DATABASE_URL=started.database_url, REDIS_URL=started.redis_url)
    os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings"
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


OBSERVATIONS = """
INSERT INTO observation (
    received_at, environment_id, key_id, agent_id, worker_id, session_id, seq, dependency_id, tool_id, generation,
    operation, at, span_s, ok, empty, retryable_error, timeout, rate_limited, semantic_error, unknown_tool, cancelled,
    rejected, attempts, slow, slow_failures, latency_sum_ms, latency_max_ms, latency_hist, streak, retry_after_s,
    counted, samples)
SELECT moment, %(environment)s, %(key)s, %(agent)s, w.id, w.session, 1, d.dependency, d.tool, 0, 'search', moment, 2,
    4, 0, 0, (random() < 0.02)::int, 0, 0, 0, 0, 0, 4, 0, 0, 400, 130, ARRAY[0,0,0,0,0,0,2,2,0,0,0,0,0,0,0,0], 0, NULL,
    true, '[]'
FROM generate_series(%(now)s - make_interval(secs => %(past_s)s), %(now)s, make_interval(secs => %(every_s)s)) AS moment
CROSS JOIN unnest(%(dependencies)s::bigint[], %(tools)s::bigint[]) AS d(dependency, tool)
CROSS JOIN unnest(%(workers)s::bigint[], %(sessions)s::uuid[]) AS w(id, session)
"""


class Fleet:
    """An environment with an agent, its workers, and any number of circuits."""

    def __init__(self, slug: str, now: datetime, workers: int = 3) -> None:
        from controlplane.models import DocumentVersion
        from tests import factories

        self.now = now
        self.environment = factories.environment(slug, at=now)
        DocumentVersion.objects.filter(environment=self.environment).update(epoch="bench")
        self.agent = factories.agent(self.environment, "research", at=now)
        self.key = factories.key(self.agent, f"rcl_{slug}_" + "x" * 43, at=now)
        self.workers = [factories.worker(self.key, f"pod-{n}", at=now) for n in range(workers)]
        self.sessions = [factories.session(each, at=now) for each in self.workers]
        self.dependencies: list[Any] = []
        self.tools: list[Any] = []

    def circuits(self, count: int) -> None:
        """One tool and one circuit each."""
        from tests import factories

        for number in range(count):
            made = factories.dependency(self.environment, f"service-{number:03}", at=self.now)
            self.dependencies.append(made)
            self.tools.append(factories.tool(made, f"tool_{number:03}", at=self.now))

    def observations(self, past_s: float, every_s: float) -> int:
        """A row of each worker and circuit every so often."""
        from django.db import connection

        asked = {
            "environment": self.environment.pk,
            "key": self.key.pk,
            "agent": self.agent.pk,
            "now": self.now,
            "past_s": past_s,
            "every_s": every_s,
            "dependencies": [each.pk for each in self.dependencies],
            "tools": [each.pk for each in self.tools],
            "workers": [each.pk for each in self.workers],
            "sessions": [each.pk for each in self.sessions],
        }
        with connection.cursor() as cursor:
            cursor.execute(OBSERVATIONS, asked)
            rows = cursor.rowcount
            cursor.execute("ANALYZE observation")
        return rows

    def runs(self, count: int, past_s: float, degraded_every: int = 10) -> None:
        """Runs of the last hour, some of which lacked a tool."""
        from controlplane.models import Run

        Run.objects.bulk_create(self._run(number, past_s * number / count, degraded_every) for number in range(count))

    def _run(self, number: int, age_s: float, degraded_every: int) -> Any:
        from controlplane.models import Run

        lacks = number % degraded_every == 0
        missing = [{"tool": "tool_000", "dependency": "service-000", "cause": "open", "scope": "fleet", "step": 1}]
        started = self.now - timedelta(seconds=age_s)
        return Run(
            id=uuid.uuid4(), environment=self.environment, agent=self.agent, worker=self.workers[0],
            session=self.sessions[0].pk, revision=1, status="finished", started_at=started, reported_at=started,
            ended_at=started, degraded=lacks, disclosed=lacks or None, missing=missing if lacks else [],
        )  # fmt: skip


def percentile(values: list[float], share: float) -> float:
    """The value that this share lies at or under."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
