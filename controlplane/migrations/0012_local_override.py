"""What agents tell of their break-glass files."""

import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded


class Migration(migrations.Migration):
    """A new table: the running version does not notice."""

    dependencies = [("controlplane", "0011_run_baselines")]

    operations = bounded(
        migrations.CreateModel(
            name="LocalOverride",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                (
                    "tool",
                    models.CharField(
                        blank=True, help_text="by name; empty where a dependency is forced", max_length=200
                    ),
                ),
                ("dependency", models.CharField(blank=True, max_length=200)),
                ("mode", models.CharField(max_length=20)),
                ("reason", models.CharField(blank=True, max_length=500)),
                (
                    "who",
                    models.CharField(blank=True, help_text="as the file says; nobody has checked it", max_length=200),
                ),
                ("began_at", models.DateTimeField(help_text="when the process first saw it")),
                ("expires_at", models.DateTimeField()),
                ("reported_at", models.DateTimeField()),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="local_overrides",
                        to="controlplane.environment",
                    ),
                ),
                (
                    "key",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="controlplane.agentkey"
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="local_overrides",
                        to="controlplane.worker",
                    ),
                ),
            ],
            options={
                "ordering": ["-began_at", "id"],
                "indexes": [
                    models.Index(fields=["environment", "-expires_at"], name="local_override_running"),
                    models.Index(fields=["key", "-reported_at"], name="local_override_claimed"),
                ],
            },
        ),
    )
