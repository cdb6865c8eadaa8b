"""What hands do without a mouse: the palette, the keys, copying, and the same on a phone."""

from __future__ import annotations

import re

import pytest
from django.db import transaction
from playwright.sync_api import expect

from controlplane import clock
from controlplane.models import Circuit
from controlplane.services import transitions
from tests import factories
from tests.dashboard import stage
from tests.e2e import story

# Keys at the moment in which the page is ready, where the next task comes late: htmx alone would not listen yet.
FIRST_KEYS = """const soon = setTimeout;
setTimeout = (act, ms = 1000, ...rest) => soon(act, ms, ...rest);
addEventListener("DOMContentLoaded", () => {
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true, cancelable: true }));
  document.getElementById("palette-text").value = "search";
  document.getElementById("palette-text").dispatchEvent(new Event("input", { bubbles: true }));
})"""
HOSTILE = "<img src=x onerror=document.title='owned'>"


@pytest.fixture
def night(cast):
    story.bad_night(cast, clock.now())
    return cast


def test_the_palette_leads_by_keys_alone_to_a_circuit_a_tool_and_a_run(server, night, page, sign_in):
    sign_in("otto", path="/?environment=prod")
    page.keyboard.press("Control+k")
    finding = page.get_by_role("dialog", name="Find in prod")
    expect(finding.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("search-a")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server}/circuits/prod/search-api/")

    page.keyboard.press("/")
    page.keyboard.type("search")
    expect(finding.get_by_role("link", name="web_search")).to_be_visible()
    finding.get_by_role("link").first.wait_for()
    while not finding.get_by_role("link", name="web_search").evaluate("one => one === document.activeElement"):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server}/tools/prod/web_search/")

    run = story.brief(night)
    page.keyboard.press("/")
    page.keyboard.type(str(run.pk)[:9])
    expect(finding.get_by_role("heading", name="Runs")).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server}/runs/{run.pk}/")


def test_the_palette_searches_from_the_first_key_a_page_can_hear(server, night, page, sign_in):
    page.add_init_script(FIRST_KEYS)
    sign_in("otto", path="/?environment=prod")

    finding = page.get_by_role("dialog", name="Find in prod")
    expect(finding.get_by_role("link", name="web_search")).to_be_visible()


def test_the_palette_closes_by_escape_and_gives_the_focus_back(server, cast, page, sign_in):
    sign_in("otto", path="/runs/?environment=prod")
    page.get_by_role("link", name="Find").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Find in prod")).to_be_visible()

    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog", name="Find in prod")).to_be_hidden()
    expect(page.get_by_role("link", name="Find")).to_be_focused()


def test_the_palette_finds_the_same_words_again(server, cast, page, sign_in):
    """Escape empties a search field in Chromium, and fires no event for it."""
    sign_in("otto", path="/?environment=prod")
    finding = page.get_by_role("dialog", name="Find in prod")
    for _ in range(2):
        page.keyboard.press("Control+k")
        page.keyboard.type("crm")
        expect(finding.get_by_role("link", name="crm-db")).to_be_visible()
        page.keyboard.press("Escape")
        expect(finding).to_be_hidden()


def test_a_hostile_name_is_found_as_text(server, cast, page, sign_in):
    factories.dependency(cast.prod, HOSTILE)
    sign_in("otto", path="/?environment=prod")
    page.keyboard.press("/")
    page.keyboard.type("onerror")

    finding = page.get_by_role("dialog", name="Find in prod")
    expect(finding.get_by_role("link", name=HOSTILE)).to_be_visible()
    assert finding.locator("img").count() == 0
    assert page.title() != "owned"


def test_keys_lead_to_pages_are_told_in_a_sheet_and_can_be_switched_off(server, cast, page, sign_in):
    sign_in("otto", path="/?environment=prod")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url(re.compile(r"/trips/\?environment=prod"))

    page.keyboard.press("?")
    sheet = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(sheet).to_contain_text("No key acts on a circuit")
    sheet.get_by_role("checkbox").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_role("dialog", name="Find in prod")).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Find in prod")).to_be_visible()


