"""Every link inside the project leads somewhere: to a page, a heading or a file."""

import re
import string
from pathlib import Path

import pytest

from tests.docs.marked import DOCS, ROOT, prose

PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *sorted(ROOT.glob("*.md")),
    ROOT / "sdk/README.md",
    ROOT / "sdk/tests/vectors/README.md",
]
LINK = re.compile(r'(?:!?\[[^\]]*\]\(|\bsrc(?:set)?=")([^)\s"]+)[)"]')
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
KEPT = set(string.ascii_lowercase + string.digits + "-_ ")


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub and the site name them."""
    return {slug(heading) for heading in HEADING.findall(prose(page))}


def slug(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return "".join(sign for sign in plain if sign in KEPT).replace(" ", "-")


def links(page: Path) -> list[str]:
    return [target for target in LINK.findall(prose(page)) if not target.startswith(("http://", "https://", "mailto:"))]


def test_there_are_links_to_check():
    assert sum(len(links(page)) for page in PAGES) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    broken = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or not found.is_relative_to(ROOT):
            broken.append(target)
        elif anchor and anchor not in anchors(found):
            broken.append(f"{target}: no such heading")
    assert not broken


def test_the_checker_finds_what_is_broken(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One & two: `three`\n```\n# no heading\n[no link](nowhere.md)\n```\n[here](#one--two-three)\n")

    assert links(page) == ["#one--two-three"]
    assert anchors(page) == {"one--two-three"}
