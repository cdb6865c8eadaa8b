"""Telling people: channels, and one delivery per transition and channel."""

import uuid

from django.db import models

from controlplane.models.access import Environment, Worker
from controlplane.models.circuit import Circuit, Transition


class AlertChannel(models.Model):
    """Where alerts of an environment go. `target` is shown: an address, or a name. What lets in is encrypted."""

    class Kind(models.TextChoices):
        """One notifier a kind, in workers.notifiers."""

        WEBHOOK = "webhook", "Webhook"
        EMAIL = "email", "E-mail"
        SLACK = "slack", "Slack"
        PAGERDUTY = "pagerduty", "PagerDuty"

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="channels")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    name = models.CharField(max_length=100)
    target = models.CharField(max_length=500)
    secret = models.TextField(blank=True, help_text="encrypted, write-only: what signs, or lets in")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)


class AlertCause(models.Model):
    """What people are told of though it is no transition: told once when it begins, and once when it is over."""

    class Kind(models.TextChoices):
        """What is the matter; a kind is also the event that it is told by."""

        WORKER_FAULT = "worker_fault"
        QUORUM_SHORT = "quorum_short"
        UNTESTABLE = "untestable"
        SCHEDULER_SILENT = "scheduler_silent"
        CERTIFICATE = "certificate"
        PROBER_SUSPECT = "prober_suspect"
        HEARTBEAT_FAILING = "heartbeat_failing"

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="alert_causes")
    circuit = models.ForeignKey(Circuit, null=True, blank=True, on_delete=models.CASCADE, related_name="alert_causes")
    worker = models.ForeignKey(
        Worker, null=True, blank=True, on_delete=models.CASCADE, related_name="+", db_constraint=False
    )
    kind = models.CharField(max_length=20, choices=Kind.choices)
    began_at = models.DateTimeField(help_text="since when it has been the matter")
    seen_at = models.DateTimeField(help_text="when it was last found to be")
    told_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    acknowledged_by = models.CharField(max_length=150, blank=True, default="", db_default="")

    class Meta:
        ordering = ["-told_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "circuit", "worker", "kind"],
                condition=models.Q(ended_at__isnull=True),
                name="one_running_cause",
                nulls_distinct=False,
            )
        ]


class AlertDelivery(models.Model):
    """One message to one channel: same id and same body at every attempt."""

    class Status(models.TextChoices):
        """Where a delivery stands; `dead` has used up its attempts and waits for a human."""

        PENDING = "pending"
        SENT = "sent"
        DEAD = "dead"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    channel = models.ForeignKey(AlertChannel, on_delete=models.CASCADE, related_name="deliveries")
    transition = models.ForeignKey(Transition, on_delete=models.CASCADE, null=True, related_name="deliveries")
    event = models.CharField(max_length=30, help_text="opened, locked_out, closed; a cause's kind, resolved; test")
    incident = models.CharField(max_length=60, help_text="one key an outage: resolving it resolves only its own")
    body = models.JSONField()
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.PENDING)
    attempts = models.IntegerField(default=0)
    due_at = models.DateTimeField()
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    last_error = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(fields=["channel", "incident", "event"], name="one_delivery_per_channel_and_event")
        ]
        indexes = [
            models.Index(fields=["due_at"], name="delivery_due", condition=models.Q(status="pending")),
            models.Index(fields=["created_at"], name="delivery_dead", condition=models.Q(status="dead")),
            models.Index(fields=["created_at", "id"], name="delivery_recent"),
        ]
