"""What agents call: tools, and the dependencies behind them."""

from django.db import models
from recloser.core.types import SideEffectClass

from controlplane.models.access import AgentKey, Environment


class Dependency(models.Model):
    """The downstream target behind one or more tools; it has the circuit."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="dependencies")
    slug = models.CharField(max_length=200)
    owner = models.CharField(max_length=100, blank=True)
    description = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField()
    discovered_by = models.ForeignKey(AgentKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["slug"]
        constraints = [models.UniqueConstraint(fields=["environment", "slug"], name="dependency_slug_per_environment")]

    def __str__(self) -> str:
        return self.slug


class Tool(models.Model):
    """A name the model can call."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="tools")
    name = models.CharField(max_length=200)
    dependencies = models.ManyToManyField(Dependency, related_name="tools")
    side_effect = models.CharField(
        max_length=20, choices=[(c.value, c.value) for c in SideEffectClass], default=SideEffectClass.UNKNOWN.value
    )
    class_confirmed = models.BooleanField(default=False)
    costly = models.BooleanField(default=False)
    owner = models.CharField(max_length=100, blank=True)
    operation = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField()
    discovered_by = models.ForeignKey(AgentKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["environment", "name"], name="tool_name_per_environment")]

    def __str__(self) -> str:
        return self.name
