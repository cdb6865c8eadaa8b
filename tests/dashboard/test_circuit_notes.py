"""Beside a circuit: notes, whom it hits, when outages come, and deeds that are taken back by their opposite."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from controlplane.models import AuditEntry, Outage
from controlplane.selectors import impact
from tests.conftest import NOON
from tests.dashboard import stage

HOSTILE = "<script>document.title='owned'</script>\"'&"


def page(client, dependency="search-api"):
    return client.get(f"/circuits/prod/{dependency}/").content.decode()


def do(client, action, headers=None, **data):
    address = reverse("dashboard:action", args=["prod", "search-api", action])
    return client.post(address, {"token": uuid.uuid4(), **data}, headers=headers or {})


def test_a_note_is_read_by_everyone_and_stands_in_the_audit(cast, as_):
    answer = do(as_(cast.otto), "note", reason="the vendor is at it, case 4711")

    assert answer.status_code == 302
    entry = AuditEntry.objects.get(action="note")
    assert (entry.actor, entry.target, entry.accepted) == ("otto", "search-api", True)
    shown = page(as_(cast.ann))
    assert "the vendor is at it, case 4711" in shown and "<b>otto</b>" in shown
    assert "the vendor is at it" not in page(as_(cast.ann), "crm-db")


def test_a_note_sent_twice_is_one_note(cast, as_):
    client, data = as_(cast.otto), {"token": str(uuid.uuid4()), "reason": "once"}

    for _ in range(2):
        do(client, "note", **data)

    assert AuditEntry.objects.filter(action="note").count() == 1


@pytest.mark.parametrize("text", ["", "   ", "x" * 501])
def test_a_note_without_sense_is_refused_at_its_field(cast, as_, text):
    assert do(as_(cast.otto), "note", reason=text).status_code == 422
    assert not AuditEntry.objects.filter(action="note").exists()


@pytest.mark.parametrize("name", ["ann", "petra"])
def test_who_may_not_operate_writes_nothing(cast, as_, name):
    client = as_(getattr(cast, name))

    assert do(client, "note", reason="hello").status_code == 403
    assert not AuditEntry.objects.filter(accepted=True).exists()
    assert "Write a note" not in page(client)


def test_a_hostile_note_is_text(cast, as_):
    client = as_(cast.otto)
    do(client, "note", reason=HOSTILE)

    assert "<script>document" not in page(client)
    assert "&lt;script&gt;document.title=" in page(client)


def test_each_agent_has_its_part(cast, as_):
    stage.opened(cast.search_api, NOON - timedelta(minutes=5))
    stage.observed(cast.workers[0], cast.tools["web_search"], NOON - timedelta(minutes=4), timeout=3, ok=1)
    stage.observed(cast.workers[1], cast.tools["web_search"], NOON - timedelta(minutes=4), rejected=2)
    stage.degraded(cast.research, NOON - timedelta(minutes=3), disclosed=False)

    [part] = as_(cast.ann).get("/circuits/prod/search-api/").context["agents"]

    assert (part.agent, part.runs, part.undisclosed, part.failures, part.ok) == ("research", 1, 1, 3, 1)
    assert (part.rejected, part.workers) == (2, 2)


def outages(cast, *hours):
    row = cast.search_api.circuit
    for day, hour in enumerate(hours, start=1):
        at = NOON.replace(hour=hour) - timedelta(days=day)
        Outage.objects.create(circuit=row, started_at=at, ended_at=at + timedelta(minutes=9), cause="failure_rate")
    return row


def test_outages_that_come_at_one_hour_are_told_with_that_hour(cast, as_):
    row = outages(cast, 3, 3, 3, 14)

    found = impact.pattern(row, NOON)

    assert (found.outages, found.hours[3], found.hours[14], found.telling) == (4, 3, 1, True)
    assert "Most begin about" in page(as_(cast.ann))
    assert "3 h: 3; 14 h: 1; " in page(as_(cast.ann))


@pytest.mark.parametrize("hours", [(3, 3), (1, 5, 9, 13, 17), ()])
def test_few_or_scattered_outages_tell_no_hour(cast, hours):
    assert not impact.pattern(outages(cast, *hours), NOON).telling


def test_an_acknowledgement_is_handed_back(cast, as_):
    stage.opened(cast.search_api, NOON - timedelta(minutes=5))
    client = as_(cast.otto)
    do(client, "acknowledge")
    assert "Hand back" in page(client)

    do(client, "hand-back")

    assert "Taken by" not in page(client)
    actions = AuditEntry.objects.order_by("id").values_list("action", flat=True)
    assert list(actions) == ["acknowledge", "hand_back"]
    assert do(client, "hand-back").status_code == 409


@pytest.mark.parametrize(
    ("action", "opposite"),
    [("acknowledge", "hand-back"), ("force-close", "hold-open"), ("hold-open", "release"), ("hold-closed", "release")],
)
def test_what_was_done_offers_its_opposite(cast, as_, action, opposite):
    stage.opened(cast.search_api, NOON - timedelta(minutes=5))
    client, fragment = as_(cast.otto), {"HX-Request": "true"}

    answer = do(client, action, headers=fragment, reason="we know", minutes=60).content.decode()

    assert reverse("dashboard:action", args=["prod", "search-api", opposite]) in answer


@pytest.mark.parametrize("held", ["hold-open", "hold-closed"])
def test_a_hold_that_was_released_is_held_again_as_it_was(cast, as_, held):
    client = as_(cast.otto)
    do(client, held, reason="drill", minutes=60)

    answer = do(client, "release", headers={"HX-Request": "true"}, reason="done").content.decode()

    assert reverse("dashboard:action", args=["prod", "search-api", held]) in answer
