"""What a step of a healthy run costs, by agent and kind of task."""

import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded


class Migration(migrations.Migration):
    """A new table: the running version does not notice."""

    dependencies = [("controlplane", "0010_run_handovers")]

    operations = bounded(
        migrations.CreateModel(
            name="Baseline",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task_kind", models.CharField(max_length=100)),
                ("runs", models.IntegerField(help_text="healthy runs that it was taken from")),
                ("tokens_per_step", models.FloatField(help_text="none where the runs told no tokens", null=True)),
                ("cost_per_step", models.FloatField(help_text="none where the runs told no cost", null=True)),
                ("looked_at", models.DateTimeField(help_text="when its runs were last looked through")),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="baselines",
                        to="controlplane.agent",
                    ),
                ),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="baselines",
                        to="controlplane.environment",
                    ),
                ),
            ],
            options={"ordering": ["agent", "task_kind"]},
        ),
        migrations.AddConstraint(
            model_name="baseline",
            constraint=models.UniqueConstraint(fields=("agent", "task_kind"), name="one_baseline_per_kind"),
        ),
    )
