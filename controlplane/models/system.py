"""The control plane's own state: document versions, processes alive, networks that probes may reach."""

from django.db import models

from controlplane.models.access import Environment


class DocumentVersion(models.Model):
    """The versions of an environment's two documents; locked last in every transaction."""

    environment = models.OneToOneField(
        Environment, primary_key=True, on_delete=models.CASCADE, related_name="document_version"
    )
    epoch = models.CharField(max_length=40)
    config = models.BigIntegerField(default=1)
    circuits = models.BigIntegerField(default=1)


class ProcessBeat(models.Model):
    """A process that reports that it lives: scheduler, Celery worker, edge."""

    kind = models.CharField(max_length=20)
    name = models.CharField(max_length=200)
    started_at = models.DateTimeField()
    beat_at = models.DateTimeField()
    detail = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="one_beat_per_process")]


class AllowedNetwork(models.Model):
    """An address range that guarded egress may reach although it is private; set by an admin, audited."""

    network = models.CharField(max_length=50, unique=True, help_text="CIDR, such as 10.1.0.0/16")
    reason = models.CharField(max_length=500)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
