"""GET stream: everything at connect, then what changes, and an end that comes at once."""

from datetime import timedelta

import pytest

from controlplane import clock, redis_clients
from controlplane.delivery import documents, hub, publish, resolve, versions
from controlplane.services import access, circuits, policies, tools
from tests.edge import harness


@pytest.fixture
def dependency(prod):
    return tools.ensure_dependency(environment=prod, slug="search-api", actor="ada", now=clock.now())


def _hold_open(dependency):
    now = clock.now()
    until = now + timedelta(minutes=5)
    circuits.hold_open(dependency_id=dependency.pk, actor="otto", reason="drill", now=now, until=until)


def test_at_connect_the_whole_document_comes(agent, dependency):
    _hold_open(dependency)

    stream = agent.stream()

    assert stream.status == 200
    document = stream.events.next("circuits")
    assert document["circuits"]["search-api"]["state"] == "open"
    assert abs(document["now"] - clock.seconds(clock.now())) < 2
    assert stream.events.next("config")["version"] == agent.get("config").json()["version"]


def test_a_transition_arrives_as_a_delta_that_names_its_predecessor(agent, dependency):
    stream = agent.stream()
    before = stream.events.next("circuits")

    _hold_open(dependency)

    delta = stream.events.next("delta", within=1.5)
    assert (delta["epoch"], delta["previous"]) == (before["epoch"], before["version"])
    assert delta["version"] == agent.get("circuits").json()["version"]
    assert delta["circuits"]["search-api"]["state"] == "open"
    circuits.force_close(dependency_id=dependency.pk, actor="otto", reason="mended", now=clock.now())
    closed = stream.events.next("delta", within=1.5)
    assert closed["previous"] == delta["version"]
    assert (closed["circuits"]["search-api"]["state"], closed["circuits"]["search-api"]["generation"]) == ("closed", 2)


def test_a_lost_hint_heals_within_two_seconds(agent, dependency, monkeypatch):
    stream = agent.stream()
    stream.events.next("circuits")
    monkeypatch.setattr(publish, "_send", lambda hint: None)

    _hold_open(dependency)

    assert stream.events.next("delta", within=2.0)["circuits"]["search-api"]["state"] == "open"


def test_what_fails_once_ends_no_stream(agent, dependency, monkeypatch):
    real, calls = documents.circuits, []
    stream = agent.stream()
    stream.events.next("circuits")

    def lame(environment_id):
        calls.append(environment_id)
        if len(calls) == 1:
            raise KeyError(environment_id)
        return real(environment_id)

    monkeypatch.setattr(documents, "circuits", lame)
    _hold_open(dependency)

    assert stream.events.next("delta")["circuits"]["search-api"]["state"] == "open"


def test_a_look_that_fails_once_ends_no_stream(agent, dependency, monkeypatch):
    real, calls = versions.all_known, []
    stream = agent.stream()
    stream.events.next("circuits")

    def lame():
        calls.append(None)
        if len(calls) == 1:
            raise KeyError
        return real()

    monkeypatch.setattr(versions, "all_known", lame)
    harness.until(lambda: calls)
    _hold_open(dependency)

    assert stream.events.next("delta")["circuits"]["search-api"]["state"] == "open"


def test_a_dependency_that_vanishes_while_the_document_is_read_is_left_out(agent, dependency, monkeypatch):
    _hold_open(dependency)
    monkeypatch.setattr(resolve, "deliveries", lambda *_: {})

    assert agent.stream().events.next("circuits")["circuits"] == {}


def test_a_published_policy_is_only_signalled(agent, prod, dependency):
    stream = agent.stream()
    first = stream.events.next("config")

    policies.publish(
        environment=prod,
        level="environment",
        values={"circuit": {"min_calls": 3}, "run": {}},
        reason="small fleet",
        actor="petra",
        now=clock.now(),
    )

    signal = stream.events.next("config", within=1.5)
    assert signal == {"epoch": first["epoch"], "version": first["version"] + 1}


@pytest.fixture
def hinted(monkeypatch):
    """Only hints move this edge: it does not poll in time."""
    monkeypatch.setattr(hub, "POLL_S", 60.0)


def _heard():
    [(_, listeners)] = redis_clients.blocking().pubsub_numsub(publish.CHANNEL)
    return listeners


def test_a_hint_is_told_at_once(hinted, agent, dependency):
    stream = agent.stream()
    stream.events.next("circuits")
    harness.until(_heard, what="the subscription")

    _hold_open(dependency)

    assert stream.events.next("delta", within=1.0)["circuits"]["search-api"]["state"] == "open"


def test_agents_are_asked_to_flush(hinted, agent, prod):
    stream = agent.stream()
    stream.events.next("circuits")
    harness.until(_heard, what="the subscription")

    publish.flush_asked(prod.pk, ["search-api"], 200)

    assert stream.events.next("flush") == {"dependencies": ["search-api"], "within_ms": 200}


def test_nothing_of_another_environment_is_told(agent, staging, dependency):
    stream = agent.stream()
    stream.events.next("circuits")
    elsewhere = tools.ensure_dependency(environment=staging, slug="secret-api", actor="ada", now=clock.now())

    _hold_open(elsewhere)
    _hold_open(dependency)

    assert list(stream.events.next("delta")["circuits"]) == ["search-api"]


def test_revoking_the_key_ends_its_streams_and_no_others(edge, agent, key, issue):
    other = harness.Agent(edge, issue()[1]).stream()
    stream = agent.stream()
    stream.events.next("circuits")

    access.revoke_key(key=key, actor="ann", now=clock.now())

    assert stream.events.ended(within=2.5)
    assert not other.over


def test_a_listener_that_does_not_read_is_cut(agent, dependency, monkeypatch):
    monkeypatch.setattr(hub, "QUEUED", 2)
    stuck = agent.stream(reading=False)
    other = agent.stream()
    other.events.next("circuits")

    for _ in range(4):
        _hold_open(dependency)
        other.events.next("delta")

    harness.until(lambda: stuck.over, what="the cut")
    assert not other.over


def test_a_stream_without_a_key_is_refused(edge, prod):
    assert edge.stream("/agent/v1/stream", {}).status == 401


def test_a_stream_is_forgotten_when_its_caller_goes(edge, agent):
    stream = agent.stream()
    stream.events.next("circuits")
    assert edge.edge.hub.streams == 1

    stream.close()

    assert edge.edge.hub.streams == 0


def test_at_the_end_every_stream_hears_a_goodbye(edge, agent):
    stream = agent.stream()
    stream.events.next("circuits")

    edge.loop.loop.call_soon_threadsafe(edge.edge.hub.farewell)

    stream.events.next("bye")
    assert stream.events.ended()
    assert agent.stream().status == 503
