"""The built site: strict, offline, and true to the code."""

import inspect
import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
import recloser
from recloser import cli, errors
from recloser.core.policy import FIELDS
from sphinx.util.inventory import InventoryFile

from tests.docs.marked import DOCS, ROOT

INNER = {
    recloser.Client: {
        *(
            "tells",
            "trip",
            "report",
            "hurry",
            "ended",
            "owns",
            "claim",
            "tested",
            "look_around",
            "wake_up",
            "refreshed",
        ),
        *("delivered", "counted", "fold", "about", "after_fork", "asks_for_probes", "attended", "hinted"),
    },
    recloser.Run: {"child_ended", "report", "refused", "due", "after_fork", "sentence_added"},
}
"""What the SDK's own modules call on one another. A new public name is either in the reference or here."""

LOADS = {
    "link": "href",
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "form": "action",
}


def members(kind):
    return {
        name: value
        for one in reversed(kind.__mro__)
        if one.__module__.startswith("recloser")
        for name, value in vars(one).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property | classmethod))
    }


@pytest.fixture(scope="session")
def described(site):
    """Every Python name that the reference describes."""
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    return {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}


def names_of(page):
    return re.sub(r"<[^>]+>", "", page.read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(set(recloser.__all__) - {"__version__"}))
def test_every_public_name_has_a_docstring_and_stands_in_the_reference(described, name):
    found = getattr(recloser, name)

    assert inspect.getdoc(found)
    assert f"recloser.{name}" in described


@pytest.mark.parametrize("kind", INNER, ids=lambda kind: kind.__name__)
def test_every_method_is_described_or_known_to_be_inner(described, kind):
    shown = {name for name in members(kind) if f"recloser.{kind.__name__}.{name}" in described}

    assert shown | INNER[kind] == set(members(kind))
    assert not shown & INNER[kind]
    assert all(inspect.getdoc(value) for value in members(kind).values())


@pytest.mark.parametrize("name", [name for name, value in vars(errors).items() if inspect.isclass(value)])
def test_every_error_is_described(described, name):
    assert inspect.getdoc(getattr(errors, name))
    assert f"recloser.errors.{name}" in described


def test_every_command_is_shown_with_its_help(site, capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    commands = re.findall(r"^    ([a-z]\w*)\s", capsys.readouterr().out, re.MULTILINE)
    page = names_of(site / "reference.html")

    assert commands
    assert all(f"usage: recloser {command}" in page for command in commands)


def test_every_policy_field_stands_on_its_page(site):
    page = (site / "policy.html").read_text("utf-8")

    assert all(f">{row.name}<" in page for row in FIELDS)


def test_a_field_that_nothing_uses_says_so(site):
    import sys

    sys.path.insert(0, str(DOCS / "_ext"))
    from read_off_the_code import WAITING

    folders = ("sdk/src/recloser", "controlplane", "dashboard", "workers")
    inner = ("schema.py", "validation.py")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name not in inner]
    waiting_in_core = ROOT / "sdk/src/recloser/core/rounds.py"  # ready there; nobody calls it
    source = "\n".join(path.read_text("utf-8") for path in files if path != waiting_in_core)
    schema = (ROOT / "sdk/src/recloser/core/schema.py").read_text("utf-8")
    rounds = waiting_in_core.read_text("utf-8")
    names = {row.name for row in FIELDS}

    used = {name for name in names if re.search(rf"\.{name}\b", source)}
    unused = {name for name in names - used if not re.search(rf"\.{name}\b", schema + rounds)}

    assert unused <= WAITING, "the page must say that nothing uses these"
    assert not used & WAITING, "these are in use: take them out of WAITING"


class Loads(HTMLParser):
    """What a browser fetches by itself when it shows a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        value = dict(attrs).get(LOADS.get(tag, ""))
        if value:
            self.found.append(value)


def test_the_site_asks_nobody_else(site):
    asked = []
    for page in site.rglob("*.html"):
        loads = Loads()
        loads.feed(page.read_text("utf-8"))
        asked += [(page.name, one) for one in loads.found if urlsplit(one).netloc]
    for sheet in site.rglob("*.css"):
        asked += [
            (sheet.name, one)
            for one in re.findall(r"url\(\s*['\"]?(?!data:)(?:https?:)?//[^)]*|@import[^;]*", sheet.read_text("utf-8"))
        ]

    assert not asked


def test_every_page_is_reached_from_the_index(site):
    index = (site / "index.html").read_text("utf-8")
    pages = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.glob("*.md")} - {"index.html"}

    assert {page for page in pages if f'href="{page}"' not in index} == set()


def test_no_lock_names_an_address():
    assert not re.search(r"https?://", (ROOT / "requirements-docs.lock").read_text("utf-8"))


def test_the_docs_lock_agrees_with_the_development_lock():
    pins = {
        name: set(re.findall(r"^\S+==\S+", (ROOT / name).read_text("utf-8"), re.MULTILINE))
        for name in ("requirements-docs.lock", "requirements-dev.lock")
    }

    assert pins["requirements-docs.lock"] <= pins["requirements-dev.lock"]
