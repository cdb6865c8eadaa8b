"""Pictures of every page, to be looked at: RECLOSER_SHOTS=folder pytest tests/e2e/test_screenshots.py"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controlplane import clock
from controlplane.models import Run
from tests import factories
from tests.e2e import story

FOLDER = os.environ.get("RECLOSER_SHOTS", "")
SIZES = {"wide": (1360, 900), "phone": (360, 780)}
TOO_WIDE = """
() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("main *")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll"))
  .map((one) => `${one.tagName}.${one.getAttribute("class")}`).concat("something")
"""

pytestmark = pytest.mark.skipif(not FOLDER, reason="set RECLOSER_SHOTS to a folder to get pictures")


@pytest.fixture
def shoot(browser, server, cast):
    """`shoot(name, path)`: a page in both themes and sizes, as otto sees it."""
    Path(FOLDER).mkdir(parents=True, exist_ok=True)
    made = []
    for theme in ("light", "dark"):
        for size, (width, height) in SIZES.items():
            scale = 1 if size == "wide" else 2
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=scale
            )
            made.append((f"{theme}-{size}", context))

    def pictures(name: str, path: str, *, who: str | None = "ada", click: str = "") -> None:
        for suffix, context in made:
            page = context.new_page()
            page.goto(f"{server}{path}")
            if who and page.get_by_label("Password").count():
                page.get_by_label("Name").fill(who)
                page.get_by_label("Password").fill(factories.PASSWORD)
                page.get_by_role("button", name="Sign in").click()
            page.wait_for_load_state("load")
            page.evaluate("document.fonts.ready")
            page.wait_for_timeout(1700 if who else 200)
            if click:
                page.get_by_role("link", name=click).first.click()
                page.get_by_role("dialog").wait_for()
            assert page.evaluate(TOO_WIDE) == [], f"{name} {suffix} is wider than the screen"
            page.screenshot(path=f"{FOLDER}/{name}-{suffix}.png", full_page=not click)
            page.close()

    yield pictures
    for _, context in made:
        context.close()


def test_pictures_of_a_bad_night(shoot, cast):
    shoot("sign-in", "/sign-in/?next=/circuits/prod/search-api/", who=None)
    story.bad_night(cast, clock.now())
    run = Run.objects.filter(degraded=True, disclosed=False).first()
    shoot("board", "/?environment=prod")
    shoot("sheet", "/?environment=prod", click="Hold open")
    shoot("circuit", "/circuits/prod/search-api/")
    shoot("force-close", "/circuits/prod/search-api/force-close/")
    shoot("hold-open", "/circuits/prod/search-api/hold-open/")
    shoot("probe", "/circuits/prod/search-api/probe/")
    shoot("runs", "/runs/?environment=prod")
    shoot("run", f"/runs/{run.pk}/")
    shoot("settings", "/settings/?environment=prod")
    shoot("missing", "/circuits/prod/serch-api/")


def test_pictures_of_a_quiet_day(shoot, cast):
    story.quiet(cast, clock.now())
    factories.environment("lab", at=clock.now())
    shoot("quiet", "/?environment=prod")
    shoot("welcome", "/?environment=lab")
    shoot("calm-circuit", "/circuits/prod/geocoder/")
