"""Alerts that are no outage can be acknowledged."""

from django.db import migrations, models

from controlplane.migrations._bounded import bounded


class Migration(migrations.Migration):
    """Empty or defaulted columns: the running version does not notice."""

    dependencies = [("controlplane", "0018_heartbeats")]

    operations = bounded(
        migrations.AddField(
            model_name="alertcause", name="acknowledged_at", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddField(
            model_name="alertcause",
            name="acknowledged_by",
            field=models.CharField(blank=True, db_default="", default="", max_length=150),
        ),
    )
