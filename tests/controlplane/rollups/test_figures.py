"""A figure is the same whatever it is read from, and says how fine it is."""

import uuid
from datetime import timedelta

import pytest

from controlplane.models import Run, RunHour
from controlplane.selectors import figures
from controlplane.selectors.figures import DAYS, HOURS, MINUTES, RAW
from controlplane.services import rollups
from controlplane.services import runs as runs_service
from tests import factories
from tests.controlplane.rollups.rows import Slice, store
from tests.factories import NOON

pytestmark = pytest.mark.usefixtures("nothing")


def _ask(since, until=NOON + timedelta(minutes=1), **more):
    return figures.figures(environment_id=1, since=since, until=until, now=NOON, **more)


def test_the_resolution_is_the_finest_that_holds_all_of_it():
    def resolution(age, span):
        return _ask(NOON - age, NOON - age + span).resolution

    minutes, hours, days = (lambda n: timedelta(minutes=n)), (lambda n: timedelta(hours=n)), (lambda n: timedelta(n))
    assert resolution(minutes(5), minutes(5)) == "raw"
    assert resolution(hours(47), minutes(10)) == "raw"
    assert resolution(hours(49), minutes(10)) == "1 min"
    assert resolution(hours(6), hours(6)) == "1 min"
    assert resolution(days(15), hours(6)) == "1 h"
    assert resolution(days(7), days(7)) == "1 h"
    assert resolution(days(400), days(1)) == "1 d"


def test_every_level_gives_the_same_sums():
    store(
        *(
            Slice(age_s=7.0 * n, counts={"ok": n, "timeout": 1}, tool=1 + n % 2, milliseconds=n * 10.0)
            for n in range(9)
        ),
        Slice(age_s=3.0, counts={"empty": 2}, counted=False),
        Slice(age_s=3.0, counts={"ok": 99}, environment=2),
    )
    rollups.roll_up()
    since, until = NOON.replace(hour=0), NOON.replace(hour=0) + timedelta(days=1)

    answers = [_ask(since, until, by=("tool",), level=level) for level in (RAW, MINUTES, HOURS, DAYS)]

    assert all(each.lines == answers[0].lines for each in answers[1:])
    total = answers[0].total
    assert (total.ok, total.empty, total.timeout, total.judged) == (36, 2, 9, 47)
    assert (total.counted, total.not_counted, total.observations) == (45, 2, 10)


def test_a_window_is_moved_outwards_to_the_bounds_of_its_buckets():
    store(Slice(counts={"ok": 1}, received_at=NOON + timedelta(seconds=5)))
    rollups.roll_up()
    answer = _ask(NOON + timedelta(seconds=10), NOON + timedelta(seconds=70), level=MINUTES)

    assert (answer.since, answer.until) == (NOON, NOON + timedelta(minutes=2))
    assert answer.total.ok == 1
    assert answer.rolled_up_at is not None
    assert _ask(NOON + timedelta(seconds=10), NOON + timedelta(seconds=70), level=RAW).total.ok == 0


def test_step_by_step_each_bucket_is_a_line():
    store(*(Slice(age_s=60.0 * n, counts={"ok": 10 + n}) for n in range(3)))
    rollups.roll_up()
    answer = _ask(NOON - timedelta(hours=1), by=(), stepwise=True)

    assert [(line.at, line.figure.ok) for line in answer.lines] == [
        (NOON - timedelta(minutes=2), 12), (NOON - timedelta(minutes=1), 11), (NOON, 10)
    ]  # fmt: skip


def test_one_dependency_alone():
    store(Slice(dependency=1), Slice(dependency=2), Slice(dependency=3))
    rollups.roll_up()
    answer = _ask(NOON - timedelta(hours=1), dependency_ids=[2, 3])

    assert [line.group for line in answer.lines] == [(2,), (3,)]


def test_an_empty_stretch_is_no_figure():
    answer = _ask(NOON - timedelta(hours=1), by=())
    assert answer.lines == []
    assert (answer.total.failure_rate, answer.total.latency_ms(0.5), answer.total.latency_mean_ms) == (None, None, None)


def test_latency_is_told_by_the_bounds_of_its_histogram():
    hist = [0] * 16
    hist[3], hist[9], hist[15] = 90, 9, 1
    figure = figures.Figure(latency_hist=tuple(hist), latency_sum_ms=1000.0, latency_max_ms=70_000.0)

    assert [figure.latency_ms(share) for share in (0.5, 0.9, 0.95, 1.0)] == [10.0, 10.0, 1000.0, 70_000.0]
    assert figure.latency_mean_ms == 10.0


def test_what_came_in_lately_by_dependency():
    cast = factories.cast()
    here = {"dependency": cast.search_api.pk, "environment": cast.prod.pk}
    store(
        Slice(**here, worker=1, counts={"ok": 3, "empty": 1}, age_s=2.0),
        Slice(**here, worker=2, counts={"timeout": 2, "rejected": 4}, slow=1),
        Slice(**here, worker=3, received_at=NOON - timedelta(seconds=61)),
        Slice(dependency=cast.staging_search_api.pk),
    )
    found = figures.recent(cast.prod.pk, 60.0, NOON)

    assert list(found) == [cast.search_api.pk]
    calls = found[cast.search_api.pk]
    assert (calls.ok, calls.failures, calls.slow, calls.rejected) == (4, 2, 1, 4)
    assert (calls.workers, calls.failing, calls.last_ok_at) == (2, 1, NOON - timedelta(seconds=2))


def test_runs_by_agent():
    cast = factories.cast()
    for degraded, agent in ((False, cast.research), (True, cast.research), (False, cast.support)):
        Run.objects.create(
            id=uuid.uuid4(), environment=cast.prod, agent=agent, revision=1, status="finished", started_at=NOON,
            reported_at=NOON, degraded=degraded, disclosed=False if degraded else None,
        )  # fmt: skip
    runs_service.add_up_hours(now=NOON + timedelta(minutes=1))
    found = figures.runs(environment_id=cast.prod.pk, since=NOON, until=NOON + timedelta(hours=1))

    assert RunHour.objects.count() == 2
    assert found[cast.research.pk].degraded_share == 0.5
    assert found[cast.research.pk].undisclosed_share == 0.5
    assert found[cast.support.pk].degraded_share == 0.0
