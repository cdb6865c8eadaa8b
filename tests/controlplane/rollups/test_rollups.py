"""Every observation is added up once: late, repeated, interrupted or still in flight."""

from datetime import timedelta

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.models import Observation, RollupDay, RollupHour, RollupMark, RollupMinute
from controlplane.models.rollup import OUTCOMES
from controlplane.services import partitions, rollups
from tests.controlplane.rollups import rows
from tests.controlplane.rollups.rows import Slice, assert_equal_to_the_raw_rows, rolled, store
from tests.factories import NOON

pytestmark = pytest.mark.usefixtures("nothing")

SLICES = st.builds(
    Slice,
    age_s=st.sampled_from([0.0, 0.5, 30.0, 59.9, 60.0, 61.0, 3599.0, 3600.0, 7300.0, 86_400.0, 90_000.0]),
    dependency=st.integers(1, 2),
    tool=st.integers(1, 2),
    agent=st.integers(1, 2),
    environment=st.integers(1, 2),
    worker=st.integers(1, 3),
    counts=st.dictionaries(st.sampled_from(OUTCOMES), st.integers(0, 5)),
    attempts=st.integers(0, 9),
    slow=st.integers(0, 3),
    milliseconds=st.integers(0, 60_000).map(float),
    counted=st.booleans(),
    received_at=st.integers(0, 200).map(lambda s: NOON + timedelta(seconds=s)),
)


class _Crash(Exception):
    pass


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(SLICES, max_size=6), max_size=5), limit=st.integers(1, 8), crashes=st.booleans())
def test_the_sums_are_those_of_the_raw_rows(monkeypatch, batches, limit, crashes):
    rows.empty()
    for batch in batches:
        store(*batch)
        if crashes:
            with monkeypatch.context() as patch, pytest.raises(_Crash):
                patch.setattr(rollups, "_move", _crash)
                rollups.roll_up(limit=limit)
        rollups.roll_up(limit=limit)
        assert_equal_to_the_raw_rows()


def _crash(*_):
    raise _Crash


def test_a_crash_between_two_transactions_loses_and_repeats_nothing(monkeypatch):
    store(*(Slice(age_s=second) for second in range(10)))
    moved = []
    real = rollups._move

    def crash_at_the_third(*given):
        moved.append(given)
        if len(moved) == 3:
            raise _Crash
        real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(rollups, "_move", crash_at_the_third)
        with pytest.raises(_Crash):
            rollups.roll_up(limit=2)
    assert 0 < sum(each["observations"] for each in rolled(RollupDay).values()) < 10

    rollups.roll_up(limit=2)
    assert_equal_to_the_raw_rows()


def test_a_late_row_is_added_to_its_minute_once():
    store(Slice(counts={"ok": 3}))
    rollups.roll_up()
    store(Slice(counts={"timeout": 2}, received_at=NOON + timedelta(seconds=100), age_s=100))
    assert rollups.roll_up() == 1
    assert rollups.roll_up() == 0

    [(key, minute)] = rolled(RollupMinute).items()
    assert key[-1] == NOON
    assert (minute["ok"], minute["timeout"], minute["observations"]) == (3, 2, 2)


def test_a_row_that_is_committed_after_younger_ones_were_rolled_up_is_not_lost(another_connection):
    store(Slice(counts={"ok": 1}), through=another_connection)
    store(Slice(counts={"ok": 10}))
    rollups.roll_up()
    another_connection.commit()
    store(Slice(counts={"ok": 100}))
    rollups.roll_up()

    assert [each["ok"] for each in rolled(RollupMinute).values()] == [111]


def test_whoever_comes_second_leaves_it_to_the_first(another_connection):
    store(Slice())
    RollupMark.objects.create(pk=1)
    another_connection.execute("SELECT FROM controlplane_rollupmark FOR UPDATE")

    assert rollups.roll_up() == 0
    another_connection.rollback()
    assert rollups.roll_up() == 1


def test_hours_are_the_sums_of_minutes_and_days_of_hours():
    store(*(Slice(age_s=600.0 * n, counts={"ok": n}) for n in range(1, 20)))
    rollups.roll_up()

    total = sum(range(1, 20))
    for level in (RollupMinute, RollupHour, RollupDay):
        assert sum(each["ok"] for each in rolled(level).values()) == total
    assert len(rolled(RollupMinute)) > len(rolled(RollupHour)) > len(rolled(RollupDay)) == 1


@pytest.mark.parametrize("restored_mark", [10**12])
def test_after_a_restore_onto_another_server_nothing_is_added_twice_and_nothing_is_lost(restored_mark):
    store(Slice(counts={"ok": 1}))
    rollups.roll_up()
    old = Observation.objects.get()
    _as_on_the_old_server(old.id, restored_mark - 5)
    RollupMark.objects.update(stored_by=restored_mark)
    store(Slice(counts={"ok": 10}))
    waiting = Observation.objects.latest("id")
    _as_on_the_old_server(waiting.id, restored_mark + 5)
    store(Slice(counts={"ok": 100}))

    rollups.roll_up()
    store(Slice(counts={"ok": 1000}))
    rollups.roll_up()

    assert [each["ok"] for each in rolled(RollupMinute).values()] == [1111]


def _as_on_the_old_server(row_id, stored_by):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE observation SET stored_by = %s WHERE id = %s", [stored_by, row_id])


def test_raw_rows_that_are_not_rolled_up_outlive_their_retention():
    partitions.make_ahead(now=NOON)
    store(Slice(), Slice(received_at=NOON - timedelta(days=1)))
    later = NOON + timedelta(days=5)

    dropped = partitions.drop_old(now=later)
    assert "observation_20260601" not in dropped
    assert Observation.objects.count() == 2

    rollups.roll_up()
    assert "observation_20260601" in partitions.drop_old(now=later)
    assert Observation.objects.count() == 0
    assert sum(each["ok"] for each in rolled(RollupDay).values()) == 2


def test_minutes_go_after_two_weeks_hours_after_a_year_and_days_stay():
    partitions.make_ahead(now=NOON)
    store(Slice(), Slice(age_s=86_400.0))
    rollups.roll_up()

    partitions.drop_old(now=NOON + timedelta(days=16))
    assert not rolled(RollupMinute)
    assert len(rolled(RollupHour)) == 2
    partitions.drop_old(now=NOON + timedelta(days=400))
    assert not rolled(RollupHour)
    assert len(rolled(RollupDay)) == 2


def test_settings_say_how_long(settings):
    settings.KEEP_MINUTES_DAYS = 1
    partitions.make_ahead(now=NOON)
    store(Slice())
    rollups.roll_up()
    partitions.drop_old(now=NOON + timedelta(days=2))

    assert not rolled(RollupMinute)
