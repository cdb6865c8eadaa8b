"""Real edge processes on one database: what happens to all of them happens once."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from controlplane import clock
from controlplane.models import Circuit, Observation, Outage, ProcessBeat, Transition, Trip
from controlplane.services import circuits, tools
from tests.edge import harness
from tests.edge.harness import failing, observation

pytestmark = pytest.mark.e2e

NOWHERE = "unix:///nowhere/valkey.sock"


@pytest.fixture
def dependency(prod):
    row = tools.ensure_dependency(environment=prod, slug="search-api", actor="ada", now=clock.now())
    tools.ensure_tool(
        environment=prod,
        name="web_search",
        dependencies=["search-api"],
        actor="ada",
        now=clock.now(),
        side_effect="read_only",
    )
    return row


def _open():
    return Circuit.objects.filter(state="open").exists()


def test_two_processes_and_fifty_batches_make_one_transition_one_trip_one_outage(servers, key, dependency):
    both = servers(2)
    streams = [harness.Agent(server, key.token).stream() for server in both]
    for stream in streams:
        stream.next("circuits")
    agents = [harness.Agent(both[number % 2], key.token, instance=f"pod-{number}") for number in range(50)]

    with ThreadPoolExecutor(25) as crowd:
        answers = list(crowd.map(lambda agent: agent.send(failing(3)), agents))

    assert [answer["ack"] for answer in answers] == [1] * 50
    harness.until(_open, what="the opening")
    for stream in streams:
        entry = stream.next("delta", within=2.0)["circuits"]["search-api"]
        assert (entry["state"], entry["generation"]) == ("open", 1)
    assert Observation.objects.count() == 50
    transition = Transition.objects.get()
    assert (transition.from_state, transition.to_state, transition.cause) == ("closed", "open", "failure_rate")
    trip = Trip.objects.get()
    assert (trip.scope, trip.signal, trip.outage_id) == ("fleet", "failure_rate", Outage.objects.get().pk)


def test_fifty_copies_of_one_batch_are_taken_once(servers, key, dependency):
    both = servers(2)
    agent = harness.Agent(both[0], key.token)
    batch = agent.batch(observations=[observation()], trips=[harness.trip()], runs=[harness.run()])
    senders = [harness.Agent(server, key.token) for server in both]

    with ThreadPoolExecutor(25) as crowd:
        answers = list(crowd.map(lambda number: senders[number % 2].post(batch).json(), range(50)))

    assert [answer["ack"] for answer in answers] == [1] * 50
    assert [answer["repeat"] for answer in answers].count(False) == 1
    assert (Observation.objects.count(), Trip.objects.count()) == (1, 1)


def test_without_redis_batches_are_taken_and_the_circuit_opens_all_the_same(servers, key, dependency):
    [server] = servers(1, REDIS_URL=NOWHERE)
    agents = [harness.Agent(server, key.token, instance=f"pod-{number}") for number in range(3)]
    stream = agents[0].stream()
    stream.next("circuits")

    for agent in agents:
        agent.send(failing(10))

    assert stream.next("delta", within=5.0)["circuits"]["search-api"]["state"] == "open"
    ready = server.request("GET", "/readyz")
    assert (ready.status_code, ready.json()["redis"]) == (200, "away")
    assert "redis" in ready.json()["degraded"]


def test_without_postgres_everyone_is_told_to_come_again_quickly(servers, prod):
    [server] = servers(1, DATABASE_URL="postgresql://postgres@127.0.0.1:1/none")
    agent = harness.Agent(server, "rcl_some_" + "x" * 43)
    began = time.monotonic()

    answer = agent.post(agent.batch(observations=[observation()]))

    assert time.monotonic() - began < 3
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "unavailable"
    assert int(answer.headers["retry-after"]) >= 1
    ready = server.request("GET", "/readyz")
    assert (ready.status_code, ready.json()["postgres"]) == (503, "away")
    assert server.request("GET", "/healthz").status_code == 200


def test_lost_connections_to_postgres_are_made_anew(servers, key, dependency):
    [server] = servers(1)
    agent = harness.Agent(server, key.token)
    agent.send(observation())
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name='recloser-edge'")

    batch = agent.batch(observations=[observation()])
    statuses = {harness.until(lambda: agent.post(batch).status_code) for _ in range(10)}

    assert statuses <= {200, 503}
    assert agent.post(batch).json()["ack"] == 2
    assert Observation.objects.count() == 2


def test_postgres_away_for_a_while_costs_nothing_but_the_while(servers, key, dependency):
    road = harness.Proxy()
    [server] = servers(1, DATABASE_URL=road.url)
    agent = harness.Agent(server, key.token)
    agent.send(observation())
    stream = agent.stream()
    stream.next("circuits")
    batch = agent.batch(observations=[failing(1)])

    road.cut()
    for _ in range(3):
        began = time.monotonic()
        assert agent.post(batch).status_code == 503
        assert time.monotonic() - began < 3
    road.mend()

    harness.until(lambda: agent.post(batch).status_code == 200, within=5, what="the return")
    assert list(Observation.objects.order_by("id").values_list("seq", flat=True)) == [1, 2]
    now = clock.now()
    until = now + timedelta(minutes=5)
    circuits.hold_open(dependency_id=dependency.pk, actor="otto", reason="drill", now=now, until=until)
    assert stream.next("delta", within=5)["circuits"]["search-api"]["state"] == "open"
    road.cut()


def test_terminated_with_open_streams_it_says_goodbye_and_is_gone_in_time(servers, key, dependency):
    [server] = servers(1)
    streams = [harness.Agent(server, key.token).stream() for _ in range(5)]
    for stream in streams:
        stream.next("circuits")
    harness.until(lambda: ProcessBeat.objects.filter(kind="edge").exists(), what="the beat")

    took, said = server.terminate()

    assert took < 5
    assert said == ""
    for stream in streams:
        stream.next("bye")
        assert stream.ended()
    assert not ProcessBeat.objects.filter(kind="edge").exists()


def test_one_entry_serves_pages_and_hot_routes(servers, key):
    [server] = servers(1)

    assert server.request("GET", "/agent/v1/config").status_code == 401
    assert server.request("GET", "/healthz").json() == {"alive": True}
    assert server.request("GET", "/live").status_code == 401
