"""What was named by mistake goes; what has a history stays, and the refusal says why and what to do."""

import pytest

from controlplane import clock
from controlplane.models import Agent, AuditEntry, Circuit, Dependency, DocumentVersion, Environment, Tool, Trip
from controlplane.services import access, policies, removal
from controlplane.services.errors import Refused
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage

pytestmark = pytest.mark.django_db


def refused(act):
    with pytest.raises(Refused) as caught:
        act()
    assert caught.value.code == "in_use" and caught.value.mend
    assert AuditEntry.objects.order_by("-id").first().accepted is False
    return caught.value.message


def test_a_tool_that_nobody_calls_goes_and_agents_hear_of_it(cast):
    version = DocumentVersion.objects.get(environment=cast.prod).config

    removal.remove_tool(tool=cast.tools["news_search"], actor="petra")

    assert not Tool.objects.filter(environment=cast.prod, name="news_search").exists()
    assert DocumentVersion.objects.get(environment=cast.prod).config > version
    entry = AuditEntry.objects.order_by("-id").first()
    assert (entry.action, entry.target, entry.environment_id) == ("remove_tool", "news_search", cast.prod.pk)


def test_a_tool_with_trips_stays_with_them(cast):
    trip = Trip.objects.create(
        environment=cast.prod, scope="run", signal="consecutive_failures", tool=cast.tools["refund"],
        delivery="enforce", evidence={}, threshold={}, at=NOON, received_at=NOON,
    )  # fmt: skip

    assert "trips on record" in refused(lambda: removal.remove_tool(tool=cast.tools["refund"], actor="petra"))
    trip.refresh_from_db()
    assert trip.tool == cast.tools["refund"]


def test_a_tool_that_is_called_stays(cast):
    stage.observed(cast.workers[0], cast.tools["web_search"], NOON, ok=1)

    assert "called" in refused(lambda: removal.remove_tool(tool=cast.tools["web_search"], actor="petra"))


@pytest.mark.parametrize(
    ("level", "values"),
    [("tool", {"fallback_tool": "news_search"}), ("environment", {"run": {"fallback_tool": "news_search"}})],
)
def test_a_fallback_stays_and_is_told_whose_it_is(cast, level, values):
    place = {"tool": cast.tools["web_search"]} if level == "tool" else {}
    policies.publish(environment=cast.prod, level=level, values=values, reason="x", actor="petra", approved_by="ada",
                     now=clock.now(), **place)  # fmt: skip

    message = refused(lambda: removal.remove_tool(tool=cast.tools["news_search"], actor="petra"))

    assert message.startswith("tool web_search" if level == "tool" else "environment prod")


def test_a_dependency_goes_with_its_probe_once_no_tool_stands_before_it(cast):
    stage.probe(cast.crm_db, NOON)
    assert "db_lookup stands in front" in refused(
        lambda: removal.remove_dependency(dependency=cast.crm_db, actor="petra")
    )
    removal.remove_tool(tool=cast.tools["db_lookup"], actor="petra")

    removal.remove_dependency(dependency=cast.crm_db, actor="petra")

    assert not Dependency.objects.filter(slug="crm-db").exists()
    assert not Circuit.objects.filter(dependency__slug="crm-db").exists()


@pytest.mark.parametrize("closed", [False, True])
def test_a_dependency_whose_circuit_moved_stays_with_its_outages(cast, closed):
    bare = factories.dependency(cast.prod, "bare")
    stage.opened(bare, NOON)
    if closed:
        stage.move(bare, NOON, state=stage.State.CLOSED)

    message = refused(lambda: removal.remove_dependency(dependency=bare, actor="petra"))

    assert ("on record" if closed else "not closed") in message
    assert Trip.objects.get().dependency == bare


def test_an_agent_goes_once_its_keys_are_revoked(cast):
    key = cast.support_key
    assert key.prefix in refused(lambda: removal.remove_agent(agent=cast.support, actor="ada"))
    access.revoke_key(key=key, actor="ada", now=clock.now(), reason="")

    removal.remove_agent(agent=cast.support, actor="ada")

    assert not Agent.objects.filter(slug="support").exists()


def test_an_agent_that_reported_stays(cast):
    access.revoke_key(key=cast.research_key, actor="ada", now=clock.now(), reason="")

    assert "on record" in refused(lambda: removal.remove_agent(agent=cast.research, actor="ada"))


def test_an_environment_goes_only_when_it_is_empty(cast):
    assert "research" in refused(lambda: removal.remove_environment(environment=cast.staging, actor="ada"))
    lab = factories.environment("lab")

    removal.remove_environment(environment=lab, actor="ada")

    assert set(Environment.objects.values_list("slug", flat=True)) == {"prod", "staging"}
    entry = AuditEntry.objects.order_by("-id").first()
    assert (entry.action, entry.target, entry.environment_id) == ("remove_environment", "lab", None)
