"""The fleet's grid: what changes a cell, what a page that has it is spared, and how much goes over the wire."""

from __future__ import annotations

import gzip
import itertools
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.urls import reverse

from controlplane.models import Circuit, Dependency, Observation, Tool
from controlplane.services import circuits
from dashboard import cells
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage


@pytest.fixture
def look(cast, as_):
    """`look(marks)`: the part of the Board that changes, as a page asks that shows those parts of the fleet."""
    client = as_(cast.ann)

    def refresh(marks=(), **query):
        headers = {"HX-Request": "true"} | ({cells.HEADER: ",".join(marks)} if marks else {})
        return client.get(reverse("dashboard:board"), query, headers=headers).content.decode()

    return refresh


def marks(page):
    return re.findall(r'class="part" id="fleet-\d+" data-mark="(\w+)"', page)


def cell(page, dependency):
    found = re.search(rf'<a class="cell [^"]*" id="cell-{dependency.circuit.pk}".*?</a>', page)
    return found.group() if found else None


def open_it(cast):
    stage.opened(cast.search_api, NOON)


def call_it(cast):
    stage.observed(cast.workers[0], cast.tools["web_search"], NOON, ok=3, timeout=1)


def turn_it_away(cast):
    stage.observed(cast.workers[0], cast.tools["web_search"], NOON, rejected=4)


def rename_it(cast):
    Dependency.objects.filter(pk=cast.search_api.pk).update(slug="search-api-2")


def hold_it(cast):
    circuits.hold_open(dependency_id=cast.search_api.pk, actor="otto", reason="maintenance", now=NOON,
                       until=NOON + timedelta(minutes=5))  # fmt: skip


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (open_it, "Open · no calls"),
        (call_it, "4 calls, 25\u00a0% failed"),
        (turn_it_away, "4 turned away"),
        (rename_it, ">search-api-2<"),
        (hold_it, "Forced "),
    ],
)
def test_what_happens_to_a_circuit_changes_its_cell_at_once_and_no_other(cast, look, change, told):
    before = look()
    assert told not in cell(before, cast.search_api)

    change(cast)

    after = look(marks(before))
    assert told in cell(after, cast.search_api)
    assert cell(after, cast.crm_db) == cell(before, cast.crm_db)
    assert marks(after) != marks(before)


def test_an_override_that_runs_out_changes_cell_and_needs_alike_though_no_row_changes(cast, look, frozen_clock):
    circuits.hold_closed(dependency_id=cast.search_api.pk, actor="otto", reason="we know", now=NOON,
                         until=NOON + timedelta(minutes=5))  # fmt: skip
    held = look()
    assert "Forced closed" in cell(held, cast.search_api)
    assert f'id="need-{cast.search_api.circuit.pk}"' in held

    frozen_clock.advance(301)

    free = look(marks(held))
    assert 'class="cell closed"' in cell(free, cast.search_api)
    assert f'id="need-{cast.search_api.circuit.pk}"' not in free


def test_a_hold_that_runs_out_over_a_closed_circuit_is_an_open_one_in_every_place(cast, look, frozen_clock):
    hold_it(cast)
    frozen_clock.advance(301)

    page = look()

    need = page[page.index(f'id="need-{cast.search_api.circuit.pk}"') :].partition("</article>")[0]
    assert 'class="cell open"' in cell(page, cast.search_api)
    assert "badge open" in need
    assert "badge closed" not in need
    assert "1 circuit needs you" in page


def test_calls_that_grow_old_leave_the_cell(cast, look, frozen_clock):
    call_it(cast)
    before = look()

    frozen_clock.advance(61)

    assert "no calls" in cell(look(marks(before)), cast.search_api)


def test_a_renamed_tool_is_told_beside_the_cell_of_its_circuit(cast, look):
    open_it(cast)
    assert "news_search" in look()

    Tool.objects.filter(pk=cast.tools["news_search"].pk).update(name="press_search")

    page = look()
    assert "press_search" in page
    assert "news_search" not in page


def test_what_a_page_shows_already_is_named_and_not_sent_again(cast, look):
    fleet(cast, 45)
    before = look()
    assert len(marks(before)) == 3

    again = look(marks(before))

    assert marks(again) == marks(before)
    assert 'class="cell' not in again
    assert again.count("data-same></div>") == 3


def test_only_the_part_with_the_change_is_sent(cast, look):
    fleet(cast, 45)
    before = look()
    last = Dependency.objects.filter(environment=cast.prod).last()

    stage.opened(last, NOON)

    after = look(marks(before))
    assert "Open" in cell(after, last)
    assert after.count("data-same") == 2
    assert after.count('class="cell ') == 48 % cells.PART


