"""Changes of a tool that wait for a second person."""

from django.db import models

from controlplane.models.access import Environment
from controlplane.models.tool import Tool


class ToolChange(models.Model):
    """What somebody wants a tool to be that would guard it less, and what became of that."""

    class Status(models.TextChoices):
        """A proposal's life; only an approved one was done."""

        DRAFT = "draft"
        IN_REVIEW = "in_review"
        APPROVED = "approved"
        REJECTED = "rejected"
        WITHDRAWN = "withdrawn"

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="tool_changes")
    tool = models.ForeignKey(Tool, on_delete=models.CASCADE, related_name="changes")
    wanted = models.JSONField(help_text="side_effect, costly and dependencies, as far as they are to change")
    before = models.JSONField(
        default=dict, blank=True, help_text="the tool as it stood when its review was asked for, and why one is needed"
    )
    content_hash = models.CharField(max_length=64, help_text="of what is wanted and of what it was before")
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.DRAFT)
    reason = models.CharField(max_length=500)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    submitted_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True, help_text="approved, rejected or withdrawn")
    decided_by = models.CharField(max_length=150, blank=True)
    decision = models.CharField(max_length=500, blank=True, help_text="why")

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(fields=["environment"], name="tool_change_in_review", condition=models.Q(status="in_review"))
        ]

    def __str__(self) -> str:
        return self.tool.name

    @property
    def approved_by(self) -> str:
        """The second person; empty while there was none."""
        return self.decided_by if self.status == self.Status.APPROVED else ""
