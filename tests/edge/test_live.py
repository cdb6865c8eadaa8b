"""GET /live: signals for signed-in people, and for nobody else."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session as SignIn
from django.test import Client

from controlplane import clock
from controlplane.edge import live
from controlplane.models import User
from controlplane.services import circuits, tools
from tests.edge import harness


@pytest.fixture
def cookie(prod):
    """Ann's, who may view."""
    ann = User.objects.create_user("ann", role="viewer")
    client = Client()
    client.force_login(ann, backend="controlplane.permissions.RoleBackend")
    return {"cookie": f"sessionid={client.cookies['sessionid'].value}"}


def _hold_open(environment, slug="search-api"):
    now = clock.now()
    dependency = tools.ensure_dependency(environment=environment, slug=slug, actor="ada", now=now)
    until = now + timedelta(minutes=5)
    circuits.hold_open(dependency_id=dependency.pk, actor="otto", reason="drill", now=now, until=until)


@pytest.mark.parametrize("query", ["", "?environment=prod"])
def test_a_transition_is_signalled(edge, prod, cookie, query):
    stream = edge.stream(f"/live{query}", cookie)
    before = stream.events.next("changed")["version"]

    _hold_open(prod)

    harness.until(lambda: stream.events.next("changed", within=2.5)["version"] > before)


def test_another_environment_does_not_wake_the_page(edge, prod, staging, cookie):
    stream = edge.stream("/live?environment=prod", cookie)
    stream.events.next("changed")

    _hold_open(staging)

    with pytest.raises(AssertionError, match="no event"):
        stream.events.next("changed", within=1.5)


def test_a_page_hears_the_version_that_the_document_has(edge, prod, agent, cookie):
    stream = edge.stream("/live?environment=prod", cookie)
    stream.events.next("changed")

    _hold_open(prod)

    version = agent.get("circuits").json()["version"]
    harness.until(lambda: stream.events.next("changed", within=2.5)["version"] == version)


def test_signals_are_at_most_four_a_second(edge, prod, cookie):
    stream = edge.stream("/live", cookie)
    stream.events.next("changed")
    began = clock.now()

    for number in range(20):
        _hold_open(prod, f"api-{number}")

    took = (clock.now() - began).total_seconds()
    heard = 0
    with pytest.raises(AssertionError, match="no event"):
        while stream.events.next("changed", within=1.2):
            heard += 1
    assert 1 <= heard <= 4 * (took + 1.0)


@pytest.mark.parametrize("headers", [{}, {"cookie": "sessionid=nonsense"}, {"cookie": "other=1"}])
def test_without_a_session_there_is_nothing(edge, prod, headers):
    assert edge.stream("/live", headers).status == 401


def test_an_inactive_person_gets_nothing(edge, cookie):
    User.objects.update(is_active=False)

    assert edge.stream("/live", cookie).status == 401


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_another_site_is_refused(edge, cookie, headers):
    assert edge.stream("/live", {**cookie, **headers}).status == 403


def test_the_dashboards_own_origin_is_answered(edge, cookie):
    headers = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}

    assert edge.stream("/live", {**cookie, **headers}).status == 200


def test_another_host_name_is_refused(edge, cookie):
    answer = edge.request("GET", "/live", headers={**cookie, "host": "evil.example"})

    assert answer.status_code == 400


def test_an_environment_that_is_not_there_is_said_so(edge, cookie):
    assert edge.stream("/live?environment=prdo", cookie).status == 404


def test_signing_out_ends_the_stream(edge, cookie, monkeypatch):
    monkeypatch.setattr(live, "CHECK_S", 0.0)
    monkeypatch.setattr(live.streaming, "HEARTBEAT_S", 0.05)
    stream = edge.stream("/live", cookie)
    stream.events.next("changed")

    SignIn.objects.all().delete()

    assert stream.events.ended(within=2)


def test_a_name_that_no_environment_can_have_is_not_found(edge, prod, cookie):
    answer = edge.request("GET", "/live?environment=%00", headers=cookie)

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
