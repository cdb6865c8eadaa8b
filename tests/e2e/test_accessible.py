"""Every page, in both themes, against WCAG 2.2 AA as far as a machine can tell (axe-core, for these tests only)."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from controlplane import clock
from tests import factories
from tests.e2e import places, story

VENDOR = Path(__file__).parent / "vendor"
AXE = VENDOR / "axe" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ALL, CONTRAST = {"type": "tag", "values": TAGS}, {"type": "rule", "values": ["color-contrast"]}
CHECK = """
async (runOnly) => {
  const found = await axe.run(document, { runOnly, resultTypes: ["violations"] });
  return found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) =>
    `${node.target} ${node.any.concat(node.all, node.none).map((each) => each.message)[0] ?? ""}`).join(" | ")}`);
}
"""


def test_the_checker_is_the_file_that_its_manifest_names():
    for entry in json.loads((VENDOR / "manifest.json").read_text()):
        for name, wanted in entry["files"].items():
            digest = hashlib.sha384((VENDOR / name).read_bytes()).digest()
            assert wanted == f"sha384-{base64.b64encode(digest).decode()}"


def test_every_page_is_accessible_in_both_themes(server, cast, opened, sign_in):
    """Between the themes nothing differs but colours, so only contrast is looked at twice."""
    story.bad_night(cast, clock.now())
    factories.environment("lab", at=clock.now())
    context = opened(bypass_csp=True, reduced_motion="reduce")
    context.add_init_script(path=AXE)
    tab = sign_in("ada", on=context.new_page())

    found = {}
    for name, path in (places.pages(cast) | places.sheets(cast) | {"welcome": "/?environment=lab"}).items():
        tab.goto(f"{server}{path}")
        for theme, rules in (("light", ALL), ("dark", CONTRAST)):
            tab.emulate_media(color_scheme=theme)
            if violations := tab.evaluate(CHECK, rules):
                found[name, theme] = violations

    assert found == {}


def test_a_sheet_and_the_sign_in_are_accessible(server, cast, opened, sign_in):
    context = opened(bypass_csp=True, reduced_motion="reduce")
    context.add_init_script(path=AXE)
    tab = context.new_page()
    tab.goto(f"{server}/sign-in/")
    signing_in = tab.evaluate(CHECK, ALL)
    sign_in("otto", path="/circuits/prod/search-api/", on=tab)
    tab.get_by_role("link", name="Hold open").click()
    tab.get_by_role("dialog").get_by_role("button", name="Hold it open").click()
    tab.get_by_role("dialog").get_by_text("Say why").wait_for()

    assert signing_in == []
    assert tab.evaluate(CHECK, ALL) == []


def test_the_palette_and_the_sheet_of_keys_are_accessible(server, cast, opened, sign_in):
    story.bad_night(cast, clock.now())
    context = opened(bypass_csp=True, reduced_motion="reduce")
    context.add_init_script(path=AXE)
    tab = sign_in("otto", path="/?environment=prod", on=context.new_page())
    tab.keyboard.press("/")
    tab.keyboard.type("search")
    tab.get_by_role("dialog").get_by_role("link").first.wait_for()
    found = tab.evaluate(CHECK, ALL)
    tab.emulate_media(color_scheme="dark")
    dark = tab.evaluate(CHECK, CONTRAST)
    tab.keyboard.press("Escape")
    tab.keyboard.press("?")
    tab.get_by_role("dialog", name="Keyboard shortcuts").wait_for()

    assert (found, dark, tab.evaluate(CHECK, ALL)) == ([], [], [])
