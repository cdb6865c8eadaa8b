"""What a run passed on to people, and when they were told of it."""

from django.db import migrations, models

from controlplane.migrations._bounded import bounded


class Migration(migrations.Migration):
    """Columns that the running version need not fill."""

    dependencies = [("controlplane", "0009_probe_kinds")]

    operations = bounded(
        migrations.AddField(
            model_name="run",
            name="handover",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="question, escalation", max_length=12
            ),
        ),
        migrations.AddField(
            model_name="run", name="handover_told_at", field=models.DateTimeField(blank=True, null=True)
        ),
    )
