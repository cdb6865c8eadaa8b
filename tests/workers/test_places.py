"""One round asked from several places: one id, one lease, one verdict."""

from datetime import timedelta

import pytest
from recloser.core.types import Verdict

from controlplane import clock
from controlplane.models import ProbeRound, ProbeVote
from controlplane.services import circuits, system, votes
from tests.factories import NOON
from tests.workers.stage import staged
from workers import vantage
from workers.tasks.probes import run_votes

pytestmark = pytest.mark.django_db


@pytest.fixture
def stage(frozen_clock):
    made = staged()
    made.policy(vantage_points=3, vantage_quorum=2)
    return made


def alive(*names):
    for name in ("", *names):
        detail = {"listening": True, "vantage": name}
        system.beat(kind="worker", name=f"host:{name or 'here'}", detail=detail)


def grant():
    [row] = circuits.claim_rounds(now=clock.now(), limit=5)
    return row, votes.to_ask([row.pk])


def answer(vendor, path):
    from tests.workers.vendor import reply

    vendor.routes["/turn"] = reply(200 if path == "good" else 503)


def open_with_probe(stage, vendor):
    stage.probe(f"{vendor.url}/turn")
    stage.open()


def test_two_good_votes_of_three_close_it_and_the_third_has_no_say(stage, vendor):
    alive("eu", "us")
    open_with_probe(stage, vendor)
    row, seats = grant()

    assert sorted(seats) == ["eu", "here", "us"]
    answer(vendor, "good")
    run_votes([str(pk) for pk in seats["here"]])
    assert stage.circuit.state == "half_open"
    run_votes([str(pk) for pk in seats["eu"]])
    assert stage.closed
    answer(vendor, "bad")
    run_votes([str(pk) for pk in seats["us"]])

    row.refresh_from_db()
    assert (row.verdict, row.places_wanted, row.quorum, ProbeRound.objects.count()) == ("good", 3, 2, 1)
    assert {each.place: each.verdict for each in row.votes.all()} == {"here": "good", "eu": "good", "us": ""}
    assert stage.closings == 1


def test_two_bad_votes_of_three_are_one_bad_round(stage, vendor):
    alive("eu", "us")
    open_with_probe(stage, vendor)
    row, seats = grant()
    answer(vendor, "bad")
    for place in ("here", "us"):
        run_votes([str(pk) for pk in seats[place]])

    row.refresh_from_db()
    assert (row.verdict, stage.bad_rounds, stage.circuit.core["failed_rounds"]) == ("bad", 1, 1)
    assert vendor.count("/turn") == 2


def test_a_place_that_answers_twice_votes_once(stage, vendor):
    alive("eu", "us")
    open_with_probe(stage, vendor)
    _, seats = grant()
    answer(vendor, "good")
    for _ in range(3):
        run_votes([str(pk) for pk in seats["here"]])

    assert stage.circuit.state == "half_open"
    assert vendor.count("/turn") == 1


def test_with_fewer_places_alive_the_round_uses_what_there_is_and_says_so(stage, vendor):
    alive()
    open_with_probe(stage, vendor)
    row, seats = grant()
    answer(vendor, "good")
    run_votes([str(pk) for pk in seats["here"]])

    row.refresh_from_db()
    assert stage.closed
    assert (row.places_wanted, row.quorum, row.votes.count()) == (3, 1, 1)


def test_a_place_that_never_answers_leaves_the_round_inconclusive_at_the_end_of_its_lease(stage, vendor):
    alive("eu", "us")
    open_with_probe(stage, vendor)
    row, seats = grant()
    answer(vendor, "good")
    run_votes([str(pk) for pk in seats["here"]])
    circuits.sweep_due(now=row.lease_expires_at + timedelta(seconds=1), limit=10)

    row.refresh_from_db()
    assert (row.verdict, stage.circuit.state) == ("inconclusive", "open")
    assert votes.cast(votes=[votes.Cast(seats["eu"][0], Verdict.GOOD)], now=NOON) == {seats["eu"][0]: False}


def test_one_place_alone_has_no_seats(stage, vendor):
    stage.policy(vantage_points=1, vantage_quorum=1)
    open_with_probe(stage, vendor)
    row, seats = grant()

    assert (row.quorum, seats, ProbeVote.objects.count()) == (None, {}, 0)


def test_a_place_has_a_queue_of_its_own():
    assert (vantage.queue_of("here"), vantage.queue_of("eu")) == (None, "vantage.eu")
