"""Every page, sheet and trouble, in both themes, on a desk and on a phone, against WCAG 2.2 AA as far as a machine can
tell (axe-core, for these tests only). That no page is forgotten, tests/dashboard/test_pictures.py sees to."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from controlplane import clock
from controlplane.models import Dependency
from tests import factories
from tests.dashboard import stage
from tests.e2e import places, story

VENDOR = Path(__file__).parent / "vendor"
AXE = VENDOR / "axe" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ALL, CONTRAST = {"type": "tag", "values": TAGS}, {"type": "rule", "values": ["color-contrast"]}
CHECK = """
async ([scope, runOnly]) => {
  const found = await axe.run(scope, { runOnly, resultTypes: ["violations"] });
  return found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) =>
    `${node.target} ${node.any.concat(node.all, node.none).map((each) => each.message)[0] ?? ""}`).join(" | ")}`);
}
"""
WIDTHS = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 780}}
UNFOLD = "() => document.querySelectorAll('main details').forEach((one) => one.setAttribute('open', ''))"
TOO_SMALL = """
() => [...document.querySelectorAll("main :is(.button, select, textarea, input:not([type=checkbox], [type=radio]))")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && one.getBoundingClientRect().height < 43.9)
  .map((one) => `lower than a thumb: ${one.outerHTML.slice(0, 90)}`)
"""
TOO_WIDE = """
() => document.documentElement.scrollWidth <= innerWidth ? [] : ["wider than the screen: " +
  [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
  .slice(0, 3).map((one) => one.outerHTML.slice(0, 60))]
"""
CLEAR = """
(form) => form.querySelectorAll("textarea, select, input:not([type=hidden])").forEach((field) => { field.value = ""; })
"""


class Look:
    """A tab as somebody sees it who sits at a desk or holds a phone, and prefers light or dark."""

    def __init__(self, tab: Page) -> None:
        self.tab, self.found = tab, {}
        self._devtools = tab.context.new_cdp_session(tab)

    def at(self, device: str) -> None:
        """Another screen, and a thumb instead of a mouse, without loading anything anew."""
        self.tab.set_viewport_size(WIDTHS[device])
        self._devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": device == "phone"})

    def check(self, name: str, scope: str = "html") -> None:
        """All rules in the light; between the themes nothing differs but colours."""
        for theme, rules in (("light", ALL), ("dark", CONTRAST)):
            self.tab.emulate_media(color_scheme=theme)
            self.note(f"{name}, {theme}", self.tab.evaluate(CHECK, [scope, rules]))

    def note(self, name: str, violations: list[str]) -> None:
        """Remember what is wrong, if anything."""
        if violations:
            self.found[name] = violations


@pytest.fixture
def look(opened):
    """`look.tab`, with the checker in every page; nothing moves in it."""
    context = opened(bypass_csp=True, reduced_motion="reduce")
    context.add_init_script(path=AXE)
    return Look(context.new_page())


@pytest.fixture
def night(cast):
    """Something of everything is to be seen."""
    story.bad_night(cast, clock.now())
    factories.environment("lab", at=clock.now())
    return cast


def test_the_checker_is_the_file_that_its_manifest_names():
    for entry in json.loads((VENDOR / "manifest.json").read_text()):
        for name, wanted in entry["files"].items():
            digest = hashlib.sha384((VENDOR / name).read_bytes()).digest()
            assert wanted == f"sha384-{base64.b64encode(digest).decode()}"


def test_every_page_is_accessible_in_both_themes_on_a_desk_and_on_a_phone(server, night, look, sign_in):
    """One visit each; on a phone folded parts are looked into, nothing is too wide, and a thumb hits every action."""
    tab = sign_in("ada", on=look.tab)
    for name, path in (places.pages(night) | {"welcome": "/?environment=lab"}).items():
        look.at("desk")
        tab.goto(f"{server}{path}")
        look.check(f"{name} on a desk")
        look.at("phone")
        tab.evaluate(UNFOLD)
        look.check(f"{name} on a phone")
        look.note(f"{name} on a phone", tab.evaluate(TOO_WIDE) + tab.evaluate(TOO_SMALL))

    assert look.found == {}


def test_every_sheet_is_accessible_as_a_page_of_its_own(server, night, look, sign_in):
    """As it is without JavaScript; its colours are looked at where it lies over another page."""
    tab = sign_in("ada", on=look.tab)
    look.at("phone")
    for name, path in places.sheets(night).items():
        tab.goto(f"{server}{path}")
        look.note(name, tab.evaluate(CHECK, ["html", ALL]) + tab.evaluate(TOO_WIDE) + tab.evaluate(TOO_SMALL))

    assert look.found == {}


def test_every_sheet_is_accessible_and_so_is_what_it_refuses(server, night, look, sign_in):
    """What must be filled in is sent empty."""
    pages = places.pages(night)
    sheets = places.sheets(night) | {name: pages[name] for name in ("force-close", "hold-open", "note")}
    tab = sign_in("ada", path="/settings/?environment=prod", on=look.tab)
    sheet = tab.get_by_role("dialog")
    for name, path in sheets.items():
        opened_over(tab, path)
        look.at("desk")
        look.check(f"{name} on a desk", "#sheet")
        if sheet.locator("[required]").count():
            refuse(sheet)
            look.check(f"{name} refused on a desk", "#sheet")
            look.at("phone")
            look.check(f"{name} refused on a phone", "#sheet")
        tab.keyboard.press("Escape")
        expect(sheet).to_be_hidden()

    assert look.found == {}


def opened_over(tab: Page, path: str) -> None:
    tab.evaluate("(path) => void htmx.ajax('GET', path, '#sheet-in')", path)
    tab.get_by_role("dialog").wait_for()


def refuse(sheet: Locator) -> None:
    sheet.locator("form").evaluate(CLEAR)
    sheet.locator(".buttons button").click()
    sheet.locator("[aria-invalid=true]").first.wait_for()


def test_signing_in_and_its_refusal_are_accessible(server, cast, look):
    for device in WIDTHS:
        look.at(device)
        look.tab.goto(f"{server}/sign-in/?next=/runs/")
        look.check(f"sign-in on a {device}")
        look.tab.get_by_label("Name").fill("otto")
        look.tab.get_by_label("Password").fill("wrong")
        look.tab.get_by_role("button", name="Sign in").click()
        look.tab.get_by_role("alert").wait_for()
        look.check(f"refused on a {device}")

    assert look.found == {}


def test_the_palette_the_sheet_of_keys_and_a_menu_are_accessible(server, night, look, sign_in):
    tab = sign_in("otto", path="/?environment=prod", on=look.tab)
    for device in WIDTHS:
        look.at(device)
        tab.locator(".switch summary").click()
        look.check(f"menu on a {device}")
        tab.keyboard.press("Escape")
        tab.keyboard.press("Control+k")
        tab.keyboard.type("search")
        tab.get_by_role("dialog").get_by_role("link").first.wait_for()
        look.check(f"palette on a {device}")
        tab.keyboard.press("Escape")
        opened_over(tab, "/shortcuts/")
        look.check(f"keys on a {device}")
        tab.keyboard.press("Escape")

    assert look.found == {}


def test_what_goes_wrong_is_told_accessibly(server, night, look, sign_in):
    """A refused deed, a page older than the server, a lost feed, a form with errors, a role that does not suffice."""
    stage.opened(Dependency.objects.get(slug="wiki"), clock.now())
    tab = look.tab
    tab.clock.install()
    sign_in("otto", path="/circuits/prod/wiki/", on=tab)
    tab.evaluate("document.documentElement.dataset.build = 'build-118'")
    tab.get_by_role("button", name="Acknowledge").click()
    tab.locator("#notes .problem").wait_for()
    tab.context.set_offline(True)
    tab.clock.run_for(60_000)
    tab.locator("#stale").wait_for()
    for device in WIDTHS:
        look.at(device)
        look.check(f"notes and banners on a {device}")
    tab.context.set_offline(False)

    tab.goto(f"{server}/settings/people/")
    expect(tab.get_by_role("heading", name="Your role may not do this")).to_be_visible()
    look.check("refused page")
    sign_in("petra", path="/tools/prod/web_search/policy/", on=tab)
    tab.get_by_label("Consecutive failures", exact=True).fill("-1")
    tab.get_by_role("button", name="Publish").click()
    tab.locator("[aria-invalid=true]").first.wait_for()
    for device in WIDTHS:
        look.at(device)
        look.check(f"policy refused on a {device}")

    assert look.found == {}
