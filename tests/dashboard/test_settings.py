"""Settings: quarantine, keys, channels, networks; and the probe of a dependency."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from controlplane import clock, secrets
from controlplane.models import (
    AgentKey,
    AlertChannel,
    AllowedNetwork,
    AuditEntry,
    LocalOverride,
    Probe,
    ProbeRound,
    ProbeTest,
    Worker,
)
from controlplane.services import probes
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage


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


def test_what_a_workers_break_glass_file_forces_stands_with_it_until_it_runs_out(cast, as_):
    worker, now = cast.workers[0], clock.now()
    for number, (reason, end_s) in enumerate([("leaks addresses", 60), ("long over", -60)]):
        LocalOverride.objects.create(
            id=uuid.UUID(int=number), environment=worker.environment, worker=worker, key=worker.key,
            tool="web_search", mode="forced_open", reason=reason, who="dana", began_at=now - timedelta(hours=1),
            expires_at=now + timedelta(seconds=end_s), reported_at=now,
        )  # fmt: skip

    page = as_(cast.ann).get("/settings/?environment=prod").content.decode()

    assert "web_search is forced open here until" in page
    assert "by dana: leaks addresses" in page
    assert "long over" not in page


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
    assert factories.key_of(token).label == "ci"
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
        "url": "http://10.1.0.9/health", "method": "GET", "expected_status": "200", "condition": "contains",
        "value": "ok", "headers": "", "latency_ms": "800", "time_limit_s": "5", "operation": "web_search",
        "enabled": "on", **more,
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


def secret_data(**more):
    return probe_data(**{"secret_name_0": "Authorization", "secret_value_0": "Bearer s3cret-token", **more})


def sealed():
    return secrets.unseal_values(Probe.objects.get().secrets)


def test_a_secret_header_is_written_and_never_shown(cast, allowed, as_):
    client = as_(cast.otto)

    client.post(to("probe", "search-api"), secret_data())

    text = client.get(to("probe", "search-api")).content.decode()
    assert sealed() == {"Authorization": "Bearer s3cret-token"}
    assert "Authorization" in text and "s3cret" not in text


def test_an_empty_secret_keeps_what_is_stored_and_a_tick_forgets_it(cast, allowed, as_):
    client = as_(cast.otto)
    client.post(to("probe", "search-api"), secret_data(secret_name_1="X-Tenant", secret_value_1="acme"))

    client.post(to("probe", "search-api"), probe_data(secret_value_0="", secret_value_1="globex"))
    assert sealed() == {"Authorization": "Bearer s3cret-token", "X-Tenant": "globex"}

    client.post(to("probe", "search-api"), probe_data(secret_forget_0="on"))
    assert sealed() == {"X-Tenant": "globex"}


def test_a_stored_secret_is_not_sent_to_another_address(cast, allowed, as_):
    client = as_(cast.otto)
    client.post(to("probe", "search-api"), secret_data())

    answer = client.post(to("probe", "search-api"), probe_data(url="http://10.1.0.10/health"))

    assert answer.status_code == 422
    assert "enter the secret headers anew" in answer.content.decode()


def test_a_json_path_condition_and_plain_headers_are_stored(cast, allowed, as_):
    client = as_(cast.otto)

    client.post(
        to("probe", "search-api"),
        probe_data(condition="json_equals", path="$.index[0].ready", value="true", headers="Accept: application/json"),
    )

    spec = Probe.objects.get().spec
    assert spec["body_condition"] == {"kind": "json_equals", "path": "$.index[0].ready", "value": True}
    assert spec["headers"] == {"Accept": "application/json"}
    form = client.get(to("probe", "search-api")).context["form"]
    assert (form["path"].value(), form["value"].value()) == ("$.index[0].ready", "true")
    assert form["headers"].value() == "Accept: application/json"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"condition": "json_equals", "path": "", "value": "1"}, "path"),
        ({"condition": "contains", "value": ""}, "value"),
        ({"headers": "no colon here"}, "headers"),
        ({"headers": "Authorization: Bearer x"}, "headers"),
    ],
)
def test_a_bad_condition_or_header_names_its_field(cast, allowed, as_, more, field):
    answer = as_(cast.otto).post(to("probe", "search-api"), probe_data(**more))

    assert answer.context["form"].errors.keys() == {field}


def test_a_probe_is_tried_out_and_nothing_is_saved(cast, allowed, as_):
    client = as_(cast.otto)

    answer = client.post(to("probe", "search-api"), secret_data(do="test"))

    test = ProbeTest.objects.get()
    assert answer["Location"] == to("probe-test", "search-api", test.pk)
    assert not Probe.objects.exists()
    waiting = client.get(answer["Location"], headers={"HX-Request": "true"}).content.decode()
    assert "Trying it out" in waiting and 'hx-trigger="load delay:700ms"' in waiting

    conditions = [{"name": "body", "expected": "contains ok", "seen": "no <i>", "held": False}]
    result = {"asked": {"method": "GET", "address": "http://10.1.0.9/health", "headers": {"Authorization": "••••••"}},
              "answered": {"status": 200, "took_ms": 12.0, "conditions": conditions, "cause": "body"},
              "verdict": "bad"}  # fmt: skip
    probes.finish_test(test_id=test.pk, result=result, now=NOON)

    text = client.get(answer["Location"], headers={"HX-Request": "true"}).content.decode()
    assert "The probe failed" in text and "no &lt;i&gt;" in text and 'hx-trigger="load' not in text
    assert "s3cret" not in text


def test_a_try_out_that_nobody_takes_says_so(cast, allowed, as_, frozen_clock):
    client = as_(cast.otto)
    address = client.post(to("probe", "search-api"), probe_data(do="test"))["Location"]

    frozen_clock.advance(60)

    text = client.get(address).content.decode()
    assert "Nobody took the try-out" in text and 'hx-trigger="load' not in text


def test_a_refused_try_out_stays_in_the_form(cast, as_):
    answer = as_(cast.otto).post(to("probe", "search-api"), probe_data(do="test"), headers={"HX-Request": "true"})

    assert (answer.status_code, answer["HX-Retarget"]) == (422, "#probe-form")
    assert "<html" not in answer.content.decode()
    assert not ProbeTest.objects.exists()


def test_a_probe_is_removed(cast, allowed, as_):
    client = as_(cast.otto)
    client.post(to("probe", "search-api"), probe_data())

    client.post(to("remove-probe", "search-api"), said())

    assert not Probe.objects.exists()


def test_an_agent_is_added_with_its_key_and_waited_for(cast, as_):
    client = as_(cast.ada)

    text = client.post(to("add-agent"), {"slug": "billing", "name": "Billing", "owner": "fin"}).content.decode()

    token = text.split("RECLOSER_KEY=")[1].split("</code>")[0]
    key = factories.key_of(token)
    assert key.agent.slug == "billing"
    assert "client = recloser.Client()" in text
    heard = to("heard", "billing")
    assert "Waiting for the first report" in client.get(heard).content.decode()
    factories.worker(key, "pod-7")
    assert "pod-7" in client.get(heard).content.decode()


def test_an_agent_that_is_there_already_is_refused_and_no_key_is_left(cast, as_):
    before = AgentKey.objects.count()

    answer = as_(cast.ada).post(to("add-agent"), {"slug": "research", "name": "Again"})

    assert answer.context["form"].errors.keys() == {"slug"}
    assert AgentKey.objects.count() == before
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.accepted) == ("create_agent", "ada", False)


def test_settings_cost_a_bounded_number_of_queries(cast, as_, django_assert_num_queries):
    client = as_(cast.ada)

    with django_assert_num_queries(13):
        client.get("/settings/?environment=prod")


def test_an_admin_sets_the_control_address_and_others_may_not(as_, cast):
    path = reverse("dashboard:control-address", args=["prod"])
    assert as_(cast.otto).post(path, {"control_address": "off"}).status_code == 403
    refused = as_(cast.ada).post(path, {"control_address": "example.com"})
    assert refused.status_code == 422
    assert "his is no host and port" in refused.content.decode()
    assert as_(cast.ada).post(path, {"control_address": "off"}).status_code in (200, 302)
    cast.prod.refresh_from_db()
    assert cast.prod.control_address == "off"
    assert "none: a prober that is cut off" in as_(cast.ada).get("/settings/?environment=prod").content.decode()


def test_board_and_circuit_page_say_that_the_prober_is_suspect(as_, cast):
    row = stage.opened(cast.search_api, NOON - timedelta(seconds=60))
    ProbeRound.objects.create(
        id=uuid.uuid4(), circuit=row, generation=1, due_at=NOON, granted_at=NOON, lease_expires_at=NOON,
        finished_at=NOON, verdict="inconclusive", applied=True, answered={"cause": "prober_suspect"},
    )  # fmt: skip

    for path in ("/?environment=prod", reverse("dashboard:circuit", args=["prod", "search-api"])):
        text = as_(cast.ann).get(path).content.decode()
        assert "prober suspect" in text.lower()
        assert "control address" in text
