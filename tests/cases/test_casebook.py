"""Every case of the casebook is a test: played from its events, or proved by tests that bear its id.

`casebook.json` says where the cases come from. A test names its case with `@pytest.mark.case("C04")`; here the sources
are read for these marks, so that nothing need be run to know what is proved.
"""

from __future__ import annotations

import ast
import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from recloser.conformance import run_cases

ROOT = Path(__file__).parents[2]
BOOK = json.loads((Path(__file__).parent / "casebook.json").read_text("utf-8"))["cases"]
VECTORS = json.loads((ROOT / "sdk" / "tests" / "vectors" / "cases.json").read_text("utf-8"))
IDS = {case["id"] for case in BOOK}

WAITING = {
    "P04": "maintenance windows are not built",
}
"""Cases of what does not exist yet, and why."""


def marks(tree: ast.AST) -> Iterator[ast.Call]:
    """Every `pytest.mark.case(...)` of a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="case")):
                yield node


@functools.cache
def marked() -> dict[str, list[str]]:
    """Each id that a mark names, with the files that do."""
    found: dict[str, list[str]] = {}
    for folder in (ROOT / "tests", ROOT / "sdk" / "tests"):
        for path in sorted(folder.rglob("test_*.py")):
            for mark in marks(ast.parse(path.read_text("utf-8"))):
                for name in mark.args:
                    found.setdefault(ast.literal_eval(name), []).append(path.relative_to(ROOT).as_posix())
    return found


def test_a_mark_is_read_wherever_it_stands():
    source = "pytestmark = [pytest.mark.case('A')]\n@pytest.mark.case('B', 'C')\nasync def test_x(): ..."
    assert {ast.literal_eval(name) for mark in marks(ast.parse(source)) for name in mark.args} == {"A", "B", "C"}


def test_no_test_names_a_case_that_the_book_does_not_have():
    assert {name: files for name, files in marked().items() if name not in IDS} == {}


@pytest.mark.parametrize("case", [case for case in BOOK if not case["json"]], ids=lambda case: case["id"])
def test_every_case_in_words_is_proved_by_a_test(case):
    proved = case["id"] in marked()
    waits = case["id"] in WAITING
    assert proved is not waits, f"{case['id']} ({case['title']}): " + (
        "it is proved, take it off the waiting list" if proved else "no test is marked with it"
    )


def test_every_other_case_is_played_from_its_events_and_none_is_skipped():
    """The same file is played over the wire in tests/conformance."""
    assert {case["id"].removesuffix("-H") for case in VECTORS} == {case["id"] for case in BOOK if case["json"]}
    assert list(run_cases(VECTORS).lines()) == [f"{len(VECTORS)} passed, 0 failed, 0 skipped"]


def test_only_what_is_in_the_book_waits():
    assert set(WAITING) <= {case["id"] for case in BOOK if not case["json"]}
