"""Try-outs of probes from the editor."""

import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded


class Migration(migrations.Migration):
    """One new table; the running version does not know it."""

    dependencies = [("controlplane", "0002_evidence")]

    operations = bounded(
        migrations.CreateModel(
            name="ProbeTest",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("spec", models.JSONField()),
                ("secrets", models.TextField(blank=True, help_text="encrypted JSON, gone once the answer is there")),
                ("asked_by", models.CharField(max_length=150)),
                ("asked_at", models.DateTimeField(db_index=True)),
                ("claimed_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "result",
                    models.JSONField(default=dict, help_text="what was asked, answered and ruled; secrets masked"),
                ),
                (
                    "dependency",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="probe_tests",
                        to="controlplane.dependency",
                    ),
                ),
            ],
        ),
    )
