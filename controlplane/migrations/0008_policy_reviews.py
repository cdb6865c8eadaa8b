"""A revision that waits for a second person: over what it was asked for, who decided it and why."""

from django.db import migrations, models

from controlplane.migrations._bounded import bounded

STATUSES = ("draft", "in_review", "published", "superseded", "rejected", "withdrawn")


class Migration(migrations.Migration):
    """New columns that the running version need not fill, and a small index over what waits."""

    dependencies = [("controlplane", "0007_alert_causes")]

    operations = bounded(
        migrations.AddField(
            model_name="policyrevision",
            name="base",
            field=models.PositiveIntegerField(
                blank=True, help_text="number in force when its review was asked for; 0 for none", null=True
            ),
        ),
        migrations.AddField(
            model_name="policyrevision", name="submitted_at", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddField(
            model_name="policyrevision",
            name="decided_at",
            field=models.DateTimeField(blank=True, help_text="approved, rejected or withdrawn", null=True),
        ),
        migrations.AddField(
            model_name="policyrevision",
            name="decided_by",
            field=models.CharField(blank=True, db_default="", default="", max_length=150),
        ),
        migrations.AddField(
            model_name="policyrevision",
            name="decision",
            field=models.CharField(blank=True, db_default="", default="", help_text="why", max_length=500),
        ),
        migrations.AlterField(
            model_name="policyrevision",
            name="status",
            field=models.CharField(
                choices=[
                    (one, one.replace("_", " ").capitalize().replace("In review", "In Review")) for one in STATUSES
                ],
                default="draft",
                max_length=20,
            ),
        ),
        migrations.AddIndex(
            model_name="policyrevision",
            index=models.Index(
                condition=models.Q(("status", "in_review")), fields=["environment"], name="policy_in_review"
            ),
        ),
    )
