"""POST permit: places, leave and verdicts over the wire; hostile and foreign requests get clear errors."""

import json
import uuid
from datetime import timedelta

import pytest

from controlplane import clock
from controlplane.models import Circuit, Tool
from controlplane.services import circuits, policies
from tests.edge import harness


@pytest.fixture
def due(agent, prod, frozen_clock):
    """search-api is open and due for a test; web_search is read-only by confirmed class."""
    agent.send(harness.observation())
    Tool.objects.filter(name="web_search").update(side_effect="read_only", class_confirmed=True)
    policies.publish(
        environment=prod,
        level="environment",
        values={"circuit": {"permits": True}},
        reason="test",
        actor="ann",
        now=clock.now(),
    )
    dependency = Tool.objects.get(name="web_search").dependencies.get()
    circuits.consider(dependency_id=dependency.pk, now=clock.now())
    circuits.hold_open(
        dependency_id=dependency.pk, actor="ann", reason="test", now=clock.now(),
        until=clock.now() + timedelta(seconds=60),
    )  # fmt: skip
    frozen_clock.advance(61)
    circuits.sweep_due(now=clock.now())
    row = Circuit.objects.get(dependency=dependency)
    assert row.state == "open" and row.due_at <= clock.now()
    return row


def ask(agent, **body):
    return agent.server.request("POST", "/agent/v1/permit", headers=agent.headers, content=json.dumps(body))


def place(agent, **more):
    body = {"ask": "place", "dependency": "search-api", "session": str(uuid.uuid4()), "instance": "pod-1"}
    return ask(agent, **(body | more))


def test_a_place_a_permit_and_a_verdict(agent, due):
    kept = place(agent).json()
    assert kept["reason"] == "kept" and 0 < kept["wait_s"] <= 60 and kept["generation"] == due.generation
    leave = ask(
        agent, ask="claim", place=kept["place"], run=str(uuid.uuid4()), tool="web_search", root_began_s_ago=1.0
    ).json()
    assert leave["reason"] == "granted" and leave["lease_s"] == 60.0
    assert agent.get("circuits").json()["circuits"]["search-api"]["state"] == "half_open"
    assert ask(agent, ask="finish", round=leave["round"], outcome="ok").json() == {"applied": True}
    assert ask(agent, ask="finish", round=leave["round"], outcome="timeout").json() == {"applied": False}
    assert Circuit.objects.get(pk=due.pk).state == "closed"


def test_the_document_says_whether_a_probe_tests(agent, due):
    told = agent.get("circuits").json()["circuits"]["search-api"]
    assert (told["probed"], told["ramp_started_at"]) == (False, None)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{", 400, None),
        (b"\xff", 400, None),
        (b"[]", 422, None),
        (b"{}", 422, "ask"),
        (b'{"ask": "please"}', 422, "ask"),
        (b'{"ask": "place", "dependency": "", "session": "x", "instance": "i"}', 422, "dependency"),
        (b'{"ask": "finish", "round": "0b6a1a52-7d0e-4d62-9d0c-3f0d6a1c2b11", "outcome": "great"}', 422, "outcome"),
        (b'{"ask": "finish", "round": "0b6a1a52-7d0e-4d62-9d0c-3f0d6a1c2b11", "outcome": "ok", "x": 1}', 422, "x"),
        (b" " * 5000, 413, None),
    ],
)
def test_what_is_no_request_is_refused_in_the_one_shape(agent, body, status, field):
    refused = agent.server.request("POST", "/agent/v1/permit", headers=agent.headers, content=body)
    assert (refused.status_code, refused.json()["error"]["field"]) == (status, field)
    assert refused.json()["error"]["mend"]


def test_without_a_key_nothing_is_granted(edge):
    assert edge.request("POST", "/agent/v1/permit", content=b"{}").status_code == 401


def test_an_unknown_dependency_has_no_places(agent, due):
    assert place(agent, dependency="nowhere").json()["place"] is None
