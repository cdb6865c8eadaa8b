"""Synthetic probes: what is asked of a dependency, and what it answered."""

from django.db import models

from controlplane.models.access import AgentKey, Environment, Worker
from controlplane.models.circuit import Circuit
from controlplane.models.tool import Dependency


class Probe(models.Model):
    """How a dependency's recovery is tested; `spec` is typed by its kind in workers.probers."""

    dependency = models.OneToOneField(Dependency, on_delete=models.CASCADE, related_name="probe")
    kind = models.CharField(max_length=20, default="http")
    operation = models.CharField(max_length=200, help_text="the operation that the probe exercises")
    spec = models.JSONField()
    secrets = models.TextField(blank=True, help_text="encrypted JSON, write-only: header values and the like")
    enabled = models.BooleanField(default=True)
    ask_from = models.CharField(
        max_length=20, default="control_plane", db_default="control_plane", help_text="control_plane, agents or both"
    )
    heartbeat_s = models.PositiveIntegerField(
        null=True, blank=True, help_text="how often a closed circuit is asked all the same; null: never"
    )
    heartbeat_due_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True, help_text="when the last one was answered")
    heartbeat_bad = models.PositiveIntegerField(default=0, db_default=0, help_text="bad ones in a row")
    heartbeat_failing_at = models.DateTimeField(null=True, blank=True, help_text="since when they are bad")
    updated_at = models.DateTimeField()
    updated_by = models.CharField(max_length=150)
    certificate_until = models.DateTimeField(
        null=True, blank=True, help_text="when the certificate that was last met expires"
    )
    certificate_warned = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="the threshold in days that was last warned of, for this very certificate"
    )


class ProbeSpend(models.Model):
    """What the probes of a dependency have cost on one day, in UTC; booked before each is sent."""

    dependency = models.ForeignKey(Dependency, on_delete=models.CASCADE, related_name="probe_spends")
    day = models.DateField()
    spent_usd = models.DecimalField(max_digits=12, decimal_places=6, default=0)
    asked = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dependency", "day"], name="one_spend_a_day")]


class ProbeRound(models.Model):
    """One round of a half-open circuit: one id, one verdict, a lease that expires."""

    id = models.UUIDField(primary_key=True)
    circuit = models.ForeignKey(Circuit, on_delete=models.CASCADE, related_name="rounds")
    generation = models.BigIntegerField(help_text="of the circuit while the round runs; the fencing token")
    requested_by = models.CharField(max_length=150, blank=True)
    due_at = models.DateTimeField()
    granted_at = models.DateTimeField()
    lease_expires_at = models.DateTimeField()
    dispatched_at = models.DateTimeField(null=True, blank=True)
    connected_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    verdict = models.CharField(max_length=20, blank=True)
    applied = models.BooleanField(default=False, help_text="False while it runs, and for ever if it came too late")
    operation = models.CharField(max_length=200, blank=True)
    places_wanted = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="how many places should vote; null: one Celery worker decides alone"
    )
    quorum = models.PositiveSmallIntegerField(null=True, blank=True, help_text="of those seated, how many must agree")
    asked = models.JSONField(default=dict, help_text="method and address, secrets masked")
    answered = models.JSONField(default=dict, help_text="status, time, each condition's verdict, cause of failure")

    class Meta:
        ordering = ["-granted_at"]
        indexes = [models.Index(fields=["circuit", "-granted_at"], name="round_recent")]


class ProbeVote(models.Model):
    """One place's part in a round: a seat first, a vote once it has answered."""

    id = models.UUIDField(primary_key=True)
    round = models.ForeignKey(ProbeRound, on_delete=models.CASCADE, related_name="votes")
    by_agent = models.BooleanField(default=False)
    place = models.CharField(max_length=300, blank=True, help_text="a vantage's name, or agent/instance once taken")
    session = models.UUIDField(null=True, blank=True, help_text="the agent process that it is leased to")
    worker = models.ForeignKey(
        Worker, null=True, blank=True, on_delete=models.CASCADE, related_name="+", db_constraint=False
    )
    taken_at = models.DateTimeField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True, help_text="then it is anybody's again")
    voted_at = models.DateTimeField(null=True, blank=True)
    verdict = models.CharField(max_length=20, blank=True)
    answered = models.JSONField(default=dict)

    class Meta:
        ordering = ["by_agent", "place", "id"]


class AgentProber(models.Model):
    """An agent process that is willing to probe the hosts which its own code lists."""

    session = models.UUIDField(primary_key=True)
    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    key = models.ForeignKey(AgentKey, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="+")
    hosts = models.JSONField(default=list)
    heard_at = models.DateTimeField(db_index=True)


class ProbeTest(models.Model):
    """One try-out from the editor, or a heartbeat: asked by a Celery worker like any probe, and moves no circuit."""

    id = models.UUIDField(primary_key=True)
    dependency = models.ForeignKey(Dependency, on_delete=models.CASCADE, related_name="probe_tests")
    kind = models.CharField(max_length=20, default="http", db_default="http")
    spec = models.JSONField()
    secrets = models.TextField(blank=True, help_text="encrypted JSON, gone once the answer is there")
    heartbeat = models.BooleanField(default=False, db_default=False)
    asked_by = models.CharField(max_length=150)
    asked_at = models.DateTimeField(db_index=True)
    claimed_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    result = models.JSONField(default=dict, help_text="what was asked, answered and ruled; secrets masked")
