"""The shared breaker of a dependency, and everything that happened to it."""

import uuid

from django.db import models
from recloser.core.types import Cause, Mode, Scope, Signal, State

from controlplane.models.access import AgentKey, Environment, Worker
from controlplane.models.tool import Dependency, Tool


class Circuit(models.Model):
    """One row a dependency: the core's circuit in columns, changed by compare-and-set on `generation`."""

    dependency = models.OneToOneField(Dependency, on_delete=models.CASCADE, related_name="circuit")
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="circuits")
    state = models.CharField(max_length=20, choices=[(s.value, s.value) for s in State], default=State.CLOSED.value)
    mode = models.CharField(max_length=20, choices=[(m.value, m.value) for m in Mode], default=Mode.AUTO.value)
    mode_expires_at = models.DateTimeField(null=True, blank=True)
    generation = models.BigIntegerField(default=0)
    core = models.JSONField(default=dict, help_text="recloser.core.circuit.Circuit.to_dict(); the truth of this row")
    cause = models.CharField(max_length=30, blank=True, choices=[(c.value, c.value) for c in Cause])
    actor = models.CharField(max_length=150, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    changed_at = models.DateTimeField(null=True, blank=True)
    opened_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True, help_text="when the next probe is due; null while closed")
    sweep_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="when time alone changes it: a suspicion settled, a lease or override run out, lockout",
    )
    suspected_at = models.DateTimeField(null=True, blank=True)
    locked_out_at = models.DateTimeField(null=True, blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    probe_requested_by = models.CharField(
        max_length=150, blank=True, db_default="", default="", help_text="who asked for the next round"
    )
    fault_worker = models.ForeignKey(
        Worker, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    fault_seen_at = models.DateTimeField(
        null=True, blank=True, help_text="when `fault_worker` was last found to fail alone while others succeed"
    )
    quorum_short_at = models.DateTimeField(
        null=True, blank=True, help_text="since when too few workers live for the policy's quorum; null while enough do"
    )
    version = models.BigIntegerField(
        default=0, help_text="the environment's circuits version that last carried this row"
    )

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["due_at"], name="circuit_due", condition=models.Q(due_at__isnull=False)),
            models.Index(fields=["sweep_at"], name="circuit_sweep", condition=models.Q(sweep_at__isnull=False)),
            models.Index(
                fields=["suspected_at"], name="circuit_suspected", condition=models.Q(suspected_at__isnull=False)
            ),
        ]


class Outage(models.Model):
    """One episode of a circuit, from leaving closed to returning."""

    circuit = models.ForeignKey(Circuit, on_delete=models.CASCADE, related_name="outages")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    cause = models.CharField(max_length=30)
    locked_out_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-started_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["circuit"], condition=models.Q(ended_at__isnull=True), name="one_running_outage_per_circuit"
            )
        ]


class Transition(models.Model):
    """Any change of state or mode, with its cause and actor; also the outbox that alert and publish sweeps claim."""

    circuit = models.ForeignKey(Circuit, on_delete=models.CASCADE, related_name="transitions")
    outage = models.ForeignKey(Outage, null=True, blank=True, on_delete=models.SET_NULL, related_name="transitions")
    at = models.DateTimeField()
    generation = models.BigIntegerField()
    from_state = models.CharField(max_length=20)
    to_state = models.CharField(max_length=20)
    from_mode = models.CharField(max_length=20)
    to_mode = models.CharField(max_length=20)
    cause = models.CharField(max_length=30)
    actor = models.CharField(max_length=150, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    evidence = models.JSONField(default=dict)
    alerted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["circuit", "generation"], name="one_transition_per_generation")]
        indexes = [
            models.Index(fields=["id"], name="transition_unalerted", condition=models.Q(alerted_at__isnull=True))
        ]


class ActionToken(models.Model):
    """An operator's action that was taken: the same token does nothing a second time."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="+")
    token = models.CharField(max_length=100)
    circuit = models.ForeignKey(Circuit, on_delete=models.CASCADE, related_name="+")
    action = models.CharField(max_length=30)
    actor = models.CharField(max_length=150)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "token"], name="one_action_per_token")]


class Trip(models.Model):
    """One opening, or one withdrawal of a tool in a run: the signal, its evidence against the threshold, and where."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="trips")
    scope = models.CharField(max_length=10, choices=[(s.value, s.value) for s in Scope])
    signal = models.CharField(max_length=30, choices=[(s.value, s.value) for s in Signal])
    dependency = models.ForeignKey(
        Dependency, null=True, blank=True, on_delete=models.SET_NULL, related_name="trips", db_constraint=False
    )
    tool = models.ForeignKey(
        Tool, null=True, blank=True, on_delete=models.SET_NULL, related_name="trips", db_constraint=False
    )
    key = models.ForeignKey(
        AgentKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    worker = models.ForeignKey(
        Worker, null=True, blank=True, on_delete=models.SET_NULL, related_name="trips", db_constraint=False
    )
    outage = models.ForeignKey(Outage, null=True, blank=True, on_delete=models.SET_NULL, related_name="trips")
    run = models.UUIDField(null=True, blank=True)
    step = models.IntegerField(null=True, blank=True)
    action = models.CharField(max_length=20, blank=True)
    delivery = models.CharField(max_length=10)
    evidence = models.JSONField()
    threshold = models.JSONField()
    shares = models.JSONField(default=dict, help_text="part of the failures by key and by worker")
    policy = models.CharField(max_length=64, blank=True, help_text="hash of the resolved policy")
    at = models.DateTimeField()
    received_at = models.DateTimeField()
    false_trip_at = models.DateTimeField(null=True, blank=True)
    false_trip_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["environment", "-at"], name="trip_recent"),
            models.Index(fields=["run"], name="trip_run"),
            models.Index(fields=["dependency", "-at"], name="trip_dependency"),
            models.Index(fields=["tool", "-at"], name="trip_tool"),
            models.Index(fields=["environment", "signal", "at", "id"], name="trip_signal"),
            models.Index(fields=["environment", "scope", "at", "id"], name="trip_scope"),
            models.Index(fields=["environment", "scope", "signal", "at", "id"], name="trip_scope_signal"),
            models.Index(fields=["environment", "signal", "scope", "at", "id"], name="trip_signal_scope"),
            models.Index(fields=["environment", "-at"], name="trip_watched", condition=models.Q(delivery="observe")),
            models.Index(
                fields=["environment", "-at"], name="trip_false", condition=models.Q(false_trip_at__isnull=False)
            ),
            models.Index(
                fields=["dependency", "-at"],
                name="trip_opening",
                condition=models.Q(scope="fleet", delivery="enforce"),
            ),
        ]
