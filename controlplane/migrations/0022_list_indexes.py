"""Indexes for every order and filter of the lists of trips, runs and alerts, built while rows are written."""

from django.contrib.postgres.indexes import GinIndex
from django.db import migrations
from django.db.models import Index, Q

from controlplane.migrations._bounded import concurrently

RUN = [
    Index(fields=["reported_at"], name="run_reported"),
    Index(fields=["handover_told_at"], name="run_handed_over", condition=~Q(handover="")),
    Index(
        fields=["agent", "task_kind", "-started_at"], name="run_healthy", condition=Q(status="finished", degraded=False)
    ),
    Index(fields=["environment", "-started_at"], name="run_undisclosed", condition=Q(degraded=True, disclosed=False)),
    Index(fields=["agent", "-started_at"], name="run_of_agent"),
    Index(fields=["environment", "task_kind", "-started_at"], name="run_kind"),
    Index(fields=["environment", "status", "-started_at"], name="run_status"),
    Index(fields=["environment", "steps", "started_at", "id"], name="run_steps"),
    Index(fields=["environment", "tokens", "started_at", "id"], name="run_tokens"),
    Index(fields=["environment", "cost", "started_at", "id"], name="run_cost"),
    GinIndex(fields=["missing"], name="run_missing", opclasses=["jsonb_path_ops"]),
]
"""The first three, and `delivery_dead`, were once built by earlier migrations; where they stand they are built anew."""

TRIP = [
    Index(fields=["tool", "-at"], name="trip_tool"),
    Index(fields=["environment", "signal", "at", "id"], name="trip_signal"),
    Index(fields=["environment", "scope", "at", "id"], name="trip_scope"),
    Index(fields=["environment", "scope", "signal", "at", "id"], name="trip_scope_signal"),
    Index(fields=["environment", "signal", "scope", "at", "id"], name="trip_signal_scope"),
    Index(fields=["environment", "-at"], name="trip_watched", condition=Q(delivery="observe")),
    Index(fields=["environment", "-at"], name="trip_false", condition=Q(false_trip_at__isnull=False)),
    Index(fields=["dependency", "-at"], name="trip_opening", condition=Q(scope="fleet", delivery="enforce")),
]
DELIVERY = [
    Index(fields=["created_at", "id"], name="delivery_recent"),
    Index(fields=["created_at"], name="delivery_dead", condition=Q(status="dead")),
]


class Migration(migrations.Migration):
    """Nothing waits for it, and the running version does not notice."""

    atomic = False
    dependencies = [("controlplane", "0021_tool_changes")]

    operations = concurrently({"run": RUN, "trip": TRIP, "alertdelivery": DELIVERY})
