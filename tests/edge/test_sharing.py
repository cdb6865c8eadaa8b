"""What one key claims from several edge processes is capped together, as long as Redis carries it between them."""

import pytest

from controlplane.edge import sharing
from controlplane.evidence import store
from controlplane.services.ingest import caps
from tests.edge import harness
from tests.edge.harness import observation


@pytest.fixture
def other_edge(edge):
    server = harness.InProcess()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def slowly_refilled(monkeypatch):
    """What was claimed stays claimed for as long as a test takes."""
    monkeypatch.setattr(caps, "CALLS_A_SECOND", 1)
    monkeypatch.setattr(caps, "BURST_S", 50_000.0)


def _claim(agent, calls):
    return [note["code"] for note in agent.send(observation(counts={"ok": calls}))["notes"]]


def test_two_processes_cap_one_key_together(edge, other_edge, key):
    here, there = harness.Agent(edge, key.token), harness.Agent(other_edge, key.token, instance="pod-2")
    for agent in (here, there):
        assert _claim(agent, 1) == []
        harness.until(lambda agent=agent: _is_told(agent.server, key), what="the first exchange")

    assert _claim(there, 30_000) == []

    def heard():
        assert _claim(here, 1) == []
        return edge.edge.intake.cap.left(key.pk) < 25_000

    harness.until(heard, what="what the other process admitted")
    assert _claim(here, 30_000) == ["counts_capped"]


def _is_told(server, key):
    return key.pk in server.edge.intake.cap._totals


def test_while_redis_is_away_each_caps_for_itself(edge, agent, key, monkeypatch):
    monkeypatch.setattr(store, "away", lambda: True)
    monkeypatch.setattr(sharing, "EVERY_S", 0.01)

    assert _claim(agent, 30_000) == []
    assert _claim(agent, 30_000) == ["counts_capped"]
    assert not _is_told(edge, key)
