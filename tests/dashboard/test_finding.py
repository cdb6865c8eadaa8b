"""The palette: what is found by a few letters, where, by whom; and the sheet of shortcuts."""

from __future__ import annotations

import uuid

import pytest
from django.urls import reverse

from controlplane.models import Run
from controlplane.selectors import finding
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage
from tests.dashboard.test_trips import trip

HOSTILE = "<img src=x onerror=alert(1)>\"'&"
ID = uuid.UUID("5f4dcc3b-5aa7-4d61-9832-7deb882cf990")


@pytest.fixture
def look(cast, as_):
    """`look("search")`: the palette's list."""

    def ask(text, environment="prod", **headers):
        where = {"q": text, "environment": environment}
        return as_(cast.ann).get(reverse("dashboard:find"), where, headers={"HX-Request": "true"} | headers)

    return ask


def kept(cast):
    run = stage.run(cast.research, NOON)
    Run.objects.filter(pk=run.pk).update(id=ID)
    return Run.objects.get(pk=ID)


def links(answer):
    return [part.partition('"')[0] for part in answer.content.decode().split('<a href="')[1:]]


def test_circuits_and_tools_are_found_by_any_part_of_their_name_the_beginning_first(cast, look):
    factories.dependency(cast.prod, "a-search")

    found = links(look("SEARCH"))

    assert found[:2] == ["/circuits/prod/search-api/", "/circuits/prod/a-search/"]
    assert "/tools/prod/web_search/" in found


def test_a_run_and_a_trip_are_found_by_the_beginning_of_their_id(cast, look):
    run = kept(cast)
    made = trip(cast, id=uuid.UUID("5f4dcc3b-0000-4d61-9832-7deb882cf990"))

    assert links(look("5F4DCC3B-5aa")) == [f"/runs/{run.pk}/"]
    assert links(look("5f4dcc3b")) == [f"/runs/{run.pk}/", f"/trips/{made.pk}/"]
    assert links(look(str(ID))) == [f"/runs/{run.pk}/"]
    assert links(look("5f4")) == [], "three letters are no id"


def test_a_run_is_found_by_its_agent_and_by_its_kind_of_task(cast, look):
    run = stage.run(cast.research, NOON, task_kind="market brief")

    assert f"/runs/{run.pk}/" in links(look("brief"))
    assert f"/runs/{run.pk}/" in links(look("resea"))


def test_nothing_of_another_environment_is_found(cast, look):
    kept(cast)

    assert all("/staging/" in each for each in links(look("search", environment="staging")))
    assert links(look("5f4dcc3b", environment="staging")) == []


@pytest.mark.parametrize("text", ["", "   ", "%", "_%_", "nothing like it", "5f4dcc3b\x00", "x" * 3000, "'; --", "é"])
def test_any_text_is_answered_and_no_letter_is_a_pattern(cast, look, text):
    answer = look(text)

    assert answer.status_code == 200
    assert links(answer) == []


def test_hostile_names_and_texts_are_escaped(cast, look):
    factories.dependency(cast.prod, HOSTILE)

    for page in (look("onerror").content.decode(), look("<b>nobody").content.decode()):
        assert "<img" not in page and "<b>nobody" not in page
    assert "&lt;img src=x" in look("onerror").content.decode()


def test_a_list_is_short(cast, look):
    for number in range(20):
        factories.dependency(cast.prod, f"many-{number:02}")

    assert len(links(look("many"))) == finding.EACH


def test_who_is_not_signed_in_is_led_to_sign_in(cast, client):
    answer = client.get(reverse("dashboard:find"), {"q": "search"}, headers={"HX-Request": "true"})

    assert answer.status_code == 401
    assert "search-api" not in answer.content.decode()


def test_without_javascript_it_is_a_page_with_a_form(cast, as_):
    page = as_(cast.ann).get(reverse("dashboard:find"), {"q": "search"}).content.decode()

    assert 'role="search"' in page and 'value="search"' in page and "/circuits/prod/search-api/" in page


def test_the_cost_is_bounded(cast, as_, django_assert_num_queries):
    client = as_(cast.ann)

    with django_assert_num_queries(7):
        client.get(reverse("dashboard:find"), {"q": "search"}, headers={"HX-Request": "true"})


def test_the_keys_are_told_on_a_page_and_in_a_sheet(cast, as_):
    client = as_(cast.ann)

    sheet = client.get(reverse("dashboard:shortcuts"), headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in sheet and "<kbd>?</kbd>" in sheet
    assert "<html" in client.get(reverse("dashboard:shortcuts")).content.decode()
