"""Trips: the explorer's filters, one trip in full, and what people say of it."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from controlplane.models import AuditEntry, Trip
from controlplane.selectors import trips as selector
from tests.conftest import NOON
from tests.dashboard import stage


def listed(client, **query):
    return client.get(reverse("dashboard:trips"), query)


def found(answer):
    return [trip.pk for trip in answer.context["found"].trips]


def trip(cast, at=NOON, **given):
    values = {
        "environment": cast.prod, "scope": "run", "signal": "consecutive_failures", "delivery": "enforce",
        "tool": cast.tools["web_search"], "dependency": cast.search_api, "worker": cast.workers[0],
        "evidence": {"consecutive_failures": 5}, "threshold": {"consecutive_failures": 5}, "at": at, "received_at": at,
        "action": "remove_tool",
    }  # fmt: skip
    return Trip.objects.create(**(values | given))


@pytest.fixture
def three(cast):
    """A run's, a worker's and the fleet's."""
    run = trip(cast, run=uuid.uuid4(), step=4)
    worker = trip(
        cast, NOON - timedelta(hours=2), scope="worker", tool=cast.tools["refund"], dependency=cast.payments,
        delivery="observe", worker=None, key=cast.support_key, action="",
    )  # fmt: skip
    stage.opened(cast.crm_db, NOON - timedelta(days=2))
    return run, worker, Trip.objects.get(scope="fleet")


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ({}, [0, 1, 2]),
        ({"signal": "failure_rate"}, [2]),
        ({"scope": "worker"}, [1]),
        ({"tool": "web_search"}, [0]),
        ({"dependency": "payments"}, [1]),
        ({"agent": "research"}, [0]),
        ({"agent": "support"}, [1]),
        ({"side_effect": "side_effect"}, [1]),
        ({"side_effect": "read_only"}, [0, 2]),
        ({"delivery": "observe"}, [1]),
        ({"within": "24h"}, [0, 1]),
        ({"from": "2026-06-01T11:00"}, [0]),
        ({"to": "2026-05-31T00:00"}, [2]),
        ({"mark": "false"}, []),
        ({"environment": "staging"}, []),
    ],
)
def test_filters_narrow_the_list(cast, three, as_, query, places):
    assert found(listed(as_(cast.ann), **query)) == [three[place].pk for place in places]


@pytest.mark.parametrize("query", [{"signal": "bad"}, {"tool": "a\x00b"}, {"before": "x", "id": "y"}, {"from": "noon"}])
def test_a_damaged_address_still_shows_a_list(cast, three, as_, query):
    assert listed(as_(cast.ann), **query).status_code == 200


