"""Runs by the hour, and what becomes of runs that are old."""

import uuid
from datetime import timedelta

import pytest

from controlplane.models import Run, RunHour, StepLog
from controlplane.services import runs
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return factories.cast()


def _run(cast, *, started=NOON, **more):
    fields = {
        "id": uuid.uuid4(), "environment": cast.prod, "agent": cast.research, "session": cast.sessions[0].pk,
        "revision": 1, "status": "finished", "started_at": started, "reported_at": started + timedelta(seconds=60),
        "steps": 4, "tool_seconds": 2.0, "model_seconds": 3.0, "tokens": 100, "cost": 0.5,
    }  # fmt: skip
    return Run.objects.create(**{**fields, **more})


def _later(**more):
    return NOON + timedelta(**more)


def _hours(*names):
    return list(RunHour.objects.order_by("at", "agent_id").values_list(*names))


def test_an_hour_says_how_many_lacked_a_tool_and_how_many_kept_silent_about_it(cast):
    _run(cast)
    _run(cast, degraded=True, disclosed=True)
    _run(cast, degraded=True, disclosed=False, status="ended")
    _run(cast, agent=cast.support)
    _run(cast, started=_later(hours=1))

    assert runs.add_up_hours(now=_later(minutes=90)) == 3
    assert _hours("runs", "degraded", "undisclosed", "ended", "tokens", "cost") == [
        (3, 2, 1, 1, 300, 1.5), (1, 0, 0, 0, 100, 0.5), (1, 0, 0, 0, 100, 0.5)
    ]  # fmt: skip


def test_a_later_report_changes_its_hour_and_a_second_look_changes_nothing(cast):
    row = _run(cast, status="running")
    runs.add_up_hours(now=_later(minutes=2))
    Run.objects.filter(pk=row.pk).update(degraded=True, disclosed=False, revision=2, reported_at=_later(hours=3))
    for _ in range(2):
        runs.add_up_hours(now=_later(hours=3, seconds=1))

    assert _hours("runs", "degraded", "undisclosed") == [(1, 1, 1)]


def test_an_hour_without_news_is_not_made_again(cast):
    _run(cast)
    runs.add_up_hours(now=_later(minutes=2))

    assert runs.add_up_hours(now=_later(hours=1)) == 1  # what was in flight at the last look is looked at again
    assert runs.add_up_hours(now=_later(hours=2)) == 0


def test_an_abandoned_run_is_one_in_its_hour(cast):
    row = _run(cast, status="running", session=uuid.uuid4())
    runs.add_up_hours(now=_later(minutes=2))
    runs.abandon_lost(now=row.reported_at + timedelta(days=1))

    assert _hours("runs", "abandoned") == [(1, 1)]


def test_of_healthy_runs_a_share_is_kept_and_all_that_someone_will_want_to_read(cast, settings):
    settings.KEEP_RUNS_SHARE = 0.25
    for _ in range(80):
        _run(cast)
    degraded, failed = _run(cast, degraded=True), _run(cast, status="ended")
    runs.add_up_hours(now=_later(hours=1))
    runs.prune_runs(now=_later(days=13))
    assert Run.objects.count() == 82

    runs.prune_runs(now=_later(days=15))
    kept = Run.objects.filter(status="finished", degraded=False).count()
    assert 5 <= kept <= 40
    assert Run.objects.filter(pk__in=[degraded.pk, failed.pk]).count() == 2
    assert _hours("runs") == [(82,)]

    runs.add_up_hours(now=_later(days=15))
    runs.prune_runs(now=_later(days=400))
    assert Run.objects.count() == 0
    assert _hours("runs") == [(82,)]


def test_a_run_that_is_not_in_its_hour_yet_is_not_dropped(cast):
    _run(cast)
    assert runs.prune_runs(now=_later(days=400)) == 0
    assert Run.objects.count() == 1


def test_step_logs_go_before_their_runs(cast):
    log = StepLog.objects.create(run=_run(cast, degraded=True), lines=[{"step": 1}])
    assert runs.prune_step_logs(now=_later(days=89)) == 0
    assert runs.prune_step_logs(now=_later(days=91)) == 1
    assert Run.objects.filter(pk=log.run_id).exists()


def test_a_dropped_run_takes_its_step_log_along(cast):
    StepLog.objects.create(run=_run(cast, degraded=True), lines=[])
    runs.add_up_hours(now=_later(hours=1))
    assert runs.prune_runs(now=_later(days=400)) == 1
    assert not StepLog.objects.exists()
