"""The Board: what needs a human first."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from recloser.core.types import Cause, Signal, State

from controlplane.models import Circuit, ProcessBeat, Trip
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage


@pytest.fixture
def outage(cast):
    """search-api has been open for a minute: two workers fail, a run of research went without it."""
    minute_ago = NOON - timedelta(seconds=60)
    row = stage.opened(cast.search_api, minute_ago, due_in_s=72)
    stage.probe(cast.search_api, minute_ago)
    stage.probed(row, NOON - timedelta(seconds=20))
    for worker in cast.workers:
        stage.observed(worker, cast.tools["web_search"], NOON - timedelta(seconds=30), timeout=3)
    stage.degraded(cast.research, NOON - timedelta(seconds=50), disclosed=False)
    return row


def board(client, **query):
    return client.get(reverse("dashboard:board"), query)


def test_a_quiet_fleet_looks_quiet_and_says_since_when(cast, as_):
    page = board(as_(cast.ann)).content.decode()

    assert "All quiet" in page
    assert NOON.isoformat(timespec="milliseconds") in page
    assert "needs you" not in page


def test_an_open_circuit_says_everything_one_decides_by(cast, outage, as_):
    page = board(as_(cast.otto)).content.decode()

    assert "1 circuit needs you" in page
    assert "7 of 9 calls failed in 60 s, from 3 workers; trips at 50\u00a0%" in page
    assert "<strong>1 run</strong> of research" in page
    assert "undecided" in page
    assert "in 12 s" in page
    for deed in ("acknowledge", "probe-now", "force-close", "hold-open", "hold-closed"):
        assert reverse("dashboard:action", args=["prod", "search-api", deed]) in page


def test_a_viewer_sees_it_and_gets_no_button(cast, outage, as_):
    page = board(as_(cast.ann)).content.decode()

    assert "7 of 9 calls failed" in page
    assert "/force-close/" not in page


def test_the_most_urgent_comes_first_and_the_acknowledged_later(cast, outage, as_):
    stage.opened(cast.crm_db, NOON - timedelta(minutes=20), signal=Signal.CONSECUTIVE_FAILURES, failures=5,
                 locked_out_at=(NOON - timedelta(minutes=10)).timestamp())  # fmt: skip
    Circuit.objects.filter(pk=outage.pk).update(acknowledged_at=NOON, acknowledged_by="otto")

    found = board(as_(cast.ann)).context["board"]

    assert [need.standing.dependency.slug for need in found.needs] == ["crm-db", "search-api"]
    assert [need.kind for need in found.urgent] == ["locked_out"]


def test_nothing_leaks_from_another_environment(cast, outage, as_):
    stage.observed(cast.workers[0], cast.tools["web_search"], NOON, timeout=1)

    found = board(as_(cast.ann), environment="staging").context["board"]

    assert found.needs == []
    assert found.trips == []
    assert found.share.runs == 0
    assert [cell.circuit_id for cell in found.fleet] == [cast.staging_search_api.circuit.pk]


def test_a_misspelt_environment_is_an_error_that_lists_those_there_are(cast, as_):
    answer = board(as_(cast.ann), environment="prodd")

    assert answer.status_code == 404
    assert "there are prod, staging" in answer.content.decode()


def test_one_sick_worker_is_named_and_may_be_quarantined(cast, as_):
    Circuit.objects.filter(dependency=cast.search_api).update(
        fault_worker=cast.workers[2], fault_seen_at=NOON - timedelta(seconds=5)
    )

    page = board(as_(cast.otto)).content.decode()

    assert "pod-3</span> fails alone on" in page
    assert reverse("dashboard:quarantine-worker", args=["prod", cast.workers[2].pk]) in page


def test_a_worker_of_an_open_circuit_is_no_fault_of_its_own(cast, outage, as_):
    Circuit.objects.filter(pk=outage.pk).update(fault_worker=cast.workers[2], fault_seen_at=NOON)

    assert board(as_(cast.ann)).context["board"].faults == []


def own_breaker(cast, at):
    return Trip.objects.create(
        environment=cast.prod, scope="worker", signal="consecutive_failures", dependency=cast.search_api,
        worker=cast.workers[0], delivery="enforce", evidence={"consecutive_failures": 5},
        threshold={"consecutive_failures": 5}, at=at, received_at=at,
    )  # fmt: skip


def test_where_no_quorum_can_be_had_a_workers_own_breaker_is_shown(cast, as_):
    own_breaker(cast, NOON - timedelta(seconds=30))
    assert board(as_(cast.ann)).context["board"].faults == []

    Circuit.objects.filter(dependency=cast.search_api).update(quorum_short_at=NOON - timedelta(minutes=1))

    page = board(as_(cast.ann)).content.decode()
    assert "pod-1</span> opened its own breaker for" in page
    assert "1 circuit short of a quorum" in page


def test_breakers_that_opened_in_an_outage_of_all_are_no_faults_once_it_is_over(cast, outage, as_):
    own_breaker(cast, NOON - timedelta(seconds=50))
    Circuit.objects.filter(dependency=cast.search_api).update(quorum_short_at=NOON)
    stage.move(cast.search_api, NOON - timedelta(seconds=5), state=State.CLOSED, cause=Cause.PROBE_PASSED,
               opened_at=None, due_at=None, tripped_by=None,
               closed_at=(NOON - timedelta(seconds=5)).timestamp())  # fmt: skip

    assert board(as_(cast.ann)).context["board"].faults == []


def test_silent_processes_of_ours_are_told(cast, as_):
    ProcessBeat.objects.create(kind="scheduler", name="one", started_at=NOON, beat_at=NOON - timedelta(minutes=2))

    page = board(as_(cast.ann)).content.decode()

    assert "Scheduler is silent" in page
    assert "No Celery worker" in page


def test_living_processes_are_told(cast, as_):
    for kind in ("scheduler", "worker"):
        detail = {"leader": True, "listening": True}
        ProcessBeat.objects.create(kind=kind, name="one", started_at=NOON, beat_at=NOON, detail=detail)

    page = board(as_(cast.ann)).content.decode()

    assert "Scheduler beats" in page
    assert "1 Celery worker" in page
    assert "Evidence store answers" in page


def test_workers_on_an_old_config_are_counted(cast, as_):
    cast.prod.document_version.__class__.objects.filter(environment=cast.prod).update(config=7)
    session, other, _ = cast.sessions
    session.__class__.objects.filter(pk=session.pk).update(config_epoch="e1", config_version=6, feed="polling")
    session.__class__.objects.filter(pk=other.pk).update(config_epoch="e1", config_version=7, feed="live")

    delivery = board(as_(cast.ann)).context["board"].delivery

    assert (delivery.sessions, delivery.polling, delivery.old_config) == (3, 1, 1)


def test_an_empty_installation_waits_for_its_first_agent(cast, as_):
    factories.environment("lab")

    page = board(as_(cast.ann), environment="lab").content.decode()

    assert "Waiting for your first agent" in page
    assert "client = recloser.Client()" in page


def test_without_any_environment_the_page_says_what_to_run(db, client):
    client.force_login(factories.person("ann", "viewer"), backend="controlplane.permissions.RoleBackend")

    assert "No environment yet" in board(client).content.decode()


def test_the_same_address_serves_the_part_alone(cast, outage, as_):
    answer = as_(cast.ann).get(reverse("dashboard:board"), headers={"HX-Request": "true"})
    text = answer.content.decode()

    assert text.lstrip().startswith('<div id="live"')
    assert "<html" not in text
    assert "HX-Request" in answer["Vary"]


def test_the_number_of_queries_does_not_grow_with_the_fleet(cast, outage, as_, django_assert_num_queries):
    client = as_(cast.ann)
    board(client)
    for number in range(30):
        dependency = factories.dependency(cast.prod, f"service-{number}")
        factories.tool(dependency, f"tool_{number}")
        if number % 3 == 0:
            stage.opened(dependency, NOON - timedelta(seconds=number + 1))
            Trip.objects.update(tool=cast.tools["web_search"])

    with django_assert_num_queries(31):
        board(client)


def test_the_pages_stand_however_large_a_count_was_stored(cast, as_):
    most = 2**31 - 1
    at = NOON - timedelta(seconds=10)
    stage.observed(cast.workers[0], cast.tools["web_search"], at, ok=most, empty=most, timeout=most, rate_limited=most)

    client = as_(cast.ann)

    assert board(client).status_code == 200
    assert client.get(reverse("dashboard:circuit", args=["prod", "search-api"])).status_code == 200