def test_pages_follow_keys_and_keep_the_filters(cast, as_, monkeypatch):
    monkeypatch.setattr(selector.trips, "__kwdefaults__", {"after": None, "limit": 3})
    made = [trip(cast, NOON - timedelta(seconds=number // 2)).pk for number in range(8)]
    trip(cast, scope="worker")
    client, seen, address = as_(cast.ann), [], reverse("dashboard:trips") + "?environment=prod&scope=run"

    while address:
        answer = client.get(address)
        seen += found(answer)
        address = answer.context["next"] and reverse("dashboard:trips") + answer.context["next"]

    assert sorted(seen) == sorted(made)


@pytest.mark.parametrize("order", ["signal", "-signal", "scope", "-scope"])
def test_trips_with_the_same_signal_or_scope_follow_in_time_over_all_pages(cast, as_, monkeypatch, order):
    monkeypatch.setattr(selector.trips, "__kwdefaults__", selector.trips.__kwdefaults__ | {"limit": 3})
    for number in range(10):
        trip(cast, NOON - timedelta(seconds=number // 2), scope=("run", "worker")[number % 2],
             signal=("failure_rate", "no_progress")[number % 3 // 2])  # fmt: skip
    client, seen, address = as_(cast.ann), [], f"/trips/?environment=prod&order={order}"

    while address:
        answer = client.get(address)
        seen += answer.context["found"].trips
        address = answer.context["next"] and "/trips/" + answer.context["next"]

    name = order.removeprefix("-")
    places = [(getattr(one, name), one.at, one.pk) for one in seen]
    assert len(set(places)) == 10
    assert places == sorted(places, reverse=order.startswith("-"))


def test_a_stretch_of_time_that_ends_before_it_begins_holds_nothing(cast, three, as_):
    query = {"from": "2026-06-01T11:00", "to": "2026-06-01T10:00"}

    assert found(listed(as_(cast.ann), **query)) == []
    assert list(as_(cast.ann).get("/runs/", {"show": "all", **query}).context["found"].runs) == []


def test_a_trip_shows_its_evidence_its_step_and_whose_claims_it_rests_on(cast, three, as_):
    fleet = three[2]
    fleet.shares = {"keys": {"prodresearch": 1.0}, "workers": {"research/pod-1": 0.75, "research/pod-2": 0.25}}
    fleet.save()
    client = as_(cast.otto)

    text = client.get(reverse("dashboard:trip", args=[fleet.pk])).content.decode()
    run = client.get(reverse("dashboard:trip", args=[three[0].pk])).content.decode()

    assert "7 of 9 calls failed in 60 s, from 3 workers; trips at 50\u00a0%." in text
    assert text.index("research/pod-1") < text.index("research/pod-2") < text.index("prodresearch")
    assert "75\u00a0%" in text
    assert "step 4" in run and f"/runs/{three[0].run}/#step-4" not in run, "a run that is not there is no link"


def test_a_false_trip_is_marked_with_a_reason_and_taken_back(cast, three, as_):
    client, row = as_(cast.otto), three[0]
    mark = reverse("dashboard:mark-false", args=[row.pk])

    assert client.post(mark, {"token": uuid.uuid4(), "reason": ""}).status_code == 422
    client.post(mark, {"token": uuid.uuid4(), "reason": "a load test of ours"})

    row.refresh_from_db()
    assert (row.false_trip_by, row.false_trip_at) == ("otto", NOON)
    assert found(listed(client, mark="false")) == [row.pk]
    page = client.get(reverse("dashboard:trip", args=[row.pk])).content.decode()
    assert "a load test of ours" in page

    client.post(reverse("dashboard:unmark-false", args=[row.pk]), {"token": uuid.uuid4()})
    row.refresh_from_db()
    assert row.false_trip_at is None
    actions = AuditEntry.objects.order_by("id").values_list("action", flat=True)
    assert list(actions) == ["mark_false_trip", "unmark_false_trip"]


@pytest.mark.parametrize("name", ["ann", "petra"])
def test_who_may_not_mark_is_refused(cast, three, as_, name):
    answer = as_(getattr(cast, name)).post(
        reverse("dashboard:mark-false", args=[three[0].pk]), {"token": uuid.uuid4(), "reason": "no"}
    )

    assert answer.status_code == 403
    assert not Trip.objects.exclude(false_trip_at=None).exists()


def test_an_unknown_trip_is_an_error(cast, as_):
    assert as_(cast.ann).get(reverse("dashboard:trip", args=[uuid.uuid4()])).status_code == 404


def test_board_and_circuit_lead_to_the_trips(cast, three, as_):
    client = as_(cast.ann)

    assert f"/trips/{three[0].pk}/" in client.get("/?environment=prod").content.decode()
    assert "/trips/?environment=prod&amp;dependency=crm-db" in client.get("/circuits/prod/crm-db/").content.decode()


def test_the_number_of_queries_does_not_grow_with_the_list(cast, as_, django_assert_num_queries):
    for number in range(40):
        trip(cast, NOON - timedelta(seconds=number), run=uuid.uuid4(), key=cast.research_key)
    client = as_(cast.ann)

    with django_assert_num_queries(10):
        listed(client, agent="research", side_effect="read_only")


def test_one_trip_costs_a_bounded_number_of_queries(cast, three, as_, django_assert_num_queries):
    client = as_(cast.otto)

    with django_assert_num_queries(6):
        client.get(reverse("dashboard:trip", args=[three[0].pk]))
