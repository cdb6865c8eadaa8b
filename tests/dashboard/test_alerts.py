"""Alerts: channels, what became of each message, and sending again."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from controlplane.models import AlertChannel, AlertDelivery, AuditEntry
from controlplane.selectors import alerts as selector
from controlplane.services import alerts as service
from tests.conftest import NOON


def to(name, *more):
    return reverse(f"dashboard:{name}", args=["prod", *more])


def said(**more):
    return {"token": str(uuid.uuid4()), **more}


@pytest.fixture
def channel(cast):
    return AlertChannel.objects.create(
        environment=cast.prod, kind="email", name="Search team", target="s@example.com", created_at=NOON,
        created_by="ada",
    )  # fmt: skip


def message(channel, number=0, **given):
    values = {"event": "opened", "incident": f"outage-{uuid.uuid4()}", "body": {"dependency": "search-api"},
              "status": "sent", "attempts": 1, "due_at": NOON}  # fmt: skip
    return AlertDelivery.objects.create(
        channel=channel, created_at=NOON - timedelta(seconds=number), **(values | given)
    )


def listed(client, **query):
    return client.get("/alerts/", {"environment": "prod", **query})


def found(answer):
    return [row.pk for row in answer.context["found"].deliveries]


def test_dead_letters_are_counted_listed_and_sent_again(cast, channel, as_):
    sent, dead = message(channel), message(channel, status="dead", attempts=10, last_error="<b>550</b>")
    client = as_(cast.otto)

    answer = listed(client, status="dead")
    assert found(answer) == [dead.pk]
    assert "&lt;b&gt;550&lt;/b&gt;" in answer.content.decode()
    assert set(found(listed(client))) == {sent.pk, dead.pk}

    client.post(to("resend", dead.pk), said())
    dead.refresh_from_db()
    assert (dead.status, dead.due_at) == ("pending", NOON)
    assert AuditEntry.objects.get().action == "resend_alert"


def test_a_message_on_its_way_is_not_sent_twice(cast, channel, as_):
    row = message(channel, status="pending")

    answer = as_(cast.otto).post(to("resend", row.pk), said())

    assert answer.status_code == 422
    assert "still on its way" in answer.content.decode()


def test_a_channel_is_tried_out_like_any_alert(cast, channel, as_):
    client = as_(cast.ada)

    client.post(to("test-channel", channel.pk), said())

    row = AlertDelivery.objects.get()
    assert (row.event, row.status, row.body["actor"]) == ("test", "pending", "ada")
    [claim] = service.claim_deliveries(now=NOON, limit=5)
    [sent] = service.messages([claim])
    assert sent.target == "s@example.com"
    assert "Nothing has happened" in sent.body["text"]
    assert "Test message" in listed(client).content.decode()


def test_a_channel_that_is_off_is_not_tried_out(cast, channel, as_):
    AlertChannel.objects.update(enabled=False)

    answer = as_(cast.ada).post(to("test-channel", channel.pk), said())

    assert answer.status_code == 422
    assert not AlertDelivery.objects.exists()


def test_a_channel_is_changed_and_switched_off(cast, channel, as_):
    as_(cast.ada).post(
        to("edit-channel", channel.pk), said(kind="email", name="Search on-call", target="new@example.com")
    )

    channel.refresh_from_db()
    assert (channel.name, channel.target, channel.enabled) == ("Search on-call", "new@example.com", False)


@pytest.mark.parametrize(("name", "who"), [("test-channel", "otto"), ("edit-channel", "otto"), ("resend", "petra")])
def test_who_may_not_is_refused(cast, channel, as_, name, who):
    target = message(channel, status="dead").pk if name == "resend" else channel.pk

    assert as_(getattr(cast, who)).post(to(name, target), said()).status_code == 403
    assert AuditEntry.objects.get().accepted is False


def test_messages_of_another_environment_are_out_of_reach(cast, channel, as_):
    row = message(channel, status="dead")
    address = reverse("dashboard:resend", args=["staging", row.pk])

    assert as_(cast.otto).post(address, said()).status_code == 404


def test_pages_follow_keys(cast, channel, as_, monkeypatch):
    defaults = {**selector.alerts.__kwdefaults__, "limit": 3}
    monkeypatch.setattr(selector.alerts, "__kwdefaults__", defaults)
    made = {message(channel, number // 2).pk for number in range(8)}
    client, seen, address = as_(cast.ann), [], "/alerts/?environment=prod"

    while address:
        answer = client.get(address)
        seen += found(answer)
        address = answer.context["next"] and "/alerts/" + answer.context["next"]

    assert set(seen) == made and len(seen) == len(made)


def test_the_number_of_queries_does_not_grow_with_the_messages(cast, channel, as_, django_assert_num_queries):
    for number in range(30):
        message(channel, number)
    client = as_(cast.ann)

    with django_assert_num_queries(8):
        listed(client)
