"""Telling people once: the outbox, the deliveries, and receivers that fail in every way."""

import json
from datetime import timedelta

import pytest

from controlplane.models import AlertChannel, AlertDelivery, AuditEntry, Circuit, Outage, Transition, Trip
from controlplane.services import alerts
from controlplane.services import egress as egress_service
from controlplane.services.errors import Refused
from tests.factories import NOON, dependency
from tests.workers.receiver import STORES_THEN_HANGS, MailServer, proves
from tests.workers.vendor import cut, hang, reply, reset
from workers.notifiers import posting
from workers.tasks.alerts import run_deliveries

pytestmark = pytest.mark.django_db


@pytest.fixture
def impatient(monkeypatch):
    """For receivers that hang; long enough for a busy machine to be answered by the others."""
    monkeypatch.setattr(posting, "TIME_LIMIT_S", 1.0)


def channel(stage, target, **more):
    return alerts.save_channel(
        environment=stage.prod, kind="webhook", name="pager", target=target, actor="ada", now=NOON, **more
    )


def opened(dependency, at=NOON, **evidence):
    """What the circuit's service writes when a circuit opens."""
    circuit = Circuit.objects.get(dependency=dependency)
    outage = Outage.objects.create(circuit=circuit, started_at=at, cause="failure_rate")
    Trip.objects.create(
        environment=dependency.environment, scope="fleet", signal="failure_rate", dependency=dependency, outage=outage,
        delivery="enforce", evidence={"failure_rate": 0.62, "calls": 26}, at=at, received_at=at,
        threshold={"failure_rate": 0.5, "min_calls": 20},
    )  # fmt: skip
    _move(circuit, outage, "closed", "open", "failure_rate", at)
    return outage


def _move(circuit, outage, before, after, cause, at):
    circuit.generation += 1
    circuit.state, circuit.due_at = after, None if after == "closed" else at + timedelta(seconds=30)
    circuit.save()
    Transition.objects.create(
        circuit=circuit, outage=outage, at=at, generation=circuit.generation, from_state=before, to_state=after,
        from_mode="auto", to_mode="auto", cause=cause,
    )  # fmt: skip


def probed(outage, *, good, at):
    _move(outage.circuit, outage, "open", "half_open", "probe_started", at)
    after = ("closed", "probe_passed") if good else ("open", "probe_failed")
    _move(outage.circuit, outage, "half_open", *after, at)
    if good:
        outage.ended_at = at
        outage.save()


def tell(now=NOON):
    """What the scheduler and a Celery worker do in one go."""
    alerts.dispatch_due_transitions(now=now, limit=100)
    claims = alerts.claim_deliveries(now=now, limit=100)
    run_deliveries([(str(key), attempt) for key, attempt in claims])
    return claims


def test_an_opening_is_told_once_with_all_that_on_call_needs(stage, receiver, frozen_clock):
    _, secret = channel(stage, receiver.hook)
    opened(stage.search_api)

    tell()
    tell()

    [body] = receiver.bodies
    assert body["event"] == "opened"
    assert body["url"].endswith("/circuits/prod/search-api/")
    assert body["trip"]["evidence"] == {"failure_rate": 0.62, "calls": 26}
    assert {tool["name"] for tool in body["tools"]} == {"web_search", "news_search"}
    assert "failure rate 0.62 against a threshold of 0.5 (calls 26; policy: min calls 20)" in body["text"]
    assert body["next_probe_at"] == "2026-06-01T12:00:30+00:00"
    assert proves(receiver.seen[0], secret)


@pytest.mark.case("D05", "D06")
def test_d06_six_tools_raise_one_alert_and_failed_probes_add_none(stage, receiver, frozen_clock):
    channel(stage, receiver.hook)
    outage = opened(stage.search_api)
    tell()
    for _ in range(2):
        probed(outage, good=False, at=frozen_clock.advance(33))
        tell(frozen_clock.advance(1))
    probed(outage, good=True, at=frozen_clock.advance(33))
    tell(frozen_clock.advance(1))
    opened(stage.search_api, frozen_clock.advance(100))
    tell(frozen_clock.advance(1))

    assert [(body["event"]) for body in receiver.bodies] == ["opened", "closed", "opened"]
    first, closed, second = receiver.bodies
    assert first["incident"] == closed["incident"] != second["incident"]


