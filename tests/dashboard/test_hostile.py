"""Names, errors and texts of an attacker go through every page, and stay text."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from controlplane.models import Circuit, Dependency, ProbeRound, Run, Tool, Trip, Worker
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage

RAW = "<img src=x onerror=alert(1)>\"'&{{ 7*7 }}"
PIECES = ("<img src=x", 'onerror=alert(1)>"', "<script>alert")


@pytest.fixture
def attacked(cast):
    """Whatever an agent's key may name is named by somebody who means ill."""
    made = factories.dependency(cast.prod, RAW)
    Dependency.objects.filter(pk=made.pk).update(owner=RAW, description=RAW)
    tool = Tool.objects.create(
        environment=cast.prod, name=RAW, owner=RAW, created_at=NOON, discovered_by=cast.support_key
    )
    tool.dependencies.add(made)
    Worker.objects.filter(pk=cast.workers[0].pk).update(
        instance=RAW, quarantined_at=NOON, quarantined_by=RAW, quarantine_reason=RAW
    )
    row = stage.opened(made, NOON - timedelta(minutes=5))
    stage.probe(made, NOON - timedelta(minutes=5))
    probed = stage.probed(row, NOON - timedelta(minutes=1))
    told = {"cause": RAW, "detail": RAW, "conditions": [{"name": RAW, "expected": RAW, "seen": RAW, "held": False}]}
    ProbeRound.objects.filter(pk=probed.pk).update(answered=told, operation=RAW, requested_by=RAW)
    Circuit.objects.filter(pk=row.pk).update(reason=RAW, acknowledged_by=RAW, acknowledged_at=NOON)
    run = stage.run(cast.research, NOON, task_kind=RAW, degraded=True, disclosed=False, end_cause=RAW[:30],
                    missing=[stage.lacking(RAW, RAW)])  # fmt: skip
    Run.objects.filter(pk=run.pk).update(tools=[RAW])
    Trip.objects.update(tool=tool, run=run.pk, evidence={RAW: RAW}, shares={"keys": {RAW: 1.0}, "workers": {RAW: 1.0}})
    return run


def pages(run):
    here = [reverse(f"dashboard:{name}") for name in ("board", "trips", "runs", "tools", "alerts", "settings", "audit")]
    one = [
        reverse(f"dashboard:{name}", args=["prod", RAW])
        for name in ("circuit", "dependency-policy", "probe", "tool", "edit-tool", "tool-policy")
    ]
    deeds = [reverse("dashboard:action", args=["prod", RAW, deed]) for deed in ("hold-open", "force-close", "note")]
    more = [reverse("dashboard:run", args=[run.pk]), reverse("dashboard:why", args=[run.pk, RAW])]
    trips = [reverse("dashboard:trip", args=[pk]) for pk in Trip.objects.values_list("pk", flat=True)]
    shared = [reverse("dashboard:layers", args=["prod"]), reverse("dashboard:styleguide")]
    return [*here, *one, *deeds, *more, *trips, *shared]


def test_no_page_lets_an_attackers_text_be_more_than_text(cast, attacked, as_):
    client = as_(cast.ada)
    address = reverse("dashboard:action", args=["prod", RAW, "note"])
    client.post(address, {"token": uuid.uuid4(), "reason": RAW + "<script>alert(1)</script>"})

    for page in pages(attacked):
        for headers in ({}, {"HX-Request": "true"}):
            answer = client.get(page, headers=headers)
            assert answer.status_code == 200, page
            text = answer.content.decode()
            assert [piece for piece in PIECES if piece in text] == [], page


@pytest.mark.parametrize("name", ["find", "trips", "runs", "audit", "board"])
def test_no_address_gives_its_words_to_a_page_as_they_are(cast, as_, name):
    words = dict.fromkeys(
        ("q", "tool", "dependency", "agent", "owner", "actor", "target", "order", "before", "id"), RAW
    )

    text = as_(cast.ada).get(reverse(f"dashboard:{name}"), words).content.decode()

    assert [piece for piece in PIECES if piece in text] == []


@pytest.mark.parametrize("page", ["/", "/trips/", "/styleguide/", "/find/?q=a", "/runs.csv"])
def test_every_answer_allows_no_foreign_thing_and_no_frame(cast, as_, page):
    answer = as_(cast.ada).get(page)

    policy = answer["Content-Security-Policy"]
    assert "unsafe-inline" not in policy and "frame-ancestors 'none'" in policy
    assert answer["Referrer-Policy"]
