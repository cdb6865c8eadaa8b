"""Agents that vanish do not leave runs running for ever."""

import uuid
from datetime import timedelta

import pytest

from controlplane.models import Run
from controlplane.services import runs
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return factories.cast()


def _run(cast, **more):
    session = cast.sessions[0]
    fields = {
        "id": uuid.uuid4(),
        "environment": cast.prod,
        "agent": cast.research,
        "worker": session.worker,
        "session": session.pk,
        "revision": 1,
        "status": "running",
        "started_at": NOON - timedelta(seconds=60),
        "reported_at": NOON,
    }
    return Run.objects.create(**{**fields, **more})


def _later(seconds):
    return NOON + timedelta(seconds=seconds)


def test_a_run_whose_session_vanished_is_abandoned_when_it_was_last_heard(cast):
    row = _run(cast)

    assert runs.abandon_lost(now=_later(121)) == 1

    row.refresh_from_db()
    assert (row.status, row.end_cause, row.ended_at) == ("abandoned", "session_lost", NOON)


def test_a_run_whose_session_is_gone_altogether_is_abandoned(cast):
    _run(cast, session=uuid.uuid4())

    assert runs.abandon_lost(now=_later(121)) == 1


def test_a_run_that_is_quiet_while_its_session_lives_goes_on(cast):
    _run(cast)
    cast.sessions[0].last_seen_at = _later(100)
    cast.sessions[0].save()

    assert runs.abandon_lost(now=_later(121)) == 0


def test_a_run_heard_lately_goes_on(cast):
    _run(cast)

    assert runs.abandon_lost(now=_later(119)) == 0


@pytest.mark.parametrize("status", ["finished", "ended", "abandoned"])
def test_a_run_that_has_ended_stays_as_it_ended(cast, status):
    row = _run(cast, status=status)

    assert runs.abandon_lost(now=_later(10_000)) == 0
    row.refresh_from_db()
    assert row.status == status


def test_so_many_at_a_time(cast):
    for _ in range(3):
        _run(cast)

    assert [runs.abandon_lost(now=_later(121), limit=2) for _ in range(3)] == [2, 1, 0]