def test_a_letter_typed_into_a_field_is_a_letter(server, cast, page, sign_in):
    sign_in("otto", path="/trips/?environment=prod")
    page.get_by_role("textbox", name="Tool").fill("")
    page.get_by_role("textbox", name="Tool").press_sequentially("gt/?")

    expect(page.get_by_role("textbox", name="Tool")).to_have_value("gt/?")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_on_a_phone_a_button_opens_the_palette(server, cast, opened, sign_in):
    context = opened(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    tab = sign_in("otto", on=context.new_page(), path="/?environment=prod")
    seek = tab.get_by_role("link", name="Find")
    assert seek.bounding_box()["height"] >= 44
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360

    seek.tap()
    finding = tab.get_by_role("dialog", name="Find in prod")
    finding.get_by_role("searchbox").fill("crm")
    finding.get_by_role("link", name="crm-db").tap()

    tab.wait_for_url(f"{server}/circuits/prod/crm-db/")


def test_the_board_is_narrowed_by_its_address_and_a_refresh_leaves_a_half_made_choice_alone(
    server, night, page, sign_in
):
    sign_in("otto", path="/?environment=prod")
    choice = page.get_by_role("form", name="Part of the fleet")
    choice.get_by_label("State").select_option("not_closed")
    changed = clock.now()
    stage.opened(night.crm_db, changed)
    with transaction.atomic():
        transitions.announce([night.crm_db.circuit])
    expect(page.get_by_role("article").filter(has_text="crm-db")).to_be_visible()
    expect(choice.get_by_label("State")).to_have_value("not_closed")
    choice.get_by_role("button", name="Filter").click()

    page.wait_for_url(re.compile("state=not_closed"))
    expect(page.locator(".cell", has_text="crm-db")).to_be_visible()
    expect(page.locator(".cell.closed")).to_have_count(0)
    choice.get_by_role("link", name="Whole fleet").click()
    expect(page.locator(".cell.closed").first).to_be_visible()


def test_acknowledge_write_a_note_and_hand_it_back(server, night, page, sign_in):
    Circuit.objects.filter(dependency=night.search_api).update(acknowledged_at=None, acknowledged_by="")
    sign_in("otto", path="/circuits/prod/search-api/")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_text("Taken by")).to_be_visible()

    page.get_by_role("link", name="Write a note").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Note").fill(f"{HOSTILE} says the vendor")
    sheet.get_by_role("button", name="Write it down").click()
    expect(sheet).to_be_hidden()
    expect(page.get_by_text(f"{HOSTILE} says the vendor")).to_be_visible()
    assert page.locator("main img").count() == 0

    page.get_by_role("button", name="Hand back").click()
    expect(page.get_by_role("status").filter(has_text="waits for somebody again")).to_be_visible()
    expect(page.get_by_role("button", name="Acknowledge", exact=True)).to_be_visible()
    page.get_by_role("link", name="Acknowledge instead").click()
    expect(page.get_by_role("dialog")).to_contain_text("Everyone sees that you are on it")


def test_an_id_is_copied_by_keys(server, night, opened, sign_in):
    run = story.brief(night)
    context = opened()
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server)
    tab = sign_in("otto", on=context.new_page(), path="/runs/?environment=prod")
    row = tab.locator(f"#run-{run.pk}")
    tab.evaluate("document.addEventListener('htmx:after:swap', () => (document.title = 'swapped'))")
    row.get_by_role("button", name="Copy the id of this run").focus()

    tab.keyboard.press("Enter")

    expect(row.get_by_role("button", name="Copied")).to_be_focused()
    assert tab.evaluate("navigator.clipboard.readText()") == str(run.pk)
    tab.evaluate("document.title = ''; document.dispatchEvent(new CustomEvent('recloser:done'))")
    expect(tab).to_have_title("swapped")
    expect(row.get_by_role("button", name="Copied")).to_be_focused()
    tab.keyboard.press("Tab")
    expect(row.get_by_role("button", name="Copy the id of this run")).to_be_visible()


def test_trips_are_ordered_by_a_click_and_exported(server, night, page, sign_in):
    sign_in("ann", path="/trips/?environment=prod")
    page.get_by_role("columnheader", name="Scope").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="Scope")).to_have_attribute("aria-sort", "descending")
    page.wait_for_url(re.compile("order=-scope"))

    with page.expect_download() as given:
        page.get_by_role("link", name="Export CSV").click()

    text = given.value.path().read_text()
    assert given.value.suggested_filename == "trips-prod.csv"
    scopes = [line.split(",")[2] for line in text.splitlines()[1:]]
    assert scopes and scopes == sorted(scopes, reverse=True)
