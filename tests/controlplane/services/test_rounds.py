"""Recovery is tested by one round at a time; what comes late or twice changes nothing."""

import uuid
from datetime import timedelta

import pytest
from recloser.core.types import Verdict

from controlplane import clock
from controlplane.models import Outage, ProbeRound, Transition
from controlplane.selectors import due
from controlplane.services import circuits
from tests.controlplane.evidence.batches import observe

pytestmark = pytest.mark.django_db


@pytest.fixture
def opened(cast, set_policy, add_probe):
    """search-api is open, and has a probe of web_search."""
    set_policy(cast.search_api, settle_s=0, jitter=0)
    add_probe(cast.search_api)
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, failures=10)
    circuits.consider(dependency_id=cast.search_api.pk, now=clock.now())
    return cast.search_api


def _claim():
    return circuits.claim_rounds(now=clock.now())


def _finish(probe_round, verdict=Verdict.GOOD, **more):
    return circuits.finish_round(
        round_id=probe_round.pk, verdict=verdict, now=clock.now(), **({"operation": "web_search"} | more)
    )


def test_nothing_is_claimed_before_it_is_due(opened, frozen_clock):
    frozen_clock.advance(29)
    assert _claim() == []
    frozen_clock.advance(1)
    assert len(_claim()) == 1


def test_a_round_makes_it_half_open_and_is_granted_once(opened, frozen_clock, row_of):
    due_at = row_of(opened).due_at
    frozen_clock.advance(30)
    (granted,) = _claim()

    row = row_of(opened)
    assert (row.state, row.generation, granted.generation) == ("half_open", 2, 2)
    assert (granted.due_at, granted.operation) == (due_at, "web_search")
    assert granted.lease_expires_at == row.sweep_at == clock.now() + timedelta(seconds=10)
    assert _claim() == []


def test_without_an_enabled_probe_it_waits_and_is_swept_in_vain_only_once(opened, cast, frozen_clock, row_of):
    cast.search_api.probe.delete()
    frozen_clock.advance(31)

    assert _claim() == []
    assert circuits.sweep_due(now=clock.now()) == 0
    assert row_of(opened).sweep_at == Outage.objects.get().started_at + timedelta(seconds=600)


def test_a_good_round_closes_and_ends_the_outage(opened, frozen_clock, row_of):
    frozen_clock.advance(30)
    (granted,) = _claim()

    assert _finish(granted, answered={"status": 200})

    row = row_of(opened)
    granted.refresh_from_db()
    assert (row.state, row.generation, row.opened_at, row.due_at) == ("closed", 3, None, None)
    assert Outage.objects.get().ended_at == clock.now()
    assert (granted.verdict, granted.applied, granted.answered["status"]) == ("good", True, 200)
    assert [each.cause for each in Transition.objects.order_by("generation")] == [
        "failure_rate",
        "probe_started",
        "probe_passed",
    ]


def test_a_bad_round_opens_again_and_waits_longer_within_the_same_outage(opened, frozen_clock, row_of):
    frozen_clock.advance(30)
    (granted,) = _claim()

    assert _finish(granted, Verdict.BAD)

    assert row_of(opened).due_at == clock.now() + timedelta(seconds=45)
    assert Outage.objects.get().ended_at is None


def test_a_repeated_delivery_changes_nothing(opened, frozen_clock, row_of):
    frozen_clock.advance(30)
    (granted,) = _claim()
    _finish(granted, Verdict.BAD)
    before = row_of(opened)

    assert not _finish(granted, Verdict.GOOD)

    granted.refresh_from_db()
    assert granted.verdict == "bad"
    assert (row_of(opened).state, row_of(opened).version) == ("open", before.version)


def test_a_round_without_a_verdict_is_written_off_and_its_late_answer_has_no_say(opened, frozen_clock, row_of):
    frozen_clock.advance(30)
    (granted,) = _claim()
    frozen_clock.advance(10)

    assert circuits.sweep_due(now=clock.now()) == 1
    assert not _finish(granted, Verdict.GOOD)

    row = row_of(opened)
    granted.refresh_from_db()
    assert (row.state, row.cause, granted.verdict, granted.applied) == (
        "open",
        "probe_inconclusive",
        "inconclusive",
        False,
    )
    assert row.due_at == clock.now() + timedelta(seconds=30)


