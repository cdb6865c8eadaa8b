"""Slack and PagerDuty, against a receiver that answers as they do."""

import json

import pytest

from controlplane.models import AlertChannel, AlertDelivery
from controlplane.services import alerts
from controlplane.services.errors import Refused
from tests.factories import NOON, dependency
from tests.workers.receiver import Receiver
from tests.workers.test_alerts import opened, probed, tell
from tests.workers.vendor import hang, reply
from workers.notifiers import posting

pytestmark = pytest.mark.django_db


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(posting, "TIME_LIMIT_S", 1.0)


KEY = "R0123456789abcdefghijklmnopqrstu"


def slack(stage, receiver):
    return alerts.save_channel(
        environment=stage.prod, kind="slack", name="team", target="#oncall", secret=receiver.hook, actor="ada", now=NOON
    )


def pagerduty(stage, receiver):
    return alerts.save_channel(
        environment=stage.prod, kind="pagerduty", name="duty", target=receiver.hook, secret=KEY, actor="ada", now=NOON
    )


def test_slack_is_told_in_the_alerts_own_lines(stage, receiver, frozen_clock):
    channel, shown = slack(stage, receiver)
    assert shown == "" and receiver.hook not in channel.secret, "it is stored encrypted, and not given back"
    opened(stage.search_api)

    tell()

    (body,) = receiver.bodies
    assert body["text"].startswith("Opened: search-api")
    lines = body["blocks"][0]["text"]["text"]
    assert "failure rate 0.62 against a threshold of 0.5" in lines and "/circuits/prod/search-api/" in lines
    assert AlertDelivery.objects.get().status == "sent"


def test_hostile_text_pings_nobody_and_links_nowhere(stage, receiver, frozen_clock):
    slack(stage, receiver)
    hostile = dependency(stage.prod, "<!channel>-<https://evil.example|click>-*_~`&")
    opened(hostile)

    tell()

    raw = receiver.seen[0].body.decode()
    assert "<" not in raw and ">" not in raw
    assert "&lt;!channel&gt;" in raw


def test_a_slack_message_is_no_longer_than_slack_takes(stage, receiver, frozen_clock):
    slack(stage, receiver)
    opened(stage.search_api, at=NOON)
    tell()
    row = AlertDelivery.objects.get()
    row.body["text"] = "<" * 10_000
    row.save()
    alerts.resend(delivery_id=row.pk, actor="ada", now=frozen_clock.advance(1))
    tell(frozen_clock.advance(1))
    assert len(receiver.bodies[-1]["blocks"][0]["text"]["text"]) <= 3000


def test_a_revoked_slack_webhook_is_dead_at_once_and_its_address_is_nowhere(stage, receiver, frozen_clock):
    receiver.script = [reply(404)]
    slack(stage, receiver)
    opened(stage.search_api)

    tell()

    row = AlertDelivery.objects.get()
    assert (row.status, row.last_error) == ("dead", "the receiver answered 404")


