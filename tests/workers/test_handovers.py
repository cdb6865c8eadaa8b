"""A question or an escalation of a run reaches people, from its report to the webhook."""

import uuid
from datetime import timedelta

import pytest

from controlplane import clock
from controlplane.models import AlertDelivery, Run
from controlplane.services import alerts, handovers
from tests.factories import NOON
from tests.workers.receiver import proves
from workers.tasks.alerts import run_deliveries

pytestmark = pytest.mark.django_db


def look():
    """What the scheduler and a Celery worker do in one go; how many deliveries were made."""
    made = handovers.dispatch_due_handovers(now=clock.now(), limit=100)
    claims = alerts.claim_deliveries(now=clock.now(), limit=100)
    run_deliveries([(str(key), attempt) for key, attempt in claims])
    return made


def run_of(stage, handover="question", **more):
    now = clock.now()
    lack = {
        "tool": "web_search",
        "dependency": "search-api",
        "cause": "consecutive_failures",
        "scope": "run",
        "step": 4,
    }
    values = {
        "environment": stage.prod, "agent": stage.research, "revision": 1,
        "status": "ended", "end_cause": "no_viable_path", "started_at": now - timedelta(minutes=1), "ended_at": now,
        "reported_at": now, "steps": 5, "degraded": True, "task_kind": "brief", "missing": [lack],
        "handover": handover,
    }  # fmt: skip
    return Run.objects.create(id=uuid.uuid4(), **{**values, **more})


@pytest.mark.parametrize(
    ("handover", "title"),
    [("question", "research asks how to go on (prod)"), ("escalation", "research hands over to a person (prod)")],
)
def test_a_handover_is_told_once_with_the_run_and_what_it_lacked(stage, receiver, secret, handover, title):
    run = run_of(stage, handover)

    look()
    look()

    (body,) = receiver.bodies
    assert (body["event"], body["title"], body["agent"]) == (handover, title, "research")
    assert body["url"].endswith(f"/runs/{run.pk}/")
    assert body["runs"][0]["lacked"] == [
        {"tool": "web_search", "cause": "consecutive_failures", "step": 4, "dependency": "search-api"}
    ]
    assert "brief, ended after 5 steps, without web_search" in body["text"]
    assert proves(receiver.seen[0], secret)


def test_many_alike_are_told_together_after_the_first(stage, receiver, secret, frozen_clock):
    first = run_of(stage)
    look()
    for _ in range(25):
        run_of(stage)
    frozen_clock.advance(60)
    assert look() == 0
    frozen_clock.advance(300)
    assert look() == 1

    one, many = receiver.bodies
    assert (one["count"], one["runs"][0]["id"]) == (1, str(first.pk))
    assert (many["count"], len(many["runs"])) == (25, handovers.LISTED)
    assert "and 5 more runs like these" in many["text"]
    assert one["group"] == many["group"]
    assert one["incident"] != many["incident"]


def test_another_kind_is_not_held_up_by_the_first(stage, receiver, secret):
    run_of(stage, "question")
    look()
    run_of(stage, "escalation")
    look()

    assert [body["event"] for body in receiver.bodies] == ["question", "escalation"]


def test_what_nobody_listens_to_is_not_told_to_a_later_channel(stage, receiver):
    run_of(stage)
    assert look() == 0
    alerts.save_channel(
        environment=stage.prod, kind="webhook", name="pager", target=receiver.hook, actor="ada", now=NOON
    )
    assert look() == 0
    assert not AlertDelivery.objects.exists()


def test_a_run_that_passed_nothing_on_is_no_alert(stage, receiver, secret):
    run_of(stage, "")
    assert look() == 0


def test_another_environments_channel_does_not_hear_of_it(stage, receiver, secret):
    run_of(stage, environment=stage.staging)
    assert look() == 0
    assert not receiver.bodies
