"""Pictures of every page, light, dark and on a phone, to be looked at: make screenshots OUT=folder"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controlplane import clock
from tests import factories
from tests.e2e import places, story
from tests.e2e.conftest import session_of

FOLDER = os.environ.get("RECLOSER_SHOTS", "")
LOOKS = {
    "light": {"viewport": {"width": 1360, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1360, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 780}, "color_scheme": "light", "device_scale_factor": 2},
    "phone-dark": {"viewport": {"width": 360, "height": 780}, "color_scheme": "dark", "device_scale_factor": 2},
}
TOO_WIDE = """
() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("main *")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll"))
  .map((one) => `${one.tagName}.${one.getAttribute("class")}`).concat("something")
"""

pytestmark = pytest.mark.skipif(not FOLDER, reason="make screenshots OUT=folder takes them")


@pytest.fixture
def shoot(opened, server, cast):
    """`shoot(name, path)`: a page in every look, as an admin sees it."""
    folder = Path(FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    made = {look: opened(**options) for look, options in LOOKS.items()}

    def pictures(name: str, path: str, *, signed_in: bool = True, click: str = "") -> None:
        for look, context in made.items():
            if signed_in:
                context.add_cookies([{"name": "sessionid", "value": session_of("ada"), "url": server}])
            page = context.new_page()
            page.goto(f"{server}{path}")
            page.evaluate("document.fonts.ready")
            page.wait_for_load_state("load")
            if page.locator("#feed").count():
                page.locator("#feed:not([data-feed=loading])").wait_for()
            if click:
                page.get_by_role("link", name=click).first.click()
                page.get_by_role("dialog").wait_for()
            assert page.evaluate(TOO_WIDE) == [], f"{name} {look} is wider than the screen"
            page.screenshot(path=folder / f"{name}-{look}.png", full_page=not click)
            page.close()

    return pictures


def test_pictures_of_a_bad_night(shoot, cast):
    shoot("sign-in", "/sign-in/?next=/circuits/prod/search-api/", signed_in=False)
    story.bad_night(cast, clock.now())
    for name, path in places.pages(cast).items():
        shoot(name, path)
    shoot("sheet", "/?environment=prod", click="Hold open")
    shoot("palette", "/?environment=prod", click="Find")


def test_pictures_of_a_quiet_day(shoot, cast):
    story.quiet(cast, clock.now())
    factories.environment("lab", at=clock.now())
    shoot("quiet", "/?environment=prod")
    shoot("welcome", "/?environment=lab")
    shoot("calm-circuit", "/circuits/prod/geocoder/")
