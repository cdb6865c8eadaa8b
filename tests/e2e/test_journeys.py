"""What people do in the pages, in a real browser, against a real server."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import transaction
from playwright.sync_api import expect

from controlplane import clock
from controlplane.models import Circuit
from controlplane.services import circuits, transitions
from tests.dashboard import stage


@pytest.fixture
def trip(cast):
    """`trip()` opens search-api while people look on."""

    def open_it() -> None:
        row = stage.opened(cast.search_api, clock.now(), failures=17, calls=23, due_in_s=30)
        with transaction.atomic():
            transitions.announce([row])

    return open_it


def state(cast) -> tuple[str, str]:
    row = Circuit.objects.get(dependency=cast.search_api)
    return row.state, row.mode


def test_a_trip_arrives_live_and_the_countdown_runs(server, cast, trip, page, sign_in):
    sign_in("otto")
    expect(page.get_by_role("heading", name="All quiet")).to_be_visible()
    expect(page.locator("#feed")).to_have_attribute("data-feed", "live")
    stage.probe(cast.search_api, clock.now())

    trip()

    expect(page.get_by_role("heading", name="1 circuit needs you")).to_be_visible(timeout=3000)
    need = page.get_by_role("article").filter(has_text="search-api")
    expect(need).to_contain_text("17 of 23 calls failed in 60 s, from 3 workers")
    expect(need.locator(".badge.open")).to_have_text("Open")
    first = need.locator(".countdown").inner_text()
    expect(need.locator(".countdown")).not_to_have_text(first)
    expect(need.locator(".countdown")).to_have_text(re.compile(r"in \d+ s"))


def test_force_close_with_a_reason(server, cast, trip, page, sign_in):
    trip()
    sign_in("otto")
    page.get_by_role("link", name="Force close").click()
    sheet = page.get_by_role("dialog")
    expect(sheet).to_contain_text("The counters start anew")

    sheet.get_by_role("button", name="Close it now").click()
    expect(sheet).to_contain_text("Say why")
    assert state(cast) == ("open", "auto")

    sheet.get_by_label("Reason").fill("the vendor says that it is back")
    sheet.get_by_role("button", name="Close it now").click()

    expect(sheet).to_be_hidden()
    expect(page.get_by_role("status").filter(has_text="search-api is closed")).to_be_visible()
    expect(page.get_by_role("heading", name="All quiet")).to_be_visible()
    assert state(cast) == ("closed", "auto")


def test_a_refresh_takes_nothing_from_who_is_writing(server, cast, trip, page, sign_in):
    trip()
    sign_in("otto")
    page.get_by_role("link", name="Hold open").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Reason").fill("half a sent")
    now = clock.now()

    circuits.hold_closed(
        dependency_id=cast.crm_db.pk, actor="ada", reason="drill", now=now, until=now + timedelta(hours=1)
    )

    expect(page.locator("article", has_text="crm-db")).to_contain_text("Held closed by ada", timeout=3000)
    expect(sheet.get_by_label("Reason")).to_have_value("half a sent")
    expect(sheet.get_by_label("Reason")).to_be_focused()


def test_a_session_that_ends_leads_to_sign_in_and_back(server, cast, trip, page, sign_in):
    trip()
    sign_in("otto", path="/?environment=prod")
    page.context.clear_cookies()

    page.get_by_role("link", name="Force close").click()

    page.wait_for_url(re.compile(r"/sign-in/\?next=%2F%3Fenvironment%3Dprod"))


def test_everything_works_without_javascript(server, cast, trip, opened, sign_in):
    trip()
    context = opened(java_script_enabled=False)
    page = sign_in("otto", on=context.new_page())
    page.get_by_role("link", name="Hold open").click()
    page.get_by_label("Reason").fill("vendor's maintenance")
    page.get_by_label("For how long").select_option("120")
    page.get_by_role("button", name="Hold it open").click()

    expect(page.get_by_role("status")).to_contain_text("search-api is held open.")
    expect(page.get_by_text("mode: held open")).to_be_visible()
    assert state(cast) == ("open", "forced_open")


def test_on_a_phone_everything_is_within_reach(server, cast, trip, opened, sign_in):
    trip()
    context = opened(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = sign_in("otto", on=context.new_page())

    acknowledge = page.get_by_role("button", name="Acknowledge")
    box = acknowledge.bounding_box()
    assert box["y"] + box["height"] <= 740, "the first deed is not on the first screen"
    assert box["height"] >= 44
    assert page.evaluate("document.documentElement.scrollWidth") <= 360

    acknowledge.tap()
    expect(page.get_by_text("Taken by")).to_be_visible()


def is_stream(request) -> bool:
    return "/live?" in request.url


def test_two_tabs_share_one_stream(server, cast, trip, page, sign_in):
    sign_in("otto")
    expect(page.locator("#feed")).to_have_attribute("data-feed", "live")
    other, streams = page.context.new_page(), []
    other.on("request", lambda request: streams.append(request.url) if is_stream(request) else None)
    other.goto(f"{server}/?environment=prod")
    expect(other.locator("#feed")).to_have_attribute("data-feed", "live", timeout=15_000)

    trip()

    expect(other.get_by_role("heading", name="1 circuit needs you")).to_be_visible(timeout=3000)
    assert streams == []


HIDE = """() => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_tab_hands_the_stream_on(server, cast, page, sign_in):
    sign_in("otto")
    expect(page.locator("#feed")).to_have_attribute("data-feed", "live")
    other = page.context.new_page()
    other.goto(f"{server}/?environment=prod")

    with other.expect_request(is_stream), page.expect_event("requestfailed", is_stream):
        page.evaluate(HIDE)


def test_a_page_that_lost_its_feed_says_so(server, cast, page, sign_in):
    page.clock.install()
    sign_in("otto")
    expect(page.locator("#feed")).to_have_attribute("data-feed", "live")

    page.context.set_offline(True)
    page.clock.run_for(60_000)

    expect(page.locator("#feed")).to_contain_text("Stale since")
    expect(page.get_by_role("alert")).to_contain_text("lost its feed")
