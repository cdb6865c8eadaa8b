"""By keys alone, without motion, on paper; and nothing that an attacker says comes alive in a browser."""

from __future__ import annotations

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from controlplane import clock
from controlplane.models import Circuit, Trip
from tests.dashboard import attacker, everywhere, stage
from tests.e2e import story

FOCUS = "() => document.activeElement.closest('main, dialog') && document.activeElement.innerText.trim()"
REFRESHED = """
() => new Promise((done) => {
  const swapped = ({ detail }) => {
    if (detail.ctx.target?.id !== "live") return;
    document.removeEventListener("htmx:after:swap", swapped);
    done();
  };
  document.addEventListener("htmx:after:swap", swapped);
  document.dispatchEvent(new CustomEvent("recloser:done"));
})
"""
ADDRESSES = """
() => [...document.querySelectorAll("main a[href]")].filter((one) => one.checkVisibility())
  .filter((one) => getComputedStyle(one, "::after").content.includes(one.getAttribute("href"))).length
"""
ALIVE = (
    "() => [...document.querySelectorAll('body img, body iframe, body script, [onerror]')].map((one) => one.outerHTML)"
)


@pytest.fixture
def outage(cast):
    return stage.opened(cast.search_api, clock.now(), failures=17, calls=23)


def reached(page, name):
    """Press Tab until something of that name has the focus; what had it on the way, in order."""
    passed = []
    for _ in range(80):
        page.keyboard.press("Tab")
        passed.append(page.evaluate(FOCUS))
        if passed[-1] == name:
            return passed
    raise AssertionError(f"no Tab leads to {name}: {passed}")


def test_a_circuit_is_closed_by_keys_alone_and_the_focus_is_never_lost(server, cast, outage, page, sign_in):
    sign_in("otto", path="/circuits/prod/search-api/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    passed = [name for name in reached(page, "Force close") if name]
    assert passed[-2:] == ["Probe now", "Force close"] or passed[-2:] == ["Set up a probe", "Force close"], passed

    page.keyboard.press("Enter")
    sheet = page.get_by_role("dialog")
    expect(sheet.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    expect(page.get_by_role("link", name="Force close")).to_be_focused()

    page.keyboard.press("Enter")
    expect(sheet.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Tab")
    expect(sheet.get_by_role("button", name="Close it now")).to_be_focused()
    page.keyboard.press("Enter")
    expect(sheet.get_by_label("Reason")).to_have_attribute("aria-invalid", "true")
    expect(sheet.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("the vendor says that it is back")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(sheet).to_be_hidden()
    expect(page.get_by_role("link", name="Force close")).to_have_count(0)
    expect(page.get_by_role("group", name="Actions on search-api")).to_be_focused()
    page.evaluate(REFRESHED)
    expect(page.get_by_role("group", name="Actions on search-api")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Hold open", exact=True)).to_be_focused()
    assert Circuit.objects.get(dependency=cast.search_api).state == "closed"


def test_what_is_done_on_the_board_leaves_the_focus_near(server, cast, outage, page, sign_in):
    """The whole article goes."""
    sign_in("otto", path="/?environment=prod")
    page.get_by_role("link", name="Force close").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_label("Reason").fill("the vendor says that it is back")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="All quiet")).to_be_visible()
    page.wait_for_function("document.querySelector('#live').contains(document.activeElement)")


def test_nothing_moves_for_whoever_wants_no_motion(server, cast, outage, opened, sign_in):
    stage.run(cast.research, clock.now(), status="running", ended_at=None)
    moving = "() => document.getAnimations().filter((one) => one.timeline instanceof DocumentTimeline).length"
    seen = {}
    for wish in ("no-preference", "reduce"):
        tab = sign_in("otto", path="/runs/?environment=prod&show=all", on=opened(reduced_motion=wish).new_page())
        expect(tab.locator(".badge.running")).to_be_visible()
        seen[wish] = tab.evaluate(moving)
    assert seen["no-preference"] > 0
    assert seen["reduce"] == 0


def test_a_run_and_a_trip_are_readable_on_paper(server, cast, opened, sign_in):
    """Printed from a dark screen: black on white, no controls, addresses where links were."""
    story.bad_night(cast, clock.now())
    tab = opened(color_scheme="dark").new_page()
    trip = Trip.objects.filter(scope="run", signal="consecutive_failures").latest("at")
    run = story.brief(cast)
    for path in (reverse("dashboard:run", args=[run.pk]), reverse("dashboard:trip", args=[trip.pk])):
        sign_in("otto", path=path, on=tab)
        tab.emulate_media(media="print")
        expect(tab.get_by_role("heading", level=1)).to_be_visible()
        for gone in (".top", ".buttons", ".copy", ".toasts", "#feed", ".skip"):
            assert tab.locator(gone).locator("visible=true").count() == 0, f"{gone} is printed of {path}"
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert tab.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert tab.evaluate(ADDRESSES) > 0
        expect(tab.locator(".foot")).to_contain_text(f"{server}{path}")
        tab.emulate_media(media="screen")
        expect(tab.locator(".foot .address")).to_be_hidden()


def test_nothing_that_an_attacker_says_comes_alive(server, cast, opened, sign_in):
    """With the content policy switched off: escaping alone must do. As it was sent, and after a refresh."""
    stood = attacker.attack(cast, clock.now())
    context, came = opened(bypass_csp=True), []
    context.on("dialog", lambda dialog: (came.append(dialog.message), dialog.dismiss()))
    context.on("request", lambda request: came.append(request.url) if request.url.endswith("/x") else None)
    tab = sign_in("ada", on=context.new_page())
    for name, path in everywhere.pages(stood).items():
        if name.startswith("layer-policy-") and "-environment-" not in name:
            continue  # the editors of classes differ in nothing but a word
        tab.goto(f"{server}{path}")
        if tab.locator("#live").count():
            tab.evaluate(REFRESHED)
        assert (tab.evaluate(ALIVE), came) == ([], []), path
