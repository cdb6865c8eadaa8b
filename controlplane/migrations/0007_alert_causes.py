"""What people are told of that is no transition: a worker fault, a quorum out of reach, nobody to test, silence."""

import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded

KINDS = ("worker_fault", "quorum_short", "untestable", "scheduler_silent")


class Migration(migrations.Migration):
    """A new table: the running version does not notice."""

    dependencies = [("controlplane", "0006_rollups")]

    operations = bounded(
        migrations.CreateModel(
            name="AlertCause",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(choices=[(kind, kind.replace("_", " ").title()) for kind in KINDS], max_length=20),
                ),
                ("began_at", models.DateTimeField(help_text="since when it has been the matter")),
                ("seen_at", models.DateTimeField(help_text="when it was last found to be")),
                ("told_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "circuit",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_causes",
                        to="controlplane.circuit",
                    ),
                ),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_causes",
                        to="controlplane.environment",
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="controlplane.worker",
                    ),
                ),
            ],
            options={"ordering": ["-told_at", "-id"]},
        ),
        migrations.AddConstraint(
            model_name="alertcause",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at__isnull", True)),
                fields=("environment", "circuit", "worker", "kind"),
                name="one_running_cause",
                nulls_distinct=False,
            ),
        ),
        migrations.AlterField(
            model_name="alertdelivery",
            name="event",
            field=models.CharField(
                help_text="opened, locked_out, closed; a cause's kind, resolved; test", max_length=30
            ),
        ),
    )
