"""What tools say of themselves, by tool and agent."""

import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded


class Migration(migrations.Migration):
    """A new table."""

    dependencies = [
        ("controlplane", "0019_alerts_are_taken"),
    ]

    operations = bounded(
        migrations.CreateModel(
            name="ToolHints",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "read_only",
                    models.BooleanField(help_text="null: nothing is said of it; so for the others", null=True),
                ),
                ("destructive", models.BooleanField(null=True)),
                ("idempotent", models.BooleanField(null=True)),
                ("open_world", models.BooleanField(null=True)),
                ("told_at", models.DateTimeField(help_text="when it was first told so")),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="controlplane.agent"
                    ),
                ),
                (
                    "key",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="controlplane.agentkey",
                    ),
                ),
                (
                    "tool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="hints", to="controlplane.tool"
                    ),
                ),
            ],
            options={
                "ordering": ["agent__slug"],
                "constraints": [models.UniqueConstraint(fields=("tool", "agent"), name="hints_per_tool_and_agent")],
            },
        ),
    )
