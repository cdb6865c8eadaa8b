"""What people did, and what they were refused: append-only by trigger, chained by hash."""

from django.db import models


class AuditEntry(models.Model):
    """One human action or one rejected attempt. The table is partitioned by month and refuses UPDATE and DELETE."""

    id = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    environment_id = models.BigIntegerField(null=True)
    actor = models.TextField()
    action = models.TextField()
    target = models.TextField()
    accepted = models.BooleanField()
    reason = models.TextField()
    detail = models.JSONField()
    previous_hash = models.TextField()
    hash = models.TextField()

    class Meta:
        managed = False
        db_table = "audit_entry"
        ordering = ["-id"]


class AuditAnchor(models.Model):
    """Where the chain begins after retention has dropped what came before: the last hash that was dropped."""

    last_id = models.BigIntegerField(unique=True)
    hash = models.CharField(max_length=64)
    dropped_at = models.DateTimeField()
    partition = models.CharField(max_length=63)
