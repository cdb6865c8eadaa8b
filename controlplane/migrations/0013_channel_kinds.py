"""Slack and PagerDuty are kinds of channel; no table changes."""

from django.db import migrations, models

from controlplane.migrations._bounded import bounded

KINDS = [("webhook", "Webhook"), ("email", "E-mail"), ("slack", "Slack"), ("pagerduty", "PagerDuty")]


class Migration(migrations.Migration):
    """Known to Django alone: the columns stay as they are."""

    dependencies = [("controlplane", "0012_local_override")]

    operations = bounded(
        migrations.AlterField(
            model_name="alertchannel", name="kind", field=models.CharField(choices=KINDS, max_length=20)
        ),
        migrations.AlterField(
            model_name="alertchannel",
            name="secret",
            field=models.TextField(blank=True, help_text="encrypted, write-only: what signs, or lets in"),
        ),
    )
