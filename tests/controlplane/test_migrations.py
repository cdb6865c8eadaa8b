"""The schema, run again, taken back and brought forward: nothing is lost by it."""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from controlplane import clock
from controlplane.models import AuditEntry, PolicyRevision
from controlplane.services import audit, policies, reviews
from tests import factories
from tests.conftest import NOON

BEFORE_INDEXES = ("controlplane", "0021_tool_changes")
BEFORE_REVIEWS = ("controlplane", "0007_alert_causes")

pytestmark = pytest.mark.django_db(transaction=True)


def migrate(*target):
    said = io.StringIO()
    call_command("migrate", *target, interactive=False, stdout=said)
    return said.getvalue()


@pytest.fixture
def lived_in():
    with clock.frozen(NOON):
        cast = factories.cast(NOON)
        policies.publish(environment=cast.prod, level="dependency", dependency=cast.crm_db, values={"min_calls": 9},
                         reason="x", actor="petra", now=NOON)  # fmt: skip
        reviews.propose(environment=cast.prod, level="dependency", dependency=cast.crm_db, values={"min_calls": 7},
                        reason="y", actor="petra", now=NOON)  # fmt: skip
        yield cast


def rows():
    return set(PolicyRevision.objects.values_list("number", "status", "reason"))


def test_migrating_twice_changes_nothing(lived_in):
    before = rows()

    assert "No migrations to apply" in migrate()

    assert rows() == before
    assert audit.verify().broken_at is None


def test_a_downgrade_keeps_what_the_older_version_knows_and_the_way_back_is_open(lived_in):
    before, entries = rows(), AuditEntry.objects.count()

    try:
        migrate(*BEFORE_REVIEWS)
        with connection.cursor() as cursor:
            cursor.execute("SELECT number, status, reason FROM controlplane_policyrevision")
            older = set(cursor.fetchall())
    finally:
        migrate()

    assert older == before == rows()
    assert not MigrationExecutor(connection).migration_plan(MigrationExecutor(connection).loader.graph.leaf_nodes())
    assert (AuditEntry.objects.count(), audit.verify().broken_at) == (entries, None)


def test_indexes_that_stand_already_or_were_left_half_built_are_built_anew(lived_in):
    try:
        migrate(*BEFORE_INDEXES)
        with connection.cursor() as cursor:
            cursor.execute("CREATE INDEX run_healthy ON controlplane_run (agent_id)")
            cursor.execute("CREATE INDEX trip_scope ON controlplane_trip (scope)")
            cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'trip_scope'::regclass")
    finally:
        migrate()

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text, indisvalid, indnatts FROM pg_index "
            "WHERE indexrelid IN ('run_healthy'::regclass, 'trip_scope'::regclass) ORDER BY 1"
        )
        assert cursor.fetchall() == [("run_healthy", True, 3), ("trip_scope", True, 4)]
