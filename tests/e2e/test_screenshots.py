"""Pictures of every page, light, dark and on a phone, to be looked at: make screenshots OUT=folder"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from controlplane import clock
from tests import factories
from tests.e2e import places, story
from tests.e2e.conftest import session_of

Deed = Callable[[Page], None]
FOLDER = os.environ.get("RECLOSER_SHOTS", "")
DESK = {"viewport": {"width": 1360, "height": 900}}
PHONE = {"viewport": {"width": 360, "height": 780}, "device_scale_factor": 2, "has_touch": True}
LOOKS = {
    "light": DESK | {"color_scheme": "light"},
    "dark": DESK | {"color_scheme": "dark"},
    "phone": PHONE | {"color_scheme": "light"},
    "phone-dark": PHONE | {"color_scheme": "dark"},
}
BETWEEN = (520, 680, 760, 820, 900, 1020, 1100)
"""Widths of tablets, of windows beside others and of a desk at 200 %: nothing may be wider than they are."""
TOO_WIDE = """
() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll"))
  .map((one) => `${one.tagName}.${one.getAttribute("class")}`).concat("something")
"""

pytestmark = pytest.mark.skipif(not FOLDER, reason="make screenshots OUT=folder takes them")


@pytest.fixture
def looks(opened):
    """A browser profile for each look."""
    return {look: opened(**options) for look, options in LOOKS.items()}


@pytest.fixture
def shoot(looks, server, cast):
    """`shoot(name, path)`: a page in every look, as an admin sees it; `then(page)` does something to it first."""
    folder = Path(FOLDER)
    folder.mkdir(parents=True, exist_ok=True)

    def pictures(name: str, path: str, *, who: str = "ada", then: Deed | None = None, whole: bool = True) -> None:
        for look, context in looks.items():
            if who:
                context.add_cookies([{"name": "sessionid", "value": session_of(who), "url": server}])
            page = settled(context.new_page(), f"{server}{path}")
            if then:
                then(page)
            assert page.evaluate(TOO_WIDE) == [], f"{name} {look} is wider than the screen"
            page.screenshot(path=folder / f"{name}-{look}.png", full_page=whole)
            page.close()

    return pictures


def settled(page: Page, address: str) -> Page:
    """The page, once it stands still."""
    page.goto(address)
    page.evaluate("document.fonts.ready")
    page.wait_for_load_state("load")
    if page.locator("#feed").count():
        page.locator("#feed:not([data-feed=loading])").wait_for()
    return page


def opens(name: str) -> Deed:
    """Press a link that opens a dialog."""

    def press(page: Page) -> None:
        page.get_by_role("link", name=name).first.click()
        page.get_by_role("dialog").wait_for()

    return press


def answers_no(page: Page) -> None:
    """Send a sheet that lacks its reason."""
    opens("Force close")(page)
    page.get_by_role("dialog").get_by_role("button", name="Close it now").click()
    page.get_by_role("dialog").get_by_text("Say why").wait_for()


def seeks(page: Page) -> None:
    """Ask the palette for something."""
    opens("Find")(page)
    page.get_by_role("dialog").get_by_role("searchbox").fill("search")
    page.get_by_role("dialog").get_by_role("link").first.wait_for()


def mistypes(page: Page) -> None:
    """A wrong password."""
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill("not this one")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").wait_for()


def issues(page: Page) -> None:
    """Have a key issued: it is shown this once."""
    page.get_by_label("Agent").select_option(index=0)
    page.get_by_role("button", name="Issue").click()
    page.get_by_role("button", name="Copy").wait_for()


def test_pictures_of_a_bad_night(shoot, cast):
    story.bad_night(cast, clock.now())
    for name, path in (places.pages(cast) | places.sheets(cast)).items():
        shoot(name, path)
    board = "/?environment=prod"
    shoot("sheet", board, then=opens("Hold open"), whole=False)
    shoot("sheet-refused", board, then=answers_no, whole=False)
    shoot("palette", board, then=opens("Find"), whole=False)
    shoot("palette-found", board, then=seeks, whole=False)
    shoot("key-issued", "/settings/prod/keys/issue/", then=issues)
    shoot("forbidden", "/settings/prod/keys/issue/", who="ann")
    shoot("viewer", "/circuits/prod/search-api/", who="ann")


def test_pictures_of_the_way_in(shoot):
    shoot("sign-in", "/sign-in/?next=/circuits/prod/search-api/", who="")
    shoot("sign-in-refused", "/sign-in/", who="", then=mistypes)


def test_pictures_of_a_quiet_day(shoot, cast):
    story.quiet(cast, clock.now())
    factories.environment("lab", at=clock.now())
    shoot("quiet", "/?environment=prod")
    shoot("welcome", "/?environment=lab")
    shoot("calm-circuit", "/circuits/prod/geocoder/")


def test_pictures_of_a_crowd(shoot, cast):
    story.crowd(cast, clock.now())
    shoot("crowd", "/?environment=prod")
    shoot("long-name", f"/circuits/prod/{story.LONG}/")


def test_pictures_on_paper_and_in_forced_colours(opened, server, cast):
    story.bad_night(cast, clock.now())
    pages = places.pages(cast)
    looks = {"paper": {"viewport": {"width": 720, "height": 1000}}, "forced": {"forced_colors": "active"}}
    for look, options in looks.items():
        context = opened(**options)
        context.add_cookies([{"name": "sessionid", "value": session_of("ada"), "url": server}])
        for name in ("board", "circuit", "run", "trip", "styleguide"):
            page = settled(context.new_page(), f"{server}{pages[name]}")
            if look == "paper":
                page.emulate_media(media="print")
            page.screenshot(path=Path(FOLDER) / f"{name}-{look}.png", full_page=True)
            page.close()


def test_no_width_between_a_phone_and_a_desk_overflows(opened, server, cast):
    story.bad_night(cast, clock.now())
    context = opened()
    context.add_cookies([{"name": "sessionid", "value": session_of("ada"), "url": server}])
    page = context.new_page()
    found = {}
    for name, path in places.pages(cast).items():
        settled(page, f"{server}{path}")
        for width in BETWEEN:
            page.set_viewport_size({"width": width, "height": 900})
            if wide := page.evaluate(TOO_WIDE):
                found[name, width] = wide

    assert found == {}
