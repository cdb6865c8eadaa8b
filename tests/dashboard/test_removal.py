"""Taking things away from their pages, and whether an environment is protected."""

from __future__ import annotations

import uuid

from django.urls import reverse

from controlplane.models import Agent, AuditEntry, Environment, Tool
from tests import factories


def to(name, *more, environment="prod"):
    return reverse(f"dashboard:{name}", args=[environment, *more])


def deed():
    return {"token": uuid.uuid4()}


def test_a_tool_named_by_mistake_is_removed_from_its_page(cast, as_):
    client = as_(cast.petra)
    assert to("remove-tool", "news_search") in client.get(to("tool", "news_search")).content.decode()

    answer = client.post(to("remove-tool", "news_search"), deed(), HX_REQUEST="true", headers={"HX-Request": "true"})

    assert (answer.status_code, answer.headers["HX-Redirect"]) == (204, "/tools/?environment=prod")
    assert not Tool.objects.filter(environment=cast.prod, name="news_search").exists()


def test_an_agent_that_never_reported_is_removed_and_one_with_a_key_says_why_not(cast, as_):
    factories.agent(cast.prod, "mistake")
    client = as_(cast.ada)

    refused = client.post(to("remove-agent", "support"), deed())
    client.post(to("remove-agent", "mistake"), deed())

    assert refused.status_code == 422 and "revoke them first" in refused.content.decode()
    assert not Agent.objects.filter(slug="mistake").exists()


def test_an_environment_is_removed_when_empty(cast, as_):
    factories.environment("lab")
    client = as_(cast.ada)

    refused = client.post(to("remove-environment"), deed())
    gone = client.post(to("remove-environment", environment="lab"), deed())

    assert refused.status_code == 422 and gone.status_code == 302
    assert set(Environment.objects.values_list("slug", flat=True)) == {"prod", "staging"}


def test_protection_is_switched_off_and_on_by_an_admin_on_record(cast, as_):
    client = as_(cast.ada)
    assert "Protected" in client.get("/settings/?environment=prod").content.decode()

    client.post(to("protection"), deed())

    cast.prod.refresh_from_db()
    assert cast.prod.protected is False
    assert AuditEntry.objects.latest("id").detail == {"protected": False}
    assert as_(cast.petra).post(to("protection"), deed()).status_code == 403
    assert AuditEntry.objects.latest("id").accepted is False