def test_an_incident_is_triggered_and_resolved_by_one_key(stage, receiver, frozen_clock):
    pagerduty(stage, receiver)
    outage = opened(stage.search_api)
    tell()
    probed(outage, good=True, at=frozen_clock.advance(40))
    tell(frozen_clock.advance(1))

    trigger, resolve = receiver.bodies
    assert (trigger["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    assert trigger["dedup_key"] == resolve["dedup_key"] == f"outage-{outage.pk}"
    assert trigger["routing_key"] == resolve["routing_key"] == KEY
    payload = trigger["payload"]
    assert payload["severity"] == "error" and payload["source"] == "prod/search-api"
    assert payload["summary"].startswith("Opened: search-api") and payload["custom_details"]["trip"]["signal"]
    assert trigger["links"][0]["href"].endswith("/circuits/prod/search-api/")


def test_a_lockout_raises_the_same_incident_to_critical(stage, receiver, frozen_clock):
    pagerduty(stage, receiver)
    outage = opened(stage.search_api)
    outage.locked_out_at = frozen_clock.advance(700)
    outage.save()
    tell(frozen_clock.advance(1))
    assert [body["payload"]["severity"] for body in receiver.bodies] == ["error"]
    tell(frozen_clock.advance(1))
    assert [body["payload"]["severity"] for body in receiver.bodies] == ["error", "critical"]
    assert len({body["dedup_key"] for body in receiver.bodies}) == 1


@pytest.mark.parametrize(("answer", "status"), [(400, "dead"), (429, "pending"), (503, "pending")])
def test_a_wrong_key_is_final_and_a_busy_service_is_asked_again(stage, receiver, frozen_clock, answer, status):
    receiver.script = [reply(answer)]
    pagerduty(stage, receiver)
    opened(stage.search_api)
    tell()
    assert AlertDelivery.objects.get().status == status


def test_a_repeated_event_is_the_same_to_the_byte(stage, receiver, impatient, frozen_clock):
    receiver.script = [reply(500), hang]
    pagerduty(stage, receiver)
    opened(stage.search_api)
    for _ in range(4):
        tell(frozen_clock.advance(60))
    assert len(receiver.seen) == 3 and len({each.body for each in receiver.seen}) == 1


def test_no_error_holds_the_key(stage, frozen_clock):
    with Receiver() as receiver:
        slack(stage, receiver)
    opened(stage.search_api)

    tell()

    row = AlertDelivery.objects.get()
    assert row.last_error and receiver.hook not in row.last_error + json.dumps(row.body)


def test_an_edit_without_a_secret_keeps_the_stored_one(stage, receiver, frozen_clock):
    channel, _ = slack(stage, receiver)
    sealed = channel.secret
    alerts.save_channel(
        environment=stage.prod, kind="slack", name="team", target="#night", actor="ada", now=NOON, channel=channel
    )
    assert AlertChannel.objects.get().secret == sealed


@pytest.mark.parametrize(
    ("kind", "target", "secret", "field"),
    [
        ("slack", "#oncall", None, "secret"),
        ("slack", "#oncall", "", "secret"),
        ("slack", "#oncall", "not an address", "secret"),
        ("slack", "#oncall", "http://169.254.169.254/x", "secret"),
        ("slack", "https://hooks.example.com/T0/secret", "https://1.1.1.1/", "target"),
        ("slack", " ", "https://1.1.1.1/", "target"),
        ("pagerduty", "https://1.1.1.1/", None, "secret"),
        ("pagerduty", "https://1.1.1.1/", "short", "secret"),
        ("pagerduty", "https://1.1.1.1/", "x" * 30 + "\r\n", "secret"),
        ("pagerduty", "events", KEY, "target"),
    ],
)
def test_a_channel_that_cannot_work_is_refused_at_its_field(stage, kind, target, secret, field):
    with pytest.raises(Refused) as refusal:
        alerts.save_channel(
            environment=stage.prod, kind=kind, name="x", target=target, secret=secret, actor="ada", now=NOON
        )
    assert refusal.value.field == field and refusal.value.mend
    assert not AlertChannel.objects.exists()


def test_a_stored_key_is_never_sent_to_another_address(stage, receiver):
    channel, _ = pagerduty(stage, receiver)
    asked = {"channel": channel, "environment": stage.prod, "kind": "pagerduty", "actor": "ada", "now": NOON}

    with pytest.raises(Refused) as refused:
        alerts.save_channel(**asked, name="duty", target=f"{receiver.hook}/elsewhere")
    assert (refused.value.code, refused.value.field) == ("secrets_needed", "secret")
    channel.refresh_from_db()
    assert channel.target == receiver.hook

    renamed, _ = alerts.save_channel(**asked, name="night duty", target=receiver.hook)
    assert renamed.name == "night duty"
    moved, _ = alerts.save_channel(**asked, name="duty", target=f"{receiver.hook}/elsewhere", secret=KEY)
    assert moved.target.endswith("/elsewhere")