@pytest.mark.case("D05")
def test_d05_two_dependencies_are_two_incidents_and_each_resolves_its_own(stage, receiver, frozen_clock):
    channel(stage, receiver.hook)
    search, crm = opened(stage.search_api), opened(stage.crm_db)
    tell()
    probed(search, good=True, at=frozen_clock.advance(40))
    tell(frozen_clock.advance(1))

    by_event = [(body["event"], body["dependency"]) for body in receiver.bodies]
    assert sorted(by_event) == [("closed", "search-api"), ("opened", "crm-db"), ("opened", "search-api")]
    resolved = {body["incident"] for body in receiver.bodies if body["event"] == "closed"}
    assert resolved == {f"outage-{search.pk}"} != {f"outage-{crm.pk}"}


@pytest.mark.case("D07")
def test_d07_a_retried_webhook_is_the_same_to_the_byte(stage, receiver, frozen_clock, impatient):
    receiver.script = [reply(500), STORES_THEN_HANGS, reply(200)]
    channel(stage, receiver.hook)
    opened(stage.search_api)
    for _ in range(5):
        tell(frozen_clock.advance(60))

    assert len(receiver.seen) == 3
    same = ("recloser-delivery", "recloser-event", "recloser-signature")
    assert len({(*(each.headers[name] for name in same), each.body) for each in receiver.seen}) == 1
    assert len(receiver.kept) == 1
    assert AlertDelivery.objects.get().status == "sent"


FAULTS = {
    "500": reply(500),
    "301": reply(301, Location="/elsewhere"),
    "hang": hang,
    "reset": reset,
    "nonsense": cut,
}


@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "nonsense"])
def test_every_failure_is_tried_again_with_a_back_off(stage, receiver, frozen_clock, impatient, fault):
    receiver.script = [FAULTS[fault]]
    channel(stage, receiver.hook)
    opened(stage.search_api)

    tell()
    waiting = AlertDelivery.objects.get()
    assert (waiting.status, waiting.attempts) == ("pending", 1)
    assert waiting.last_error
    assert 4 <= (waiting.due_at - NOON).total_seconds() <= 6
    assert tell(frozen_clock.advance(3)) == []

    tell(frozen_clock.advance(4))
    assert AlertDelivery.objects.get().status == "sent"


def test_waits_double_up_to_a_quarter_of_an_hour_and_heed_the_receiver():
    assert [alerts.wait_s(n, None, 0.0) for n in (1, 2, 3, 9, 10)] == [5, 10, 20, 900, 900]
    assert alerts.wait_s(1, 120.0, 0.0) == 120
    assert alerts.wait_s(11, None, 0.0) == 5


def test_a_dead_letter_is_visible_and_can_be_sent_again(stage, receiver, frozen_clock):
    receiver.script = [reply(500)] * alerts.MAX_ATTEMPTS
    channel(stage, receiver.hook)
    opened(stage.search_api)
    for _ in range(alerts.MAX_ATTEMPTS + 3):
        tell(frozen_clock.advance(1200))

    dead = AlertDelivery.objects.get()
    assert (dead.status, dead.last_error) == ("dead", "the receiver answered 500")
    assert len(receiver.seen) == alerts.MAX_ATTEMPTS

    alerts.resend(delivery_id=dead.pk, actor="otto", now=frozen_clock.advance(1))
    tell(frozen_clock.advance(1))

    assert AlertDelivery.objects.get().status == "sent"
    assert len(receiver.kept) == 1
    assert AuditEntry.objects.filter(actor="otto", action="resend_alert").exists()


def test_a_receiver_that_is_gone_is_not_asked_again(stage, receiver, frozen_clock):
    receiver.script = [reply(410)]
    channel(stage, receiver.hook)
    opened(stage.search_api)
    tell()

    assert AlertDelivery.objects.get().status == "dead"


