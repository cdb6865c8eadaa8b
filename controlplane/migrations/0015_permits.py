"""Places for the runs that may test a circuit without a probe, and the causes that a ramp gives a circuit."""

import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded

CAUSES = (
    *("consecutive_failures", "failure_rate", "slow_call_rate"),
    *("probe_started", "probe_passed", "probe_failed", "probe_inconclusive"),
    *("ramp_started", "ramp_passed", "ramp_failed", "operator", "override_expired"),
)


class Migration(migrations.Migration):
    """A new table; the column of the causes stays as it is."""

    dependencies = [("controlplane", "0014_control_address")]

    operations = bounded(
        migrations.AlterField(
            model_name="circuit",
            name="cause",
            field=models.CharField(blank=True, choices=[(cause, cause) for cause in CAUSES], max_length=30),
        ),
        migrations.CreateModel(
            name="Candidate",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                (
                    "generation",
                    models.BigIntegerField(help_text="of the circuit while it waited; another one voids the place"),
                ),
                ("session", models.UUIDField(help_text="of the process that keeps the place for a run")),
                ("instance", models.CharField(max_length=200)),
                ("run", models.UUIDField(blank=True, help_text="that called the tool; null until one does", null=True)),
                ("tool", models.CharField(blank=True, max_length=200)),
                ("given_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                (
                    "agent",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="controlplane.agent",
                    ),
                ),
                (
                    "circuit",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="candidates",
                        to="controlplane.circuit",
                    ),
                ),
                (
                    "round",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="permit",
                        to="controlplane.proberound",
                    ),
                ),
            ],
            options={"ordering": ["given_at"]},
        ),
        migrations.AddConstraint(
            model_name="candidate",
            constraint=models.UniqueConstraint(fields=("circuit", "generation", "session"), name="one_place_a_session"),
        ),
    )