def test_an_answer_after_the_lease_is_late_even_if_nobody_swept(opened, frozen_clock, row_of):
    frozen_clock.advance(30)
    (granted,) = _claim()
    frozen_clock.advance(10)

    assert not _finish(granted, Verdict.GOOD)
    assert row_of(opened).state == "open"


def test_a_force_close_beats_the_probe_still_running(opened, frozen_clock, row_of):
    frozen_clock.advance(30)
    (granted,) = _claim()
    circuits.force_close(dependency_id=opened.pk, actor="otto", reason="vendor says so", now=clock.now())

    assert not _finish(granted, Verdict.BAD)
    assert row_of(opened).state == "closed"


def test_a_verdict_of_an_earlier_outage_says_nothing_about_this_one(opened, cast, frozen_clock, row_of):
    frozen_clock.advance(30)
    (old,) = _claim()
    circuits.force_close(dependency_id=opened.pk, actor="otto", reason="mended", now=clock.now())
    generation = row_of(opened).generation
    for session in cast.sessions[:2]:
        observe(session, opened, failures=10, generation=generation)
    circuits.consider(dependency_id=opened.pk, now=clock.now())
    frozen_clock.advance(30)
    _claim()

    assert not _finish(old, Verdict.GOOD)
    assert row_of(opened).state == "half_open"


def test_a_good_probe_of_another_operation_does_not_close(opened, frozen_clock, row_of):
    frozen_clock.advance(30)
    (granted,) = _claim()

    assert _finish(granted, Verdict.GOOD, operation="list")

    granted.refresh_from_db()
    assert (row_of(opened).state, granted.verdict) == ("open", "inconclusive")


def test_several_good_rounds_in_a_row_may_be_asked_for(opened, set_policy, frozen_clock, row_of):
    set_policy(opened, probe_successes=2, jitter=0, settle_s=0)
    frozen_clock.advance(30)
    (first,) = _claim()
    _finish(first)
    assert (row_of(opened).state, row_of(opened).due_at) == ("open", clock.now() + timedelta(seconds=5))
    frozen_clock.advance(5)
    (second,) = _claim()
    _finish(second)

    assert row_of(opened).state == "closed"


def test_open_for_too_long_is_a_lockout_and_probing_goes_on(opened, frozen_clock, row_of):
    frozen_clock.advance(600)

    assert circuits.sweep_due(now=clock.now()) == 1

    row = row_of(opened)
    assert row.locked_out_at == Outage.objects.get().locked_out_at == clock.now()
    assert (row.state, row.generation) == ("open", 1)
    assert len(_claim()) == 1


def test_with_no_probe_for_ten_minutes_it_does_not_close_by_itself(opened, frozen_clock, row_of):
    frozen_clock.advance(650)
    circuits.sweep_due(now=clock.now())

    assert row_of(opened).state == "open"


def test_an_unknown_round_is_refused_without_a_fuss(opened):
    assert not circuits.finish_round(round_id=uuid.uuid4(), verdict=Verdict.GOOD, now=clock.now())


def test_a_step_of_the_clock_moves_deadlines_and_leases_with_it(opened, frozen_clock, row_of):
    frozen_clock.advance(30)
    (granted,) = _claim()
    frozen_clock.advance(-7200)

    circuits.shift_deadlines(by_s=-7200)

    assert row_of(opened).sweep_at == clock.now() + timedelta(seconds=10)
    assert ProbeRound.objects.get(pk=granted.pk).lease_expires_at == clock.now() + timedelta(seconds=10)
    assert _finish(granted)
    assert row_of(opened).state == "closed"


def test_the_scheduler_learns_when_to_look_again(opened, frozen_clock):
    assert due.next_due_s(clock.now()) == 30
    frozen_clock.advance(30)
    _claim()

    assert due.next_due_s(clock.now()) == 10