def test_what_is_under_way_is_not_sent_again_by_hand(stage, receiver, frozen_clock):
    channel(stage, receiver.hook)
    opened(stage.search_api)
    alerts.dispatch_due_transitions(now=NOON, limit=10)

    with pytest.raises(Refused, match="still on its way"):
        alerts.resend(delivery_id=AlertDelivery.objects.get().pk, actor="otto", now=NOON)


def test_what_a_killed_worker_held_is_claimed_again_and_its_late_word_has_no_say(stage, receiver, frozen_clock):
    channel(stage, receiver.hook)
    opened(stage.search_api)
    alerts.dispatch_due_transitions(now=NOON, limit=10)
    [(key, attempt)] = alerts.claim_deliveries(now=NOON, limit=10)
    assert alerts.claim_deliveries(now=frozen_clock.advance(29), limit=10) == []

    tell(frozen_clock.advance(2))

    late = alerts.finish_delivery(delivery_id=key, attempt=attempt, result=alerts.Result("late"), now=NOON)
    assert late is False
    assert AlertDelivery.objects.get().status == "sent"


def test_a_claim_delivered_twice_is_sent_once(stage, receiver, frozen_clock):
    channel(stage, receiver.hook)
    opened(stage.search_api)
    claims = [(str(key), attempt) for key, attempt in tell()]

    run_deliveries(claims)

    assert len(receiver.seen) == 1


def test_a_channel_hears_of_one_incident_in_order(stage, receiver, frozen_clock):
    receiver.script = [reply(500)]
    channel(stage, receiver.hook)
    outage = opened(stage.search_api)
    tell()
    probed(outage, good=True, at=frozen_clock.advance(1))

    tell(frozen_clock.advance(1))
    assert len(receiver.seen) == 1
    tell(frozen_clock.advance(10))
    tell(frozen_clock.advance(1))

    assert [body["event"] for body in receiver.bodies] == ["opened", "opened", "closed"]


def test_opening_and_close_that_are_announced_together_keep_their_order(stage, receiver, frozen_clock):
    channel(stage, receiver.hook)
    outage = opened(stage.search_api)
    probed(outage, good=True, at=frozen_clock.advance(40))
    tell(frozen_clock.advance(1))
    tell(frozen_clock.advance(1))

    assert [body["event"] for body in receiver.bodies] == ["opened", "closed"]


def test_a_lockout_calls_a_human_once(stage, receiver, frozen_clock):
    channel(stage, receiver.hook)
    outage = opened(stage.search_api)
    tell()
    outage.locked_out_at = frozen_clock.advance(600)
    outage.save()
    tell(frozen_clock.advance(1))
    tell(frozen_clock.advance(1))

    assert [body["event"] for body in receiver.bodies] == ["opened", "locked_out"]
    assert receiver.bodies[1]["at"] == "2026-06-01T12:10:00+00:00"


def test_environments_do_not_hear_of_each_other(stage, receiver, frozen_clock):
    channel(stage, receiver.hook)
    opened(stage.staging_search_api)
    tell()

    assert receiver.seen == []
    assert not Transition.objects.filter(alerted_at=None).exists()


def test_a_mail_says_the_same_and_its_id_is_the_deliverys(stage, settings, frozen_clock):
    with MailServer() as server:
        settings.EMAIL_URL, settings.EMAIL_FROM = server.url, "recloser@example.com"
        _mail_channel(stage)
        opened(stage.search_api)
        tell()

    [mail] = server.mails
    assert mail["Subject"] == "Opened: search-api (prod)"
    assert mail["Message-ID"] == f"<{AlertDelivery.objects.get().pk}@example.com>"
    assert server.recipients == ["oncall@example.com"]
    assert "against a threshold of 0.5" in mail.get_content()


def test_a_hostile_dependency_name_writes_no_mail_header(stage, settings, frozen_clock):
    with MailServer() as server:
        settings.EMAIL_URL = server.url
        settings.EMAIL_FROM = "recloser@example.com"
        _mail_channel(stage)
        opened(dependency(stage.prod, "x\r\nBcc: all@example.com\r\n"))
        tell()

    assert server.mails[0]["Bcc"] is None
    assert server.recipients == ["oncall@example.com"]


