"""Observations rolled up by minute, hour and day, runs by hour; and who stored a row, which they are resumed by."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded

STORED_BY = """
ALTER TABLE observation ADD COLUMN stored_by bigint NOT NULL DEFAULT 0;
ALTER TABLE observation ALTER COLUMN stored_by SET DEFAULT pg_current_xact_id()::text::bigint;
CREATE INDEX observation_stored_by ON observation (stored_by);
"""

TABLE = """
CREATE TABLE {name} (
    environment_id bigint NOT NULL,
    dependency_id bigint NOT NULL,
    tool_id bigint NOT NULL,
    agent_id bigint NOT NULL,
    at timestamptz NOT NULL,
    observations bigint NOT NULL,
    ok bigint NOT NULL,
    empty bigint NOT NULL,
    retryable_error bigint NOT NULL,
    timeout bigint NOT NULL,
    rate_limited bigint NOT NULL,
    semantic_error bigint NOT NULL,
    unknown_tool bigint NOT NULL,
    cancelled bigint NOT NULL,
    rejected bigint NOT NULL,
    attempts bigint NOT NULL,
    slow bigint NOT NULL,
    slow_failures bigint NOT NULL,
    counted bigint NOT NULL,
    not_counted bigint NOT NULL,
    latency_sum_ms double precision NOT NULL,
    latency_max_ms double precision NOT NULL,
    latency_hist bigint[] NOT NULL,
    PRIMARY KEY (dependency_id, at, tool_id, agent_id, environment_id)
){partitioned};
CREATE INDEX {name}_recent ON {name} (environment_id, at);
"""
BY_TIME = " PARTITION BY RANGE (at)"
DEFAULT = "CREATE TABLE {name}_default PARTITION OF {name} DEFAULT;"

ROLLUPS = "".join(
    [
        *(TABLE.format(name=name, partitioned=BY_TIME) for name in ("rollup_minute", "rollup_hour")),
        *(DEFAULT.format(name=name) for name in ("rollup_minute", "rollup_hour")),
        TABLE.format(name="rollup_day", partitioned=""),
    ]
)
ADDED_UP = (
    *("observations", "ok", "empty", "retryable_error", "timeout", "rate_limited", "semantic_error", "unknown_tool"),
    *("cancelled", "rejected", "attempts", "slow", "slow_failures", "counted", "not_counted"),
)
HELP = {
    "observations": "how many rows were added up",
    "counted": "calls (ok, empty, failures) that the windows counted",
    "not_counted": "likewise, of rows that were recorded only",
}


def rollup(name, table):
    """The state of one of the three; the tables are made above."""
    key = ("environment_id", "dependency_id", "tool_id", "agent_id")
    pk = models.CompositePrimaryKey(*key, "at", blank=True, editable=False, primary_key=True, serialize=False)
    hist = django.contrib.postgres.fields.ArrayField(
        base_field=models.BigIntegerField(), help_text="bounds: 1 2 5 10 20 50 ... 50000 ms, infinity", size=None
    )
    fields = [
        ("pk", pk),
        *((column, models.BigIntegerField()) for column in key),
        ("at", models.DateTimeField(help_text="beginning of the bucket, UTC")),
        *((column, models.BigIntegerField(help_text=HELP.get(column, ""))) for column in ADDED_UP),
        ("latency_sum_ms", models.FloatField()),
        ("latency_max_ms", models.FloatField()),
        ("latency_hist", hist),
    ]
    return migrations.CreateModel(
        name=name, fields=fields, options={"db_table": table, "abstract": False, "managed": False}
    )


def make_first_partitions(apps, schema_editor):
    from datetime import UTC, datetime

    from controlplane.services import partitions

    partitions.make_ahead(now=datetime.now(UTC))


class Migration(migrations.Migration):
    """A constant default first: no row is rewritten; what is stored already counts as not rolled up yet."""

    dependencies = [("controlplane", "0005_personal_token")]

    operations = bounded(
        migrations.RunSQL(STORED_BY, "ALTER TABLE observation DROP COLUMN stored_by"),
        migrations.RunSQL(ROLLUPS, "DROP TABLE rollup_minute; DROP TABLE rollup_hour; DROP TABLE rollup_day"),
        rollup("RollupMinute", "rollup_minute"),
        rollup("RollupHour", "rollup_hour"),
        rollup("RollupDay", "rollup_day"),
        migrations.CreateModel(
            name="RollupMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "stored_by",
                    models.BigIntegerField(
                        default=0, help_text="the oldest transaction whose rows are still to be added"
                    ),
                ),
                (
                    "last_id",
                    models.BigIntegerField(
                        default=0, help_text="the greatest id ever added; sequences outlive a restore"
                    ),
                ),
                ("rolled_at", models.DateTimeField(help_text="when nothing was left to be added", null=True)),
                ("runs_until", models.DateTimeField(help_text="runs reported before are in the run hours", null=True)),
            ],
        ),
        migrations.CreateModel(
            name="RunHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(help_text="beginning of the hour, UTC")),
                ("runs", models.IntegerField()),
                ("degraded", models.IntegerField()),
                ("undisclosed", models.IntegerField(help_text="degraded, and the delivered text did not say so")),
                ("ended", models.IntegerField(help_text="ended by a backstop or on purpose")),
                ("abandoned", models.IntegerField()),
                ("steps", models.BigIntegerField()),
                ("tool_seconds", models.FloatField()),
                ("model_seconds", models.FloatField()),
                ("tokens", models.BigIntegerField()),
                ("cost", models.FloatField()),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="controlplane.agent"
                    ),
                ),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="controlplane.environment"
                    ),
                ),
            ],
            options={"ordering": ["-at"]},
        ),
        migrations.AddConstraint(
            model_name="runhour",
            constraint=models.UniqueConstraint(fields=("environment", "agent", "at"), name="one_run_hour_per_agent"),
        ),
        migrations.RunPython(make_first_partitions, migrations.RunPython.noop),
    )
