"""Policies: layers of typed values, kept as immutable revisions."""

from django.db import models
from recloser.core.types import SideEffectClass

from controlplane.models.access import Environment
from controlplane.models.tool import Dependency, Tool


class PolicyRevision(models.Model):
    """The values one layer sets, as they stood; a new edit is a new revision."""

    class Level(models.TextChoices):
        """Which layer of the resolution the values belong to."""

        ENVIRONMENT = "environment"
        CLASS = "class"
        DEPENDENCY = "dependency"
        TOOL = "tool"

    class Status(models.TextChoices):
        """A revision's life; only a published one is in force."""

        DRAFT = "draft"
        IN_REVIEW = "in_review"
        PUBLISHED = "published"
        SUPERSEDED = "superseded"
        REJECTED = "rejected"
        WITHDRAWN = "withdrawn"

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="policies")
    level = models.CharField(max_length=20, choices=Level.choices)
    side_effect = models.CharField(max_length=20, blank=True, choices=[(c.value, c.value) for c in SideEffectClass])
    dependency = models.ForeignKey(Dependency, null=True, blank=True, on_delete=models.CASCADE, related_name="policies")
    tool = models.ForeignKey(Tool, null=True, blank=True, on_delete=models.CASCADE, related_name="policies")
    number = models.PositiveIntegerField(help_text="counts up within the layer")
    values = models.JSONField(help_text="field name to value, as recloser.core.policy validates them")
    content_hash = models.CharField(max_length=64)
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.DRAFT)
    reason = models.CharField(max_length=500)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    approved_by = models.CharField(max_length=150, blank=True)
    base = models.PositiveIntegerField(
        null=True, blank=True, help_text="number in force when its review was asked for; 0 for none"
    )
    submitted_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True, help_text="approved, rejected or withdrawn")
    decided_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    decision = models.CharField(max_length=500, blank=True, default="", db_default="", help_text="why")
    published_at = models.DateTimeField(null=True, blank=True)
    superseded_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "level", "side_effect", "dependency", "tool", "number"],
                name="policy_number_per_layer",
                nulls_distinct=False,
            ),
            models.UniqueConstraint(
                fields=["environment", "level", "side_effect", "dependency", "tool"],
                condition=models.Q(status="published"),
                name="one_published_policy_per_layer",
                nulls_distinct=False,
            ),
        ]
        indexes = [
            models.Index(fields=["environment"], name="policy_in_review", condition=models.Q(status="in_review"))
        ]
