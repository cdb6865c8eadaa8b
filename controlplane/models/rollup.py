"""Observations and runs added up: by minute, hour and day; and how far the adding has come."""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models

from controlplane.models.access import Agent, Environment

OUTCOMES = (
    *("ok", "empty", "retryable_error", "timeout", "rate_limited", "semantic_error", "unknown_tool"),
    *("cancelled", "rejected"),
)
COUNTS = ("observations", *OUTCOMES, "attempts", "slow", "slow_failures", "counted", "not_counted")
"""What is added up."""
BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
BUCKETS = len(BOUNDS_MS) + 1


class Rollup(models.Model):
    """What an agent's calls of one tool and dependency came to in one bucket that begins at `at`. No foreign keys.

    Not by worker: so a table grows with agents and tools, whatever the size of the fleet. A slice that an agent
    reports lies in the bucket in which it ended.
    """

    pk: Any = models.CompositePrimaryKey("environment_id", "dependency_id", "tool_id", "agent_id", "at")
    environment_id = models.BigIntegerField()
    dependency_id = models.BigIntegerField()
    tool_id = models.BigIntegerField()
    agent_id = models.BigIntegerField()
    at = models.DateTimeField(help_text="beginning of the bucket, UTC")
    observations = models.BigIntegerField(help_text="how many rows were added up")
    ok = models.BigIntegerField()
    empty = models.BigIntegerField()
    retryable_error = models.BigIntegerField()
    timeout = models.BigIntegerField()
    rate_limited = models.BigIntegerField()
    semantic_error = models.BigIntegerField()
    unknown_tool = models.BigIntegerField()
    cancelled = models.BigIntegerField()
    rejected = models.BigIntegerField()
    attempts = models.BigIntegerField()
    slow = models.BigIntegerField()
    slow_failures = models.BigIntegerField()
    counted = models.BigIntegerField(help_text="calls (ok, empty, failures) that the windows counted")
    not_counted = models.BigIntegerField(help_text="likewise, of rows that were recorded only")
    latency_sum_ms = models.FloatField()
    latency_max_ms = models.FloatField()
    latency_hist = ArrayField(models.BigIntegerField(), help_text="bounds: 1 2 5 10 20 50 ... 50000 ms, infinity")

    class Meta:
        abstract = True
        managed = False


class RollupMinute(Rollup):
    """By the minute, for two weeks; partitioned by day."""

    class Meta(Rollup.Meta):
        db_table = "rollup_minute"


class RollupHour(Rollup):
    """By the hour, for a year; partitioned by month."""

    class Meta(Rollup.Meta):
        db_table = "rollup_hour"


class RollupDay(Rollup):
    """By the day, for ever."""

    class Meta(Rollup.Meta):
        db_table = "rollup_day"


class RollupMark(models.Model):
    """How far the observations are rolled up: every row stored by a transaction before `stored_by`, and no other."""

    stored_by = models.BigIntegerField(default=0, help_text="the oldest transaction whose rows are still to be added")
    last_id = models.BigIntegerField(default=0, help_text="the greatest id ever added; sequences outlive a restore")
    rolled_at = models.DateTimeField(null=True, help_text="when nothing was left to be added")
    runs_until = models.DateTimeField(null=True, help_text="runs reported before are in the run hours")


class RunHour(models.Model):
    """An agent's runs that began in one hour; made anew while their reports come in, kept when the runs are gone."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(help_text="beginning of the hour, UTC")
    runs = models.IntegerField()
    degraded = models.IntegerField()
    undisclosed = models.IntegerField(help_text="degraded, and the delivered text did not say so")
    ended = models.IntegerField(help_text="ended by a backstop or on purpose")
    abandoned = models.IntegerField()
    steps = models.BigIntegerField()
    tool_seconds = models.FloatField()
    model_seconds = models.FloatField()
    tokens = models.BigIntegerField()
    cost = models.FloatField()

    class Meta:
        ordering = ["-at"]
        constraints = [models.UniqueConstraint(fields=["environment", "agent", "at"], name="one_run_hour_per_agent")]