@pytest.mark.parametrize("wrong", [["", "", ""], ["000000000000"], ["x" * 5000], ["é", "\u2028"]])
def test_marks_that_are_not_the_fleets_get_all_of_it(cast, look, wrong):
    page = look([each.encode("ascii", "ignore").decode() or "0" for each in wrong])

    assert "data-same" not in page
    assert cell(page, cast.search_api)


def test_a_page_as_a_whole_is_whole_whatever_it_claims_to_have(cast, as_, look):
    known = marks(look())

    page = as_(cast.ann).get(reverse("dashboard:board"), headers={cells.HEADER: ",".join(known)}).content.decode()

    assert cell(page, cast.search_api)


def test_no_cell_of_one_environment_is_taken_for_anothers(cast, look):
    here, there = look(), look(environment="staging")

    assert "/circuits/staging/search-api/" in cell(there, cast.staging_search_api)
    assert "/circuits/staging/" not in cell(here, cast.search_api)
    assert cell(look(marks(here), environment="staging"), cast.staging_search_api)


HOSTILE = "<img src=x onerror=alert(1)>\"'&"


def test_a_hostile_name_is_escaped_when_a_cell_is_made_and_when_it_is_kept(cast, look):
    made = factories.dependency(cast.prod, HOSTILE)

    for page in (look(), look()):
        assert "<img" not in page
        assert "&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;" in cell(page, made)


def test_a_process_keeps_so_many_cells_and_no_more():
    assert cells._cell.cache_info().maxsize == cells.REMEMBERED


def test_a_fleet_of_any_size_is_read_by_as_many_queries(cast, look, django_assert_num_queries):
    look()
    fleet(cast, 200)

    with django_assert_num_queries(20):
        look()


WORDS = (
    *("search", "billing", "geocode", "embedding", "calendar", "ledger", "invoice", "identity", "catalog", "weather"),
    *("pricing", "contract", "ticket", "vector", "payment", "document", "shipping", "customer", "translate", "sandbox"),
)
KINDS = ("api", "db", "gateway", "store", "mcp")
PLACES = ("eu", "us", "apac", "legacy", "v2")


def fleet(cast, count):
    """So many more circuits of prod, with names as people give them."""
    names = ("-".join(parts) for parts in itertools.product(WORDS, KINDS, PLACES))
    rows = [Dependency(environment=cast.prod, slug=name, created_at=NOON) for name in itertools.islice(names, count)]
    made = Dependency.objects.bulk_create(rows)
    Circuit.objects.bulk_create(Circuit(dependency=each, environment=cast.prod) for each in made)
    return made


def called(cast, dependencies, salt):
    """Every one is called, each otherwise."""
    like = stage.observed(cast.workers[0], cast.tools["web_search"], NOON)
    copies = []
    for number, each in enumerate(dependencies):
        values = {field.attname: getattr(like, field.attname) for field in Observation._meta.concrete_fields}
        counts = {"ok": 37 * (number + salt) % 911, "timeout": (number * salt) % 13}
        key = {"id": like.id + 1 + number + 1000 * salt, "seq": number}
        copies.append(Observation(**(values | counts | key | {"dependency_id": each.pk})))
    Observation.objects.bulk_create(copies)


def busy(cast):
    """500 circuits in use, three of them open."""
    made = fleet(cast, 497)
    for each in made[:3]:
        stage.opened(each, NOON - timedelta(seconds=40))
    called(cast, made, 1)
    return made


def kilobytes(content):
    return len(gzip.compress(content, 6)) / 1000


def test_the_first_load_of_500_circuits_weighs_less_than_150_kb(cast, as_):
    busy(cast)
    answer = as_(cast.otto).get(reverse("dashboard:board"), headers={"Accept-Encoding": "gzip"})
    text = gzip.decompress(answer.content).decode()
    linked = set(re.findall(r'(?:href|src)="/static/([^"]+)"', text))
    woff = {"dashboard/vendor/jetbrains-mono/jetbrains-mono-latin-wght-normal.woff2"}

    assert text.count('class="cell ') == 500
    assert len(linked) >= 8
    files = sum(kilobytes(Path(finders.find(name)).read_bytes()) for name in linked | woff)
    assert len(answer.content) / 1000 + files < 150


def test_a_refresh_of_500_circuits_weighs_less_than_15_kb_though_every_cell_changed(cast, as_):
    made = busy(cast)
    client = as_(cast.otto)
    headers = {"HX-Request": "true", "Accept-Encoding": "gzip"}
    first = gzip.decompress(client.get(reverse("dashboard:board"), headers=headers).content).decode()
    headers[cells.HEADER] = ",".join(marks(first))

    quiet = client.get(reverse("dashboard:board"), headers=headers).content
    called(cast, made, 2)
    stirred = client.get(reverse("dashboard:board"), headers=headers).content

    assert gzip.decompress(stirred).count(b'class="cell ') >= 490
    assert len(quiet) < 5_000
    assert len(stirred) < 15_000
