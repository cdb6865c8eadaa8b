"""The editor of probes: each kind with its own fields, errors at the field they are about, try-outs that show all."""

import pytest
from django.urls import reverse

from controlplane.models import Probe
from controlplane.services import probes
from tests.factories import NOON
from tests.workers.kinds import KINDS, asks
from tests.workers.stage import staged
from tests.workers.vendor import Vendor, reply
from workers.tasks.probes import run_tests

pytestmark = pytest.mark.django_db


@pytest.fixture
def stage(frozen_clock):
    return staged()


@pytest.fixture
def vendor():
    with Vendor() as running:
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_the_editor_offers_each_kind_with_its_own_fields(stage, as_, kind):
    client = as_(stage.cast.otto)
    address = reverse("dashboard:probe", args=["prod", "search-api"])
    text = client.get(f"{address}?kind={kind}").content.decode()

    for field in asks(kind, 8000):
        assert f'name="{ {"body_condition": "condition"}.get(field, field) }"' in text
    assert f'name="kind" value="{kind}"' in text


@pytest.mark.parametrize(
    ("kind", "more", "field"),
    [
        ("tcp", {"host": "127.0.0.1", "port": "0"}, "port"),
        ("tcp", {"host": "http://x", "port": "1"}, "host"),
        ("tcp", {"host": "10.1.2.3", "port": "1"}, "host"),
        ("dns", {"name": "x", "server": "127.0.0.1", "record": "ANY"}, "record"),
        ("postgres", {"host": "127.0.0.1", "database": "d", "user": "u", "statement": "DELETE FROM x"}, "statement"),
        ("steps", {"url": "http://127.0.0.1:9", "steps": "[{]"}, "steps"),
        ("steps", {"url": "http://127.0.0.1:9", "steps": '[{"name": "x", "path": "x"}]'}, "steps"),
        ("mcp", {"url": "http://127.0.0.1:9", "call_tool": "nobody", "transport": "sse"}, "call_tool"),
        ("llm", {"url": "http://127.0.0.1:9", "ask": "completion", "model": "m"}, "cost_per_probe_usd"),
        ("redis", {"host": "127.0.0.1", "command": "GET"}, "key"),
        ("http", {"url": "http://127.0.0.1:9", "header_condition": "no such: ok\x00"}, "header_condition"),
    ],
)  # fmt: skip
def test_a_wrong_field_of_any_kind_is_named_in_the_editor(stage, as_, kind, more, field):
    client = as_(stage.cast.otto)
    said = {
        "kind": kind,
        "operation": "web_search",
        "enabled": "on",
        "time_limit_s": "5",
        **DEFAULTS.get(kind, {}),
        **more,
    }
    answer = client.post(reverse("dashboard:probe", args=["prod", "search-api"]), said)

    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field], answer.context["form"].errors
    assert not Probe.objects.exists()


DEFAULTS = {
    "dns": {"record": "A"}, "postgres": {"tls": "off"}, "mcp": {"transport": "sse"}, "redis": {"command": "PING"},
    "llm": {"provider": "openai", "ask": "models"}, "http": {"method": "GET", "redirects": "never"},
}  # fmt: skip


def test_what_the_editor_saved_it_shows_again_and_a_condition_can_be_taken_back(stage, as_, vendor):
    client = as_(stage.cast.otto)
    address = reverse("dashboard:probe", args=["prod", "search-api"])
    steps = '[{"name": "look", "path": "/ok", "capture": {"id": "$.note"}}]'
    said = {
        "kind": "steps", "url": vendor.url, "steps": steps, "operation": "web_search", "time_limit_s": "5",
        "cleanup": '{"name": "leave", "path": "/bye/{{id}}", "method": "DELETE"}', "certificate_days": "",
    }  # fmt: skip
    assert client.post(address, said).status_code == 302
    assert Probe.objects.get().spec["cleanup"]["method"] == "DELETE"
    assert "leave" in client.get(address).context["form"]["cleanup"].value()

    tcp = {"kind": "tcp", "host": "127.0.0.1", "port": str(vendor.port), "operation": "web_search", "time_limit_s": "5"}
    client.post(address, {**tcp, "condition": "contains", "value": "220"})
    assert Probe.objects.get().spec["body_condition"]["value"] == "220"
    client.post(address, {**tcp, "condition": "", "value": ""})
    assert Probe.objects.get().spec["body_condition"] is None


def test_a_try_out_of_several_steps_shows_each_and_masks_what_it_captured(stage, as_, vendor):
    vendor.routes["/bye/results"] = reply(204)
    client = as_(stage.cast.otto)
    spec = {
        "url": vendor.url, "steps": [{"name": "look", "path": "/ok", "capture": {"id": "$.note"}}],
        "cleanup": {"name": "leave", "path": "/bye/{{id}}", "method": "DELETE"},
    }  # fmt: skip
    test = probes.test_now(
        dependency=stage.search, kind="steps", spec=spec, secret_headers={"Authorization": "Bearer s3cret-token"},
        actor="ada", now=NOON,
    )  # fmt: skip
    run_tests([str(test.pk)])
    text = client.get(reverse("dashboard:probe-test", args=["prod", "search-api", test.pk])).content.decode()

    assert "look: GET /ok" in text and "leave: DELETE" in text and "The probe passed" in text
    assert "s3cret" not in text
    assert vendor.count("/bye/results") == 1


def test_a_try_out_of_a_database_shows_the_statement_and_masks_the_password(stage, as_, vendor):
    spec = {
        "host": "127.0.0.1", "port": vendor.port, "database": "orders", "user": "probe", "tls": "off",
        "statement": "SELECT 1 AS ok", "time_limit_s": 0.3,
    }  # fmt: skip
    test = probes.test_now(
        dependency=stage.search, kind="postgres", spec=spec, secret_values={"password": "s3cret-word"}, actor="ada",
        now=NOON,
    )  # fmt: skip
    run_tests([str(test.pk)])
    answer = as_(stage.cast.otto).get(reverse("dashboard:probe-test", args=["prod", "search-api", test.pk]))
    text = answer.content.decode()

    assert "SELECT 1 AS ok" in text and "orders, as probe" in text and "********" in text
    assert "s3cret" not in text
    assert "No answer in time" in text
