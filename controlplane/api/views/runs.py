"""Runs as their agents report them."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import QuerySet
from rest_framework import serializers

from controlplane.api import filters
from controlplane.api.base import Many, One
from controlplane.api.errors import Problem
from controlplane.api.lookup import given
from controlplane.models import Run, StepLog
from controlplane.selectors import lists, named

STATUSES = ("running", "finished", "ended", "abandoned")


class RunOut(serializers.ModelSerializer[Run]):
    """One task execution: what it declared, what it lacked, whether it said so. Time and money stand apart."""

    agent = serializers.CharField(source="agent.slug")
    worker = serializers.IntegerField(source="worker_id", allow_null=True)

    class Meta:
        model = Run
        fields = (
            "id", "agent", "worker", "session", "parent", "revision", "task_kind", "status", "end_cause", "started_at",
            "ended_at", "reported_at", "steps", "step_limit", "degraded", "disclosed", "disclosure", "tools", "missing",
            "tool_seconds", "model_seconds", "tokens", "cost",
        )  # fmt: skip


class RunFilter(django_filters.FilterSet):
    """Which runs."""

    agent = filters.Named(named.agent, "agent")
    status = filters.word(*STATUSES)
    degraded = filters.Flag(field_name="degraded")
    disclosed = filters.Flag(field_name="disclosed")
    task_kind = filters.text("task_kind")
    worker = filters.Whole(field_name="worker_id")
    parent = django_filters.UUIDFilter(field_name="parent")
    lacked = django_filters.CharFilter(method="without_dependency", label="A dependency that it lacked.")
    since = filters.since("started_at")
    until = filters.until("started_at")

    def without_dependency(self, rows: QuerySet[Run], name: str, slug: str) -> QuerySet[Run]:
        """Those that lacked this dependency, which must exist."""
        given(named.dependency, self.request.environment, slug, name)  # type: ignore[union-attr]
        return rows.filter(missing__contains=[{"dependency": slug}])


class Runs(Many):
    """The runs of an environment."""

    queryset = lists.runs()
    noun, shape = "run", RunOut
    filterset_class = RunFilter
    orders = {"started_at": "-started_at"}


class OneRun(One):
    """One run."""

    queryset = lists.runs()
    noun, shape = "run", RunOut
    by = {"pk": "run"}


class StepLogOut(serializers.ModelSerializer[StepLog]):
    """The calls of one run in order; hashes are salted per run and compare within it only."""

    run = serializers.UUIDField(source="run_id")
    lines = serializers.ListField(child=serializers.DictField())

    class Meta:
        model = StepLog
        fields = ("run", "lines")


class RunSteps(One):
    """The step log of one run: kept for degraded and failed runs, and a share of the rest."""

    queryset = lists.runs()
    noun, shape = "run", StepLogOut
    by = {"pk": "run"}
    verbs = One.verbs | {"get": "read_steps_of", "head": "read_steps_of"}

    def presented(self, row: Any) -> Any:
        """Its log, if one was kept."""
        log = StepLog.objects.filter(run=row).first()
        if log is None:
            raise Problem(404, "not_kept", "no step log was kept of this run", "read the run itself")
        return log
