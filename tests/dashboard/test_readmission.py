"""The Circuit page and the Board tell who tests a circuit without a probe, and whom a ramp admits."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse
from recloser.core.types import Outcome

from controlplane import clock
from controlplane.services import circuits, permits, policies
from controlplane.services.ingest import Caller
from tests.controlplane.evidence.batches import observe
from tests.dashboard import stage


@pytest.fixture
def due(cast, frozen_clock):
    """search-api is open and due without a probe; its policy readmits by a ramp."""
    cast.search_api.tools.update(side_effect="read_only", class_confirmed=True)
    policies.publish(
        environment=cast.prod, level="dependency", dependency=cast.search_api, reason="test", actor="petra",
        now=clock.now(), values={"settle_s": 0, "jitter": 0, "consecutive_failures": 5, "ramp": [0.1, 0.5, 1.0]},
    )  # fmt: skip
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, failures=10)
    circuits.consider(dependency_id=cast.search_api.pk, now=clock.now())
    frozen_clock.advance(30)
    return cast.search_api


@pytest.fixture
def caller(cast):
    return Caller(cast.research_key.pk, cast.research.pk, "research", cast.prod.pk, "prod")


def place(caller, instance):
    return permits.keep_place(
        caller=caller, dependency="search-api", session=uuid.uuid4(), instance=instance, now=clock.now()
    )


def claim(caller, kept, run):
    return permits.claim(
        caller=caller, place=kept.id, run=run, tool="web_search", root_began_s_ago=1.0, now=clock.now()
    )


def circuit(client):
    return client.get(reverse("dashboard:circuit", args=["prod", "search-api"])).content.decode()


def board(client):
    return client.get(reverse("dashboard:board") + "?environment=prod").content.decode()


def test_before_anybody_came_the_page_says_what_will_test(cast, due, as_):
    shown = circuit(as_(cast.otto))
    assert "No candidate yet" in shown
    assert "a later run’s call" in board(as_(cast.otto))


def test_the_page_names_the_candidates_and_who_holds_the_permit(cast, due, caller, as_):
    kept = [place(caller, name) for name in ("pod-1", "pod-2")]
    assert "its next one" in circuit(as_(cast.otto))
    run = uuid.uuid4()
    claim(caller, kept[0], run)
    shown = circuit(as_(cast.otto))
    assert "another call was first" in shown and "pod-2" in shown
    assert "holds the permit" in shown and str(run) in shown and "permit, pod-1" in shown
    assert "running now" in board(as_(cast.otto))


def test_a_ramp_shows_its_share_and_its_next_step_on_both_pages(cast, due, caller, as_, frozen_clock):
    permit = claim(caller, place(caller, "pod-1"), uuid.uuid4())
    permits.finish(
        caller=caller, round_id=permit.round_id, outcome=Outcome.OK, retry_after_s=None, took_s=0.1, now=clock.now()
    )
    shown = circuit(as_(cast.otto))
    assert "testing with 10" in shown and 'id="permits-title"' not in shown
    frozen_clock.advance(10)
    for shown in (circuit(as_(cast.otto)), board(as_(cast.otto))):
        assert "testing with 50" in shown
    frozen_clock.advance(15)
    assert "The circuit closes" in circuit(as_(cast.otto))


def test_with_a_probe_nobody_speaks_of_permits(cast, due, as_):
    stage.probe(due, clock.now() - timedelta(seconds=1))
    assert 'id="permits-title"' not in circuit(as_(cast.otto))
