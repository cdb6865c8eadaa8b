"""Who talks to the control plane: people, environments, agents, their keys, workers and sessions."""

from django.contrib.auth.models import AbstractUser
from django.db import models


class Role(models.TextChoices):
    """What a person is trusted with; each role below includes what its line says, nothing by order."""

    VIEWER = "viewer", "Viewer"
    ON_CALL = "on_call", "On-call"
    PRODUCT_OWNER = "product_owner", "Product owner"
    ADMIN = "admin", "Admin"


class User(AbstractUser):
    """A person who signs in; the role alone decides what they may do."""

    role = models.CharField(max_length=20, choices=Role.choices, default=Role.VIEWER)


class Environment(models.Model):
    """prod, staging: everything belongs to exactly one, and nothing leaks across."""

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=100)
    protected = models.BooleanField(default=False)
    control_address = models.CharField(
        max_length=300,
        blank=True,
        default="",
        db_default="",
        help_text="`host:port` that a prober asks after a bad probe; empty: the installation's, `off`: none",
    )
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class Agent(models.Model):
    """A named agent application."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="agents")
    slug = models.SlugField(max_length=60)
    name = models.CharField(max_length=100)
    owner = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["slug"]
        constraints = [models.UniqueConstraint(fields=["environment", "slug"], name="agent_slug_per_environment")]

    def __str__(self) -> str:
        return self.slug


class Quarantine(models.Model):
    """A claim that is recorded but not counted, until an operator lifts it."""

    quarantined_at = models.DateTimeField(null=True, blank=True)
    quarantined_by = models.CharField(max_length=150, blank=True)
    quarantine_reason = models.CharField(max_length=500, blank=True)

    class Meta:
        abstract = True


class AgentKey(Quarantine):
    """A credential of one agent in one environment: stored as a hash, shown once."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="keys")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="keys")
    prefix = models.CharField(max_length=16, unique=True)
    digest = models.CharField(max_length=64, help_text="sha256 of the secret, hex; the secret has 256 random bits")
    label = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.agent.slug}/{self.prefix}"


class Worker(Quarantine):
    """Where an agent runs; stable over restarts and shared by the processes of one prefork server."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="workers")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="workers")
    key = models.ForeignKey(AgentKey, on_delete=models.CASCADE, related_name="workers")
    instance = models.CharField(max_length=200)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        ordering = ["instance"]
        constraints = [models.UniqueConstraint(fields=["agent", "instance"], name="worker_per_agent_instance")]

    def __str__(self) -> str:
        return self.instance


class LocalOverride(models.Model):
    """A forced mode from a worker's break-glass file, as the worker told it: it holds there, and moves no circuit."""

    id = models.UUIDField(primary_key=True)
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="local_overrides")
    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="local_overrides")
    key = models.ForeignKey(AgentKey, on_delete=models.CASCADE, related_name="+")
    tool = models.CharField(max_length=200, blank=True, help_text="by name; empty where a dependency is forced")
    dependency = models.CharField(max_length=200, blank=True)
    mode = models.CharField(max_length=20)
    reason = models.CharField(max_length=500, blank=True)
    who = models.CharField(max_length=200, blank=True, help_text="as the file says; nobody has checked it")
    began_at = models.DateTimeField(help_text="when the process first saw it")
    expires_at = models.DateTimeField()
    reported_at = models.DateTimeField()

    class Meta:
        ordering = ["-began_at", "id"]
        indexes = [
            models.Index(fields=["environment", "-expires_at"], name="local_override_running"),
            models.Index(fields=["key", "-reported_at"], name="local_override_claimed"),
        ]

    def __str__(self) -> str:
        return f"{self.tool or self.dependency} {self.mode}"


class Session(models.Model):
    """One process life of a worker, and how far its numbered batches have come."""

    id = models.UUIDField(primary_key=True)
    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="sessions")
    key = models.ForeignKey(AgentKey, on_delete=models.CASCADE, related_name="sessions")
    last_seq = models.BigIntegerField(default=0)
    started_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(db_index=True)
    sdk = models.CharField(max_length=60, blank=True)
    pid = models.IntegerField(null=True, blank=True)
    feed = models.CharField(max_length=10, blank=True, help_text="live or polling")
    config_epoch = models.CharField(max_length=40, blank=True)
    config_version = models.BigIntegerField(null=True, blank=True)
    circuits_epoch = models.CharField(max_length=40, blank=True)
    circuits_version = models.BigIntegerField(null=True, blank=True)
    stale_s = models.FloatField(null=True, blank=True)
