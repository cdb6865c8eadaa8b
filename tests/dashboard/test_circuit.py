"""The page of one circuit."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse

from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage


def page(client, dependency="search-api", environment="prod"):
    return client.get(reverse("dashboard:circuit", args=[environment, dependency]))


@pytest.fixture
def outage(cast):
    at = NOON - timedelta(seconds=90)
    row = stage.opened(cast.search_api, at, failures=17, calls=23, due_in_s=110)
    stage.probe(cast.search_api, at)
    stage.probed(row, NOON - timedelta(seconds=40))
    stage.observed(cast.workers[0], cast.tools["web_search"], at - timedelta(seconds=5), timeout=9, ok=1)
    stage.observed(cast.workers[1], cast.tools["news_search"], at - timedelta(seconds=5), ok=8)
    return row


def test_it_shows_state_cause_evidence_and_what_comes_next(cast, outage, as_):
    text = page(as_(cast.otto)).content.decode()

    assert "mode: auto" in text
    assert "17 of 23 calls failed in 60 s, from 3 workers; trips at 50\u00a0%" in text
    assert "in 20 s" in text
    assert "503 in 84 ms, status wanted 200-299, saw 503" in text
    assert "news_search" in text
    assert "undecided" in text


def test_it_names_who_fails_and_who_succeeds_the_worst_first(cast, outage, as_):
    workers = page(as_(cast.ann)).context["page"].workers

    assert [(one.worker.instance, one.calls.failures, one.calls.ok) for one in workers] == [
        ("pod-1", 9, 1),
        ("pod-2", 0, 8),
    ]


def test_each_value_of_the_policy_names_its_origin(cast, as_):
    rows = {row.name: row for row in page(as_(cast.ann)).context["policy_rows"]}

    assert (rows["failure rate"].value, rows["failure rate"].origin) == ("50\u00a0%", "default")
    assert rows["permits"].origin == "class"


def test_a_quiet_circuit_shows_its_present_window(cast, as_):
    stage.observed(cast.workers[0], cast.tools["web_search"], NOON - timedelta(seconds=5), ok=3, timeout=1)

    answer = page(as_(cast.ann))

    assert answer.context["gauges"][0].shown == "25\u00a0%"
    assert "It has never left closed." in answer.content.decode()


def test_a_hold_says_who_until_when_and_why(cast, as_):
    client = as_(cast.otto)
    client.post(reverse("dashboard:action", args=["prod", "search-api", "hold-closed"]),
                {"token": "7f1fb7a2-6c3b-4b38-9a55-4b2f0a4a7f11", "reason": "drill", "minutes": "60"})  # fmt: skip

    text = page(client).content.decode()

    assert "Held closed by otto" in text
    assert "drill" in text
    assert "in 60 s" not in text
    assert "in 60 min" in text


def test_nothing_leaks_from_another_environment(cast, outage, as_):
    other = page(as_(cast.ann), environment="staging").context["page"]

    assert (other.trip, other.rounds, other.workers, other.runs, other.probe) == (None, [], [], [], None)
    assert page(as_(cast.ann), dependency="crm-db", environment="staging").status_code == 404


@pytest.mark.parametrize(
    "name", ["a/b", "..", ".", "a b?c#d", "~7E", "x%2Fy", "probe", "ünïcode", "<script>alert(1)</script>", "'\"--"]
)
def test_whatever_a_dependency_is_called_its_page_can_be_opened(cast, as_, name):
    factories.dependency(cast.prod, name)

    answer = page(as_(cast.otto), dependency=name)

    assert answer.status_code == 200
    assert answer.context["here"].dependency.slug == name
    assert "<script>alert" not in answer.content.decode()
    assert as_(cast.otto).get(reverse("dashboard:action", args=["prod", name, "hold-open"])).status_code == 200


def test_the_number_of_queries_does_not_grow_with_the_history(cast, outage, as_, django_assert_num_queries):
    client = as_(cast.ann)
    for number in range(12):
        stage.probed(outage, NOON - timedelta(minutes=number))
        stage.degraded(cast.research, NOON - timedelta(seconds=number))
        worker = factories.worker(cast.research_key, f"pod-{number + 10}")
        stage.observed(worker, cast.tools["web_search"], NOON - timedelta(seconds=80), timeout=1)

    with django_assert_num_queries(25):
        page(client)


@pytest.mark.parametrize("name", ["~00", "a~0Ab", "%00"])
def test_a_name_with_control_characters_has_no_page(cast, as_, name):
    assert as_(cast.ann).get(f"/circuits/prod/{name}/").status_code == 404


def test_a_heartbeat_that_fails_is_marked_and_one_that_does_not_is_told(cast, as_):
    probe = stage.probe(cast.search_api, NOON)
    probe.heartbeat_s, probe.heartbeat_at = 300, NOON
    probe.save()
    assert "asked every 300 s" in page(as_(cast.ann)).content.decode()
    probe.heartbeat_bad, probe.heartbeat_failing_at = 2, NOON - timedelta(minutes=3)
    probe.save()
    shown = page(as_(cast.ann)).content.decode()
    assert "heartbeat failing" in shown and "2 bad answers" in shown