def test_a_password_is_not_sent_in_the_clear(stage, settings, frozen_clock):
    with MailServer() as server:
        settings.EMAIL_URL = server.url.replace("://", "://recloser:never-to-be-seen@")
        settings.EMAIL_FROM = "recloser@example.com"
        _mail_channel(stage)
        opened(stage.search_api)
        tell()

    assert server.mails == []
    said = AlertDelivery.objects.get().last_error
    assert "offers no encryption" in said
    assert "never-to-be-seen" not in said


@pytest.mark.parametrize(("url", "said"), [("", "set RECLOSER_EMAIL_URL"), ("smtp://127.0.0.1:9", "cannot be used")])
def test_mail_that_cannot_be_sent_says_why(stage, settings, frozen_clock, url, said):
    settings.EMAIL_URL = url
    _mail_channel(stage)
    opened(stage.search_api)
    tell()

    assert said in AlertDelivery.objects.get().last_error


def test_a_refused_recipient_is_told_by_number_not_in_the_servers_words(stage, settings, frozen_clock):
    with MailServer(refuses=550) as server:
        settings.EMAIL_URL, settings.EMAIL_FROM = server.url, "recloser@example.com"
        _mail_channel(stage)
        opened(stage.search_api)
        tell()

    assert AlertDelivery.objects.get().last_error == "the mail server refused the recipient (550)"


def _mail_channel(stage):
    alerts.save_channel(
        environment=stage.prod, kind="email", name="mail", target="oncall@example.com", actor="ada", now=NOON
    )


@pytest.mark.parametrize(
    ("kind", "target", "field"),
    [
        ("webhook", "ftp://example.com/", "target"),
        ("webhook", "http://user:pass@example.com/", "target"),
        ("webhook", "http://169.254.169.254/", "target"),
        ("webhook", "https://[::1", "target"),
        ("webhook", "https://1.1.1.1:99999/", "target"),
        ("webhook", "https://1.1.1.1:abc/", "target"),
        ("webhook", "https://a]b/", "target"),
        ("webhook", "https://1.1.1.1/a b", "target"),
        ("webhook", "https://1.1.1.1/\r\nx: y", "target"),
        ("webhook", "https://", "target"),
        ("webhook", "http://no-such-host.invalid/", "target"),
        ("webhook", "https://example.com/" + "x" * 600, "target"),
        ("email", "not an address", "target"),
        ("email", "a@example.com\nBcc: b@example.com", "target"),
        ("pigeon", "roof", "kind"),
    ],
)
def test_a_channel_that_cannot_work_is_refused_at_its_field(stage, kind, target, field):
    with pytest.raises(Refused) as refusal:
        alerts.save_channel(environment=stage.prod, kind=kind, name="x", target=target, actor="ada", now=NOON)

    assert refusal.value.field == field
    assert refusal.value.mend


def test_a_signing_secret_is_shown_once_and_stays_unless_changed(stage, receiver, frozen_clock):
    made, secret = channel(stage, receiver.hook)
    _, again = channel(stage, receiver.hook, channel=made)
    assert len(secret) >= 32
    assert again == ""
    assert secret not in AlertChannel.objects.get().secret

    opened(stage.search_api)
    tell()
    assert proves(receiver.seen[0], secret)
    assert secret not in json.dumps(receiver.bodies)


def test_a_channel_that_was_switched_off_meanwhile_is_not_written_to(stage, receiver, frozen_clock):
    made, _ = channel(stage, receiver.hook)
    opened(stage.search_api)
    alerts.dispatch_due_transitions(now=NOON, limit=10)
    channel(stage, receiver.hook, channel=made, enabled=False)
    tell()

    assert receiver.seen == []
    assert AlertDelivery.objects.get().last_error == "the channel is switched off"


def test_a_target_whose_name_now_leads_inside_is_refused_at_sending_too(stage, receiver, frozen_clock):
    channel(stage, receiver.hook)
    egress_service.close_network(network="127.0.0.0/8", actor="ada")
    opened(stage.search_api)
    tell()

    assert receiver.seen == []
    assert "may reach" in AlertDelivery.objects.get().last_error
