"""Closed circuits whose probes are asked at a slow heartbeat."""

from django.db import migrations, models

from controlplane.migrations._bounded import bounded

KINDS = (
    "worker_fault", "quorum_short", "untestable", "scheduler_silent", "certificate", "prober_suspect",
    "heartbeat_failing",
)  # fmt: skip


class Migration(migrations.Migration):
    """Empty or defaulted columns: the running version does not notice."""

    dependencies = [("controlplane", "0017_vendor_status")]

    operations = bounded(
        migrations.AddField(
            model_name="probe",
            name="heartbeat_s",
            field=models.PositiveIntegerField(
                blank=True, help_text="how often a closed circuit is asked all the same; null: never", null=True
            ),
        ),
        migrations.AddField(
            model_name="probe", name="heartbeat_due_at", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddField(
            model_name="probe",
            name="heartbeat_at",
            field=models.DateTimeField(blank=True, help_text="when the last one was answered", null=True),
        ),
        migrations.AddField(
            model_name="probe",
            name="heartbeat_bad",
            field=models.PositiveIntegerField(db_default=0, default=0, help_text="bad ones in a row"),
        ),
        migrations.AddField(
            model_name="probe",
            name="heartbeat_failing_at",
            field=models.DateTimeField(blank=True, help_text="since when they are bad", null=True),
        ),
        migrations.AddField(
            model_name="probetest",
            name="heartbeat",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AlterField(
            model_name="alertcause",
            name="kind",
            field=models.CharField(choices=[(kind, kind.replace("_", " ").title()) for kind in KINDS], max_length=20),
        ),
    )
