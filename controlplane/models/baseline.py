"""What a step of a healthy run costs, by agent and kind of task."""

from django.db import models

from controlplane.models.access import Agent, Environment


class Baseline(models.Model):
    """The middle of the latest healthy runs of one agent and kind of task; agents hear of it once there are enough."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="baselines")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="baselines")
    task_kind = models.CharField(max_length=100)
    runs = models.IntegerField(help_text="healthy runs that it was taken from")
    tokens_per_step = models.FloatField(null=True, help_text="none where the runs told no tokens")
    cost_per_step = models.FloatField(null=True, help_text="none where the runs told no cost")
    looked_at = models.DateTimeField(help_text="when its runs were last looked through")

    class Meta:
        ordering = ["agent", "task_kind"]
        constraints = [models.UniqueConstraint(fields=["agent", "task_kind"], name="one_baseline_per_kind")]
