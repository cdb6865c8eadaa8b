"""Runs as their agents report them, with a step log for those that someone will want to read."""

from django.contrib.postgres.indexes import GinIndex
from django.db import models

from controlplane.models.access import Agent, Environment, Worker


class Run(models.Model):
    """One task execution: what it declared, what it lacked, whether it said so."""

    id = models.UUIDField(primary_key=True)
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="runs")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="runs", db_constraint=False)
    worker = models.ForeignKey(Worker, null=True, on_delete=models.SET_NULL, related_name="runs", db_constraint=False)
    session = models.UUIDField(null=True, db_index=True)
    parent = models.UUIDField(null=True, blank=True, db_index=True)
    revision = models.IntegerField()
    task_kind = models.CharField(max_length=100, blank=True)
    status = models.CharField(max_length=20, help_text="running, finished, ended or abandoned")
    end_cause = models.CharField(max_length=30, blank=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    reported_at = models.DateTimeField()
    steps = models.IntegerField(default=0)
    step_limit = models.IntegerField(null=True, blank=True)
    degraded = models.BooleanField(default=False)
    disclosed = models.BooleanField(null=True)
    disclosure = models.CharField(max_length=1000, blank=True)
    handover = models.CharField(max_length=12, blank=True, default="", db_default="", help_text="question, escalation")
    handover_told_at = models.DateTimeField(null=True, blank=True)
    tools = models.JSONField(default=list)
    missing = models.JSONField(default=list)
    tool_seconds = models.FloatField(default=0)
    model_seconds = models.FloatField(default=0)
    tokens = models.BigIntegerField(default=0)
    cost = models.FloatField(default=0)

    class Meta:
        ordering = ["-started_at", "-id"]
        indexes = [
            models.Index(fields=["environment", "-started_at"], name="run_recent"),
            models.Index(fields=["environment", "-started_at"], name="run_degraded", condition=models.Q(degraded=True)),
            models.Index(fields=["reported_at"], name="run_running", condition=models.Q(status="running")),
            models.Index(fields=["reported_at"], name="run_reported"),
            models.Index(
                fields=["agent", "task_kind", "-started_at"],
                name="run_healthy",
                condition=models.Q(status="finished", degraded=False),
            ),
            models.Index(fields=["handover_told_at"], name="run_handed_over", condition=~models.Q(handover="")),
            models.Index(
                fields=["environment", "-started_at"],
                name="run_undisclosed",
                condition=models.Q(degraded=True, disclosed=False),
            ),
            models.Index(fields=["agent", "-started_at"], name="run_of_agent"),
            models.Index(fields=["environment", "task_kind", "-started_at"], name="run_kind"),
            models.Index(fields=["environment", "status", "-started_at"], name="run_status"),
            models.Index(fields=["environment", "steps", "started_at", "id"], name="run_steps"),
            models.Index(fields=["environment", "tokens", "started_at", "id"], name="run_tokens"),
            models.Index(fields=["environment", "cost", "started_at", "id"], name="run_cost"),
            GinIndex(fields=["missing"], name="run_missing", opclasses=["jsonb_path_ops"]),
        ]


class StepLog(models.Model):
    """The calls of one run, in order; hashes are salted per run, so they compare within it and nowhere else."""

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.CASCADE, related_name="step_log")
    lines = models.JSONField(default=list)
