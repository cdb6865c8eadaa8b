"""Every rejected attempt is on record: once, by whom, at what, and why; nothing of it is done."""

import pytest

from controlplane import clock
from controlplane.models import AlertChannel, AuditEntry, ToolChange, Trip
from controlplane.services import (
    access,
    alert_tests,
    alerts,
    catalogue,
    egress,
    people,
    probes,
    tokens,
    tool_reviews,
    tools,
    trips,
)
from controlplane.services.errors import Refused
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(frozen_clock):
    return factories.cast()


def _channel(cast):
    return AlertChannel.objects.create(
        environment=cast.prod, kind="email", name="night", target="n@example.com", created_at=clock.now(), enabled=False
    )


def _trip(cast):
    return Trip.objects.create(
        environment=cast.prod, scope="fleet", signal="failure_rate", dependency=cast.search_api, delivery="enforce",
        evidence={}, threshold={}, at=clock.now(), received_at=clock.now(),
    )  # fmt: skip


def _proposed(cast):
    """Without an entry of its own."""
    return ToolChange.objects.create(
        environment=cast.prod, tool=cast.tools["refund"], wanted={"side_effect": "read_only"}, content_hash="one",
        status="in_review", reason="x", created_at=clock.now(), created_by="petra",
    )  # fmt: skip


ATTEMPTS = {
    "issue_key": lambda c: access.issue_key(
        environment=c.prod, agent=c.research, label="x" * 101, actor="ada", now=clock.now()
    ),
    "quarantine_key": lambda c: access.quarantine_key(key=c.research_key, actor="ada", reason=" ", now=clock.now()),
    "quarantine_worker": lambda c: access.quarantine_worker(
        worker=c.workers[0], actor="ada", reason="", now=clock.now()
    ),
    "save_channel": lambda c: alerts.save_channel(
        environment=c.prod, kind="email", name="x", target="nobody", actor="ada", now=clock.now()
    ),
    "test_channel": lambda c: alert_tests.send_test(channel=_channel(c), actor="ada", now=clock.now()),
    "save_probe": lambda c: probes.save_probe(
        dependency=c.search_api, operation="web_search", spec={"url": "http://127.0.0.1/"}, actor="ada", now=clock.now()
    ),
    "test_probe": lambda c: probes.test_now(dependency=c.search_api, spec={"uri": ""}, actor="ada", now=clock.now()),
    "allow_network": lambda c: egress.allow_network(network="10.0.0.1/8", reason="x", actor="ada", now=clock.now()),
    "close_network": lambda c: egress.close_network(network="ten", actor="ada"),
    "ensure_dependency": lambda c: tools.ensure_dependency(
        environment=c.prod, slug="a\x00b", actor="ada", now=clock.now()
    ),
    "ensure_tool": lambda c: tools.ensure_tool(
        environment=c.prod, name="maps", dependencies=["serch-api"], actor="ada", now=clock.now()
    ),
    "create_tool": lambda c: catalogue.create_tool(
        environment=c.prod, name="maps", dependencies=["serch-api"], actor="ada", now=clock.now()
    ),
    "create_agent": lambda c: catalogue.create_agent(
        environment=c.prod, slug="research", name="Twice", actor="ada", now=clock.now()
    ),
    "edit_tool": lambda c: catalogue.edit_tool(
        tool=c.tools["refund"], changes={"owner": "payments", "dependencies": []}, actor="ada"
    ),
    "propose_tool_change": lambda c: tool_reviews.propose(
        tool=c.tools["refund"], wanted={"side_effect": "harmless"}, reason="x", actor="ada", now=clock.now()
    ),
    "approve_tool_change": lambda c: tool_reviews.approve(
        change=_proposed(c), content_hash="other", actor="ada", now=clock.now()
    ),
    "add_person": lambda c: people.add(username="ann", role="viewer", actor="ada"),
    "switch_off_person": lambda c: people.switch_off(person=c.ada, actor="ada"),
    "mark_false_trip": lambda c: trips.mark_false_trip(trip=_trip(c), actor="ada", reason="", now=clock.now()),
    "issue_token": lambda c: tokens.issue(person=c.ada, name="ci", scopes=["everything"], now=clock.now()),
}


@pytest.mark.parametrize("action", ATTEMPTS)
def test_what_a_service_refuses_is_on_record_once(cast, action):
    with pytest.raises(Refused) as refused:
        ATTEMPTS[action](cast)

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.accepted) == (action, "ada", False)
    assert entry.reason == refused.value.message.replace("\x00", "?")
    assert entry.detail == {"code": refused.value.code, "field": refused.value.field}
    assert entry.target


def test_the_record_names_what_it_was_about_and_where(cast):
    with pytest.raises(Refused):
        ATTEMPTS["edit_tool"](cast)

    entry = AuditEntry.objects.get()
    assert (entry.target, entry.environment_id) == ("refund", cast.prod.pk)


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("slack", "https://hooks.slack.com/services/T0/B0/hushhush"),
        ("webhook", "https://ada:hushhush@example.com/hook"),
        ("pagerduty", "hushhush-integration-key"),
        ("email", "hushhush"),
    ],
)
@pytest.mark.parametrize("edited", [False, True])
def test_a_secret_pasted_into_a_channel_s_address_is_not_on_record(cast, kind, target, edited):
    channel = _channel(cast) if edited else None
    with pytest.raises(Refused):
        alerts.save_channel(
            environment=cast.prod, kind=kind, name="night", target=target, actor="ada", now=clock.now(), channel=channel
        )

    entry = AuditEntry.objects.get()
    assert (entry.target, "hushhush" in f"{entry.reason}{entry.detail}") == ("night", False)


def test_nothing_of_what_was_refused_is_done(cast):
    with pytest.raises(Refused):
        ATTEMPTS["edit_tool"](cast)

    refund = cast.tools["refund"]
    refund.refresh_from_db()
    assert refund.owner == ""


def test_what_is_done_is_recorded_as_before(cast):
    catalogue.edit_tool(tool=cast.tools["refund"], changes={"owner": "payments"}, actor="ada")

    assert [entry.accepted for entry in AuditEntry.objects.all()] == [True]
