"""What agents call: tools, and the dependencies behind them."""

from django.db import models
from recloser.core.types import SideEffectClass

from controlplane.models.access import Agent, AgentKey, Environment


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


class ToolHints(models.Model):
    """What a tool says of itself by MCP's annotations, as one agent told it: a claim, which makes no class."""

    tool = models.ForeignKey(Tool, on_delete=models.CASCADE, related_name="hints")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    key = models.ForeignKey(AgentKey, null=True, on_delete=models.SET_NULL, related_name="+")
    read_only = models.BooleanField(null=True, help_text="null: nothing is said of it; so for the others")
    destructive = models.BooleanField(null=True)
    idempotent = models.BooleanField(null=True)
    open_world = models.BooleanField(null=True)
    told_at = models.DateTimeField(help_text="when it was first told so")

    class Meta:
        ordering = ["agent__slug"]
        constraints = [models.UniqueConstraint(fields=["tool", "agent"], name="hints_per_tool_and_agent")]

    def __str__(self) -> str:
        return f"{self.agent.slug} of {self.tool.name}"

    def stated(self) -> dict[str, bool]:
        """As MCP names them, without those that nothing is said of."""
        named = {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {name: value for name, value in named.items() if value is not None}
