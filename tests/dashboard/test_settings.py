"""Settings: quarantine, keys, channels, networks; and the probe of a dependency."""

from __future__ import annotations

import uuid

import pytest
from django.urls import reverse

from controlplane.models import AgentKey, AlertChannel, AllowedNetwork, AuditEntry, Probe, Worker
from controlplane.services import access
from tests.conftest import NOON


def to(name, *more, environment="prod"):
    return reverse(f"dashboard:{name}", args=[environment, *more])


def said(**more):
    return {"token": str(uuid.uuid4()), "reason": "wrong network policy", **more}


def test_a_worker_is_quarantined_and_lifted_again(cast, as_):
    client, worker = as_(cast.otto), cast.workers[0]

    client.post(to("quarantine-worker", worker.pk), said())
    assert Worker.objects.get(pk=worker.pk).quarantined_by == "otto"
    assert "wrong network policy" in client.get("/settings/?environment=prod").content.decode()
    assert "wrong network policy" in client.get("/?environment=prod").content.decode()

    client.post(to("lift-worker", worker.pk), said())
    assert Worker.objects.get(pk=worker.pk).quarantined_at is None
    actions = AuditEntry.objects.order_by("id").values_list("action", flat=True)
    assert list(actions) == ["quarantine_worker", "lift_quarantine"]


def test_a_key_is_quarantined(cast, as_):
    as_(cast.otto).post(to("quarantine-key", cast.research_key.pk), said())

    assert AgentKey.objects.get(pk=cast.research_key.pk).quarantine_reason == "wrong network policy"


@pytest.mark.parametrize("name", ["ann", "petra"])
def test_who_may_not_quarantine_is_refused_on_record(cast, as_, name):
    answer = as_(getattr(cast, name)).post(to("quarantine-worker", cast.workers[0].pk), said())

    assert answer.status_code == 403
    assert Worker.objects.get(pk=cast.workers[0].pk).quarantined_at is None
    assert AuditEntry.objects.get().accepted is False


def test_quarantine_wants_a_reason(cast, as_):
    answer = as_(cast.otto).post(to("quarantine-worker", cast.workers[0].pk), said(reason=""))

    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {"reason"}


def test_a_worker_of_another_environment_is_out_of_reach(cast, as_):
    answer = as_(cast.otto).post(to("quarantine-worker", cast.workers[0].pk, environment="staging"), said())

    assert answer.status_code == 404


def test_a_new_key_is_shown_once_and_works(cast, as_):
    client = as_(cast.ada)

    text = client.post(to("issue-key"), {"agent": cast.research.pk, "label": "ci"}).content.decode()

    token = text.split("RECLOSER_KEY=")[1].split("</code>")[0]
    assert access.authenticate(token).label == "ci"
    assert token not in client.get("/settings/?environment=prod").content.decode()


def test_a_key_for_an_agent_of_another_environment_is_refused(cast, as_):
    answer = as_(cast.ada).post(to("issue-key"), {"agent": cast.staging_research.pk})

    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {"agent"}


def test_a_key_is_revoked_by_an_admin_only(cast, as_):
    assert as_(cast.otto).post(to("revoke-key", cast.research_key.pk), said()).status_code == 403
    assert AgentKey.objects.get(pk=cast.research_key.pk).revoked_at is None

    as_(cast.ada).post(to("revoke-key", cast.research_key.pk), said())
    assert AgentKey.objects.get(pk=cast.research_key.pk).revoked_at == NOON


def test_a_channel_is_added_and_removed(cast, as_):
    client = as_(cast.ada)

    client.post(to("add-channel"), {"kind": "email", "name": "Search team", "target": "search@example.com"})
    channel = AlertChannel.objects.get()
    assert (channel.environment, channel.target) == (cast.prod, "search@example.com")
    assert "Search team" in client.get("/alerts/?environment=prod").content.decode()

    client.post(to("remove-channel", channel.pk), said())
    assert not AlertChannel.objects.exists()


def test_a_bad_channel_names_its_field(cast, as_):
    answer = as_(cast.ada).post(to("add-channel"), {"kind": "email", "name": "Search team", "target": "nowhere"})

    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {"target"}


def test_a_network_is_allowed_and_closed(cast, as_):
    client = as_(cast.ada)

    client.post(to("allow-network"), said(network="10.1.0.0/16"))
    row = AllowedNetwork.objects.get()
    assert (row.network, row.created_by) == ("10.1.0.0/16", "ada")

    client.post(to("close-network", row.pk))
    assert not AllowedNetwork.objects.exists()


def test_a_bad_network_names_its_field(cast, as_):
    answer = as_(cast.ada).post(to("allow-network"), said(network="10.1.2.3/16"))

    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {"network"}


def test_only_an_admin_opens_a_network(cast, as_):
    assert as_(cast.otto).post(to("allow-network"), said(network="10.1.0.0/16")).status_code == 403
    assert not AllowedNetwork.objects.exists()


def probe_data(**more):
    return {
        "url": "http://10.1.0.9/health", "method": "GET", "expected_status": "200", "condition": "contains", "value": "ok", "headers": "",
        "latency_ms": "800", "time_limit_s": "5", "operation": "web_search", "enabled": "on", **more,
    }  # fmt: skip


@pytest.fixture
def allowed(cast):
    AllowedNetwork.objects.create(network="10.1.0.0/16", reason="vpc", created_at=NOON, created_by="ada")


def test_a_probe_is_set_up_and_shown_again(cast, allowed, as_):
    client = as_(cast.otto)

    answer = client.post(to("probe", "search-api"), probe_data())

    assert answer.status_code == 302
    probe = Probe.objects.get()
    assert (probe.dependency, probe.operation, probe.updated_by) == (cast.search_api, "web_search", "otto")
    assert probe.spec["body_condition"]["value"] == "ok"
    text = client.get(to("probe", "search-api")).content.decode()
    assert 'value="http://10.1.0.9/health"' in text
    assert 'value="ok"' in text


def test_editing_a_probe_keeps_what_the_form_does_not_show(cast, allowed, as_):
    spec = {"url": "http://10.1.0.9/health", "redirects": "same_host", "max_redirects": 1}
    Probe.objects.create(dependency=cast.search_api, operation="x", spec=spec, updated_at=NOON, updated_by="ada")

    as_(cast.otto).post(to("probe", "search-api"), probe_data())

    stored = Probe.objects.get().spec
    assert (stored["redirects"], stored["max_redirects"]) == ("same_host", 1)


@pytest.mark.parametrize(
    ("field", "value"),
    [("url", "ftp://x"), ("url", "http://127.0.0.1/"), ("expected_status", "fine"), ("time_limit_s", "90"),
     ("latency_ms", "-1"), ("operation", " "), ("method", "DELETE")],
)  # fmt: skip
def test_a_bad_probe_names_its_field(cast, allowed, as_, field, value):
    answer = as_(cast.otto).post(to("probe", "search-api"), probe_data(**{field: value}))

    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {field}
    assert not Probe.objects.exists()


def test_a_viewer_may_not_set_up_a_probe(cast, as_):
    assert as_(cast.ann).post(to("probe", "search-api"), probe_data()).status_code == 403
