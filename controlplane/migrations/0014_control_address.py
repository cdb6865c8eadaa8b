"""A control address by environment, and the cause that is told where it does not answer."""

from django.db import migrations, models

from controlplane.migrations._bounded import bounded

KINDS = ("worker_fault", "quorum_short", "untestable", "scheduler_silent", "certificate", "prober_suspect")


class Migration(migrations.Migration):
    """A column with a default of the database's: the running version does not notice."""

    dependencies = [("controlplane", "0013_channel_kinds")]

    operations = bounded(
        migrations.AddField(
            model_name="environment",
            name="control_address",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="`host:port` that a prober asks after a bad probe; empty: the installation's, `off`: none",
                max_length=300,
            ),
        ),
        migrations.AlterField(
            model_name="alertcause",
            name="kind",
            field=models.CharField(choices=[(kind, kind.replace("_", " ").title()) for kind in KINDS], max_length=20),
        ),
    )
