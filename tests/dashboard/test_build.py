"""A page that is older than the server (D04): it reads on, is told to reload, and changes nothing."""

from __future__ import annotations

import uuid

import pytest
from django.urls import reverse

from controlplane.models import AuditEntry, Circuit
from dashboard import build
from tests.conftest import NOON
from tests.dashboard import stage

PART = {"HX-Request": "true"}
OLD = {build.HEADER: "build-118"}


@pytest.fixture
def outage(cast):
    return stage.opened(cast.search_api, NOON)


def force_close(client, **given):
    data = {"token": str(uuid.uuid4()), "reason": "the vendor is back", **given.pop("data", {})}
    return client.post(reverse("dashboard:action", args=["prod", "search-api", "force-close"]), data, **given)


def state():
    return Circuit.objects.get(dependency__slug="search-api", environment__slug="prod").state


@pytest.mark.case("D04")
def test_an_old_page_reads_on_and_is_told_to_reload(cast, outage, as_):
    answer = as_(cast.otto).get("/?environment=prod", headers=PART | OLD)

    assert answer.status_code == 200
    assert "search-api" in answer.content.decode()
    assert answer["HX-Trigger"] == "recloser:outdated"


@pytest.mark.case("D04")
def test_an_old_page_changes_nothing_and_that_is_on_record(cast, outage, as_):
    answer = force_close(as_(cast.otto), headers=PART | OLD)

    assert answer.status_code == 409
    assert (answer["HX-Trigger"], answer["HX-Retarget"]) == ("recloser:outdated", "#notes")
    assert "This page is older than the server" in answer.content.decode()
    assert state() == "open"
    entry = AuditEntry.objects.get()
    assert (entry.accepted, entry.reason) == (False, "the page was older than the server")


def test_so_does_an_old_form_without_javascript(cast, outage, as_):
    answer = force_close(as_(cast.otto), data={build.FIELD: "build-118"})

    assert answer.status_code == 409
    assert "Load the page anew" in answer.content.decode()
    assert state() == "open"


def test_a_page_of_this_build_acts(cast, outage, as_):
    answer = force_close(as_(cast.otto), headers=PART | {build.HEADER: build.current()})

    assert answer.status_code == 200
    assert state() == "closed"


def test_every_page_and_every_form_names_its_build(cast, outage, as_):
    page = as_(cast.otto).get("/circuits/prod/search-api/force-close/").content.decode()

    assert f'data-build="{build.current()}"' in page
    assert f'name="build" value="{build.current()}"' in page


def test_another_deployment_is_another_build(settings):
    before = build.current()
    build.current.cache_clear()
    settings.VERSION = "0.1.1"
    try:
        assert build.current() != before
    finally:
        build.current.cache_clear()
