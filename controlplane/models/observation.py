"""The evidence: append-only rows, partitioned by the database time at which they were received."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Func
from django.db.models.functions import Cast


class Observation(models.Model):
    """What one session saw of one (tool, dependency) in a slice of time. No foreign keys: nothing blocks an append."""

    id = models.BigIntegerField(primary_key=True)
    received_at = models.DateTimeField()
    environment_id = models.BigIntegerField()
    key_id = models.BigIntegerField()
    agent_id = models.BigIntegerField()
    worker_id = models.BigIntegerField()
    session_id = models.UUIDField()
    seq = models.BigIntegerField()
    dependency_id = models.BigIntegerField()
    tool_id = models.BigIntegerField()
    generation = models.BigIntegerField()
    operation = models.TextField()
    at = models.DateTimeField(help_text="when the slice ended: received_at minus its age")
    span_s = models.FloatField()
    ok = models.IntegerField()
    empty = models.IntegerField()
    retryable_error = models.IntegerField()
    timeout = models.IntegerField()
    rate_limited = models.IntegerField()
    semantic_error = models.IntegerField()
    unknown_tool = models.IntegerField()
    cancelled = models.IntegerField()
    rejected = models.IntegerField()
    attempts = models.IntegerField()
    slow = models.IntegerField()
    slow_failures = models.IntegerField()
    latency_sum_ms = models.FloatField()
    latency_max_ms = models.FloatField()
    latency_hist = ArrayField(models.IntegerField())
    streak = models.IntegerField()
    retry_after_s = models.FloatField(null=True)
    counted = models.BooleanField(help_text="False: quarantined, over a cap, or older than the window")
    samples = models.JSONField()
    stored_by = models.BigIntegerField(
        db_default=Cast(Cast(Func(function="pg_current_xact_id"), models.TextField()), models.BigIntegerField()),
        help_text="the transaction that stored it: what rollups are resumed by",
    )

    class Meta:
        managed = False
        db_table = "observation"
        ordering = ["id"]
