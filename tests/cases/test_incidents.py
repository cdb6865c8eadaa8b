"""Cases of alerts, the whole way: agents fail by the SDK, circuits open, rounds end, a webhook is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane import clock
from controlplane.models import Circuit, Outage
from controlplane.services import alerts, circuits, egress
from tests import factories
from tests.cases.test_whole_way import answering, tried
from tests.dashboard import stage
from tests.edge.harness import until
from tests.workers.receiver import Receiver
from workers.tasks.alerts import run_deliveries

SIX = ("web_search", "news_search", "image_search", "map_search", "price_search", "people_search")


@pytest.fixture
def receiver(fleet):
    """Somebody who is told of prod's alerts."""
    now = clock.now()
    with Receiver() as running:
        egress.allow_network(network="127.0.0.0/8", reason="the test's receiver", actor="ada", now=now)
        alerts.save_channel(
            environment=fleet.prod, kind="webhook", name="pager", target=running.hook, actor="ada", now=now
        )
        yield running


def tell(now=None):
    """What the scheduler and a Celery worker do in one go."""
    alerts.dispatch_due_transitions(now=now or clock.now(), limit=100)
    run_deliveries([(str(key), n) for key, n in alerts.claim_deliveries(now=now or clock.now(), limit=100)])


def state(dependency):
    return Circuit.objects.get(dependency=dependency).state


def fail(clients, tools, dependency):
    """Every tool fails once in every worker, until their circuit is open."""
    for client in clients:
        for tool in tools:
            tried(client, tool, answering(503), times=1)
    until(lambda: state(dependency) == "open", what=f"{dependency.slug} to open")


def probe(dependency, verdict, now):
    """One round that is due by then ends so; the moment of it."""
    now = max(now, Circuit.objects.get(dependency=dependency).due_at) + timedelta(seconds=1)
    [ours] = circuits.claim_rounds(now=now, dependency_id=dependency.pk)
    assert circuits.finish_round(round_id=ours.pk, verdict=verdict, operation="web_search", retry_after_s=None,
                                 answered={}, now=now)  # fmt: skip
    tell(now)
    return now


@pytest.mark.case("D05", "D06")
def test_six_tools_raise_one_alert_and_each_dependency_resolves_its_own(fleet, agent, receiver):
    for name in SIX[2:]:
        factories.tool(fleet.search_api, name, at=clock.now())
    stage.probe(fleet.search_api, clock.now())
    clients = agent("pod-1"), agent("pod-2")
    fail(clients, SIX, fleet.search_api)
    fail(clients, ("db_lookup",) * 3, fleet.crm_db)
    tell()

    opened = {body["dependency"]: body["incident"] for body in receiver.bodies}
    assert [body["event"] for body in receiver.bodies] == ["opened", "opened"]
    assert set(opened) == {"search-api", "crm-db"} and len(set(opened.values())) == 2
    [search] = [body for body in receiver.bodies if body["dependency"] == "search-api"]
    assert {tool["name"] for tool in search["tools"]} == set(SIX)

    now = clock.now()
    for verdict in ("bad", "bad", "good"):
        now = probe(fleet.search_api, verdict, now)
    assert state(fleet.search_api) == "closed"
    assert [body["event"] for body in receiver.bodies] == ["opened", "opened", "closed"]
    assert receiver.bodies[2]["incident"] == opened["search-api"]
    assert Outage.objects.filter(ended_at=None).get().circuit.dependency_id == fleet.crm_db.pk
