"""Probes asked from several places and by agents: votes on a round, and who is willing."""

import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded


class Migration(migrations.Migration):
    """Empty or defaulted columns and new tables: the running version does not notice."""

    dependencies = [("controlplane", "0015_permits")]

    operations = bounded(
        migrations.AddField(
            model_name="probe",
            name="ask_from",
            field=models.CharField(
                db_default="control_plane",
                default="control_plane",
                help_text="control_plane, agents or both",
                max_length=20,
            ),
        ),
        migrations.AddField(
            model_name="proberound",
            name="places_wanted",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="how many places should vote; null: one Celery worker decides alone",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="proberound",
            name="quorum",
            field=models.PositiveSmallIntegerField(
                blank=True, help_text="of those seated, how many must agree", null=True
            ),
        ),
        migrations.CreateModel(
            name="ProbeVote",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("by_agent", models.BooleanField(default=False)),
                (
                    "place",
                    models.CharField(
                        blank=True, help_text="a vantage's name, or agent/instance once taken", max_length=300
                    ),
                ),
                (
                    "session",
                    models.UUIDField(blank=True, help_text="the agent process that it is leased to", null=True),
                ),
                ("taken_at", models.DateTimeField(blank=True, null=True)),
                (
                    "lease_expires_at",
                    models.DateTimeField(blank=True, help_text="then it is anybody's again", null=True),
                ),
                ("voted_at", models.DateTimeField(blank=True, null=True)),
                ("verdict", models.CharField(blank=True, max_length=20)),
                ("answered", models.JSONField(default=dict)),
                (
                    "round",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="votes",
                        to="controlplane.proberound",
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
            options={"ordering": ["by_agent", "place", "id"]},
        ),
        migrations.CreateModel(
            name="AgentProber",
            fields=[
                ("session", models.UUIDField(primary_key=True, serialize=False)),
                ("hosts", models.JSONField(default=list)),
                ("heard_at", models.DateTimeField(db_index=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="controlplane.environment",
                    ),
                ),
                (
                    "key",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="controlplane.agentkey",
                    ),
                ),
                (
                    "worker",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="controlplane.worker",
                    ),
                ),
            ],
        ),
    )
