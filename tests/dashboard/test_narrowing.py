"""The Board of one team or one agent: narrowed by the address; what lies outside is counted, never hidden."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.urls import reverse

from controlplane.models import Dependency
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage


@pytest.fixture
def outage(cast):
    """search-api is open; payments' owner is another."""
    Dependency.objects.filter(pk=cast.search_api.pk).update(owner="search team")
    Dependency.objects.filter(pk=cast.payments.pk).update(owner="money <b>team</b>")
    stage.observed(cast.workers[0], cast.tools["web_search"], NOON - timedelta(minutes=2), timeout=3)
    return stage.opened(cast.search_api, NOON - timedelta(seconds=60))


def board(client, headers=None, **query):
    return client.get(reverse("dashboard:board"), query, headers=headers or {}).content.decode()


def cells(page):
    return re.findall(r'class="cell [^"]*" id="cell-\d+" href="/circuits/prod/([^/"]+)/', page)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({"owner": "search team"}, ["search-api"]),
        ({"owner": "money <b>team</b>"}, ["payments"]),
        ({"state": "open"}, ["search-api"]),
        ({"state": "not_closed"}, ["search-api"]),
        ({"agent": "research"}, ["search-api"]),
        ({"agent": "support"}, []),
        ({"agent": "nobody"}, []),
        ({"owner": "search team", "state": "closed"}, []),
    ],
)
def test_the_address_narrows_the_fleet(cast, outage, as_, query, shown):
    assert cells(board(as_(cast.ann), **query)) == shown


def test_any_other_state_is_no_filter(cast, outage, as_):
    assert len(cells(board(as_(cast.ann), state="bad"))) == 3


def test_what_wants_a_human_outside_the_filter_is_counted_and_the_verdict_stays_the_fleets(cast, outage, as_):
    page = board(as_(cast.ann), owner="money <b>team</b>")

    assert 'id="need-' not in page
    assert "1 thing wants an eye outside this filter" in page
    assert "1 circuit needs you" in page
    assert "<b>team</b>" not in page


def test_nothing_that_fits_says_so_and_leads_back(cast, outage, as_):
    page = board(as_(cast.ann), agent="nobody")

    assert "No circuit fits these filters" in page
    assert "Whole fleet" in page


def test_nothing_of_another_environment_is_offered_or_shown(cast, as_):
    made = factories.dependency(cast.staging, "hidden")
    Dependency.objects.filter(pk=made.pk).update(owner="staging team")

    page = board(as_(cast.ann))

    assert "staging team" not in page
    assert cells(board(as_(cast.ann), owner="staging team")) == []


def test_a_refresh_keeps_the_filter_and_sends_no_choices(cast, outage, as_):
    page = board(as_(cast.ann), headers={"HX-Request": "true"}, owner="search team")

    assert cells(page) == ["search-api"]
    assert "<option" not in page
    assert "owner=search" in page, "the next refresh asks for the same part"
