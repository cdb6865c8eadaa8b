"""What the circuit's services keep: action tokens, sweep times, findings about workers; and the first partitions."""

import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded


def make_first_partitions(apps, schema_editor):
    from datetime import UTC, datetime

    from controlplane.services import partitions

    partitions.make_ahead(now=datetime.now(UTC))


class Migration(migrations.Migration):
    """New tables and nullable or defaulted columns: the running version does not notice."""

    dependencies = [("controlplane", "0003_probe_test")]

    operations = bounded(
        migrations.CreateModel(
            name="ActionToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("token", models.CharField(max_length=100)),
                ("action", models.CharField(max_length=30)),
                ("actor", models.CharField(max_length=150)),
                ("at", models.DateTimeField()),
                (
                    "circuit",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="controlplane.circuit"
                    ),
                ),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="controlplane.environment"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AuditAnchor",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("last_id", models.BigIntegerField(unique=True)),
                ("hash", models.CharField(max_length=64)),
                ("dropped_at", models.DateTimeField()),
                ("partition", models.CharField(max_length=63)),
            ],
        ),
        migrations.AddConstraint(
            model_name="actiontoken",
            constraint=models.UniqueConstraint(fields=("environment", "token"), name="one_action_per_token"),
        ),
        migrations.AddField(
            model_name="circuit",
            name="fault_seen_at",
            field=models.DateTimeField(
                blank=True,
                help_text="when `fault_worker` was last found to fail alone while others succeed",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="circuit",
            name="fault_worker",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="controlplane.worker",
            ),
        ),
        migrations.AddField(
            model_name="circuit",
            name="probe_requested_by",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="who asked for the next round", max_length=150
            ),
        ),
        migrations.AddField(
            model_name="circuit",
            name="quorum_short_at",
            field=models.DateTimeField(
                blank=True,
                help_text="since when too few workers live for the policy's quorum; null while enough do",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="circuit",
            name="sweep_at",
            field=models.DateTimeField(
                blank=True,
                help_text="when time alone changes it: a suspicion settled, a lease or override run out, lockout",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="circuit",
            name="due_at",
            field=models.DateTimeField(
                blank=True, help_text="when the next probe is due; null while closed", null=True
            ),
        ),
        migrations.AddIndex(
            model_name="circuit",
            index=models.Index(
                condition=models.Q(("sweep_at__isnull", False)), fields=["sweep_at"], name="circuit_sweep"
            ),
        ),
        migrations.RunPython(make_first_partitions, migrations.RunPython.noop),
    )
