"""Probes of several kinds: what a try-out asks, certificates that are about to expire, what probes cost by the day."""

import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded

KINDS = ("worker_fault", "quorum_short", "untestable", "scheduler_silent", "certificate")


class Migration(migrations.Migration):
    """Empty or defaulted columns and a new table: the running version does not notice."""

    dependencies = [("controlplane", "0008_policy_reviews")]

    operations = bounded(
        migrations.AddField(
            model_name="probetest",
            name="kind",
            field=models.CharField(db_default="http", default="http", max_length=20),
        ),
        migrations.AddField(
            model_name="probe",
            name="certificate_until",
            field=models.DateTimeField(
                blank=True, help_text="when the certificate that was last met expires", null=True
            ),
        ),
        migrations.AddField(
            model_name="probe",
            name="certificate_warned",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="the threshold in days that was last warned of, for this very certificate",
                null=True,
            ),
        ),
        migrations.CreateModel(
            name="ProbeSpend",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("spent_usd", models.DecimalField(decimal_places=6, default=0, max_digits=12)),
                ("asked", models.PositiveIntegerField(default=0)),
                (
                    "dependency",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="probe_spends",
                        to="controlplane.dependency",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("dependency", "day"), name="one_spend_a_day")],
            },
        ),
        migrations.AlterField(
            model_name="alertcause",
            name="kind",
            field=models.CharField(choices=[(kind, kind.replace("_", " ").title()) for kind in KINDS], max_length=20),
        ),
    )
