"""Changes of tools that wait for a second person."""

import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded


class Migration(migrations.Migration):
    """A new table."""

    dependencies = [
        ("controlplane", "0020_tool_hints"),
    ]

    operations = bounded(
        migrations.CreateModel(
            name="ToolChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "wanted",
                    models.JSONField(help_text="side_effect, costly and dependencies, as far as they are to change"),
                ),
                (
                    "before",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        help_text="the tool as it stood when its review was asked for, and why one is needed",
                    ),
                ),
                (
                    "content_hash",
                    models.CharField(help_text="of what is wanted and of what it was before", max_length=64),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("draft", "Draft"),
                            ("in_review", "In Review"),
                            ("approved", "Approved"),
                            ("rejected", "Rejected"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        default="draft",
                        max_length=20,
                    ),
                ),
                ("reason", models.CharField(max_length=500)),
                ("created_at", models.DateTimeField()),
                ("created_by", models.CharField(max_length=150)),
                ("submitted_at", models.DateTimeField(blank=True, null=True)),
                (
                    "decided_at",
                    models.DateTimeField(blank=True, help_text="approved, rejected or withdrawn", null=True),
                ),
                ("decided_by", models.CharField(blank=True, max_length=150)),
                ("decision", models.CharField(blank=True, help_text="why", max_length=500)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tool_changes",
                        to="controlplane.environment",
                    ),
                ),
                (
                    "tool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="changes", to="controlplane.tool"
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "in_review")),
                        fields=["environment"],
                        name="tool_change_in_review",
                    )
                ],
            },
        ),
    )
