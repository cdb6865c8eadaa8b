"""Permits: the few runs that may test a circuit without a probe, and the one that does."""

from django.db import models

from controlplane.models.access import Agent
from controlplane.models.circuit import Circuit
from controlplane.models.probe import ProbeRound


class Candidate(models.Model):
    """One place among the runs that see the half-open tool; the first that calls it holds the round."""

    id = models.UUIDField(primary_key=True)
    circuit = models.ForeignKey(Circuit, on_delete=models.CASCADE, related_name="candidates")
    generation = models.BigIntegerField(help_text="of the circuit while it waited; another one voids the place")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    session = models.UUIDField(help_text="of the process that keeps the place for a run")
    instance = models.CharField(max_length=200)
    run = models.UUIDField(null=True, blank=True, help_text="that called the tool; null until one does")
    tool = models.CharField(max_length=200, blank=True)
    given_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    round = models.OneToOneField(ProbeRound, null=True, blank=True, on_delete=models.SET_NULL, related_name="permit")

    class Meta:
        ordering = ["given_at"]
        constraints = [models.UniqueConstraint(fields=["circuit", "generation", "session"], name="one_place_a_session")]
