"""After a batch: who is considered, and what a server's explicit wait does."""

import asyncio
import threading
import time
from datetime import timedelta

import pytest
from recloser.core.types import State

from controlplane import clock
from controlplane.edge import considering
from controlplane.evidence import counters
from controlplane.models import Circuit, Trip
from controlplane.services import circuits, policies, tools
from tests.edge import harness
from tests.edge.harness import failing, observation


@pytest.fixture
def dependency(prod):
    return tools.ensure_dependency(environment=prod, slug="search-api", actor="ada", now=clock.now())


@pytest.fixture
def crowd(edge, key):
    """Three workers."""
    return [harness.Agent(edge, key.token, instance=f"pod-{number}") for number in range(3)]


def _state():
    return Circuit.objects.get(dependency__slug="search-api").state


def test_a_suspicion_is_judged_again_by_the_process_that_saw_it(crowd, dependency):
    for agent in crowd:
        agent.send(failing(10))

    harness.until(lambda: _state() == "open", what="the opening after settle_s")


def test_a_suspected_dependency_is_to_be_flushed_now(crowd, prod, dependency):
    policies.publish(
        environment=prod,
        level="dependency",
        dependency=dependency,
        values={"settle_s": 30},
        reason="slow reporters",
        actor="petra",
        now=clock.now(),
    )
    for agent in crowd:
        agent.send(failing(10))
    harness.until(lambda: Circuit.objects.get(dependency=dependency).suspected_at, what="the suspicion")

    answer = crowd[0].send(observation())

    assert answer["flush_now"] == ["search-api"]
    assert answer["circuits"]["search-api"]["suspected"] is True


def test_what_is_not_counted_opens_nothing(crowd, key, dependency):
    for agent in crowd:
        agent.send(*[failing(10, age_s=120.0)], *[failing(10, generation=7)])

    crowd[0].send(failing(1))
    harness.until(lambda: not crowd[0].server.edge._considering._tasks)
    assert _state() == "closed"
    assert not Trip.objects.exists()


def test_slow_calls_alone_are_considered(crowd, prod, dependency):
    policies.publish(
        environment=prod,
        level="dependency",
        dependency=dependency,
        values={"slow_call_rate_delivery": "enforce"},
        reason="slowness hurts",
        actor="petra",
        now=clock.now(),
    )
    for agent in crowd:
        agent.send(observation(counts={"ok": 10}, slow=10))

    harness.until(lambda: _state() == "open", what="the opening by slow calls")


def test_a_late_result_of_an_older_generation_may_only_put_the_deadline_off(crowd, dependency):
    for agent in crowd:
        agent.send(failing(10))
    harness.until(lambda: _state() == "open", what="the opening")
    due_at = Circuit.objects.get(dependency=dependency).due_at

    crowd[0].send(failing(1, generation=0, retry_after_s=600.0))

    def put_off():
        return Circuit.objects.get(dependency=dependency).due_at > due_at + timedelta(seconds=500)

    harness.until(put_off, what="the longer wait")
    crowd[0].send(failing(1, generation=0, retry_after_s=1.0))
    harness.until(lambda: not crowd[0].server.edge._considering._tasks)
    assert put_off()


def test_a_quarantined_word_does_not_put_a_deadline_off(crowd, key, dependency):
    for agent in crowd:
        agent.send(failing(10))
    harness.until(lambda: _state() == "open", what="the opening")
    due_at = Circuit.objects.get(dependency=dependency).due_at
    key.quarantined_at = clock.now()
    key.save()

    crowd[0].send(failing(1, retry_after_s=600.0))

    harness.until(lambda: not crowd[0].server.edge._considering._tasks)
    assert Circuit.objects.get(dependency=dependency).due_at == due_at


def test_a_judgement_that_failed_is_asked_for_again(crowd, dependency, monkeypatch):
    real, calls = circuits.consider, []

    def lame(**given):
        calls.append(given)
        if len(calls) <= 4:
            raise RuntimeError
        return real(**given)

    monkeypatch.setattr(circuits, "consider", lame)
    for agent in crowd:
        agent.send(failing(10))

    harness.until(lambda: _state() == "open", within=8.0, what="the opening, without another batch")


def test_a_judgement_that_always_fails_is_not_asked_for_for_ever(crowd, dependency, monkeypatch):
    calls = []

    def broken(**given):
        calls.append(given)
        raise RuntimeError

    monkeypatch.setattr(circuits, "consider", broken)
    monkeypatch.setattr(considering, "AGAIN_S", 0.001)
    crowd[0].send(failing(10))

    app = crowd[0].server.edge._considering
    harness.until(lambda: len(calls) == considering.MOST_FAILURES and not app._tasks)
    assert not app._settling


def test_a_generation_that_is_yet_to_come_does_not_put_a_deadline_off(crowd, dependency):
    for agent in crowd:
        agent.send(failing(10))
    harness.until(lambda: _state() == "open", what="the opening")
    due_at = Circuit.objects.get(dependency=dependency).due_at

    crowd[0].send(failing(1, generation=7, retry_after_s=3600.0))

    harness.until(lambda: not crowd[0].server.edge._considering._tasks)
    assert Circuit.objects.get(dependency=dependency).due_at == due_at


def test_what_was_acknowledged_is_committed_though_counting_and_considering_fail(agent, dependency, monkeypatch):
    def broken(**_):
        raise RuntimeError

    async def lost(*_):
        raise RuntimeError

    monkeypatch.setattr(circuits, "consider", broken)
    monkeypatch.setattr(counters, "count", lost)

    assert agent.send(failing(5))["ack"] == 1

    monkeypatch.undo()
    assert agent.post(agent.batch(observations=[failing(5)])).json()["ack"] == 2


def test_while_every_batch_fails_a_circuit_is_judged_at_a_fraction_of_their_rate(crowd, dependency, monkeypatch):
    judged = []

    def consider(**asked):
        judged.append(asked["dependency_id"])
        time.sleep(0.02)
        return circuits.Considered(dependency.pk, State.CLOSED, 0)

    monkeypatch.setattr(circuits, "consider", consider)
    judging = crowd[0].server.edge._considering

    async def hail():
        for _ in range(300):
            judging.ask(dependency.pk)
            await asyncio.sleep(0.001)
        await judging.quiet(5)

    began = time.monotonic()
    crowd[0].server.loop.call(hail())

    took = time.monotonic() - began
    assert 2 <= len(judged) <= took / (0.02 * considering.REST) + 2


def test_what_is_asked_while_it_is_judged_is_judged_once_more(crowd, dependency, monkeypatch):
    judged, ask = [], threading.Event()

    def consider(**asked):
        judged.append(asked["dependency_id"])
        ask.wait(5)
        return circuits.Considered(dependency.pk, State.CLOSED, 0)

    monkeypatch.setattr(circuits, "consider", consider)
    crowd[0].send(failing(1))
    harness.until(lambda: judged, what="the first judgement")
    for agent in crowd:
        agent.send(failing(1))

    ask.set()

    harness.until(lambda: not crowd[0].server.edge._considering._tasks, what="quiet")
    assert len(judged) == 2
