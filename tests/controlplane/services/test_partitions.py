"""Partitions are there before their rows, and gone when retention has passed."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from controlplane import clock
from controlplane.models import Observation, RollupMark
from controlplane.services import partitions
from tests.controlplane.evidence.batches import observe

pytestmark = pytest.mark.django_db


def _where(row_id):
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM observation WHERE id = %s", [row_id])
        return cursor.fetchone()[0]


def _newest():
    return Observation.objects.order_by("-id").first()


def test_days_and_months_are_made_ahead_once():
    now = datetime(2027, 3, 30, 23, tzinfo=UTC)

    made = partitions.make_ahead(now=now)

    assert made == [
        *("observation_20270330", "observation_20270331", "observation_20270401", "observation_20270402"),
        *("rollup_minute_20270330", "rollup_minute_20270331", "rollup_minute_20270401", "rollup_minute_20270402"),
        *("audit_entry_202703", "audit_entry_202704", "audit_entry_202705"),
        *("rollup_hour_202703", "rollup_hour_202704", "rollup_hour_202705"),
    ]
    assert partitions.make_ahead(now=now) == []


def test_the_migration_made_the_first_ones():
    today = datetime.now(UTC)
    assert f"observation_{today:%Y%m%d}" not in partitions.make_ahead(now=today)


def test_a_new_row_lies_in_its_days_partition(cast):
    partitions.make_ahead(now=clock.now())
    observe(cast.sessions[0], cast.search_api, ok=1, count=False)

    assert _where(_newest().id) == "observation_20260601"


def test_rows_that_waited_in_default_move_into_their_partition(cast):
    observe(cast.sessions[0], cast.search_api, ok=1, count=False)
    row = _newest()
    assert _where(row.id) == "observation_default"

    partitions.make_ahead(now=clock.now())

    assert _where(row.id) == "observation_20260601"


@pytest.fixture
def all_rolled_up():
    """As if they were: what a test has not committed cannot be. Rollups have tests of their own."""
    RollupMark.objects.create(pk=1, stored_by=2**62)


def test_raw_rows_are_kept_for_48_hours_and_then_dropped_with_their_day(cast, all_rolled_up):
    partitions.make_ahead(now=clock.now())
    observe(cast.sessions[0], cast.search_api, ok=1, count=False)
    row = _newest()
    end_of_day = clock.now().replace(hour=0) + timedelta(days=1)

    partitions.drop_old(now=end_of_day + timedelta(hours=47))
    assert Observation.objects.filter(id=row.id).exists()
    assert "observation_20260601" in partitions.drop_old(now=end_of_day + timedelta(hours=48))
    assert not Observation.objects.filter(id=row.id).exists()


def test_old_rows_in_default_go_too(cast, all_rolled_up):
    observe(cast.sessions[0], cast.search_api, ok=1, count=False)
    row = _newest()

    partitions.drop_old(now=clock.now() + timedelta(hours=49))

    assert not Observation.objects.filter(id=row.id).exists()


def test_the_audit_in_default_stays_where_it_is():
    from controlplane.services import audit

    with clock.frozen(datetime(2031, 1, 5, tzinfo=UTC)):
        audit.record(actor="ada", action="x", target="y", accepted=True)
        made = partitions.make_ahead(now=clock.now())

    assert "audit_entry_203101" not in made and "audit_entry_203102" in made
