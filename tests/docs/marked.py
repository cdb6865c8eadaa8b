"""What a page marks for its tests: files to save, and commands to run as their reader would."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"<!-- (file|run)(?:: ([^\n]+?))? -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One marked block: `file` with its name, or `run` with a name of its own."""

    kind: str
    name: str
    text: str


def blocks(page: str) -> list[Block]:
    """The marked blocks of a page, in order."""
    return [Block(kind, name, text) for kind, name, text in _BLOCK.findall((DOCS / page).read_text("utf-8"))]


def one(page: str, name: str) -> str:
    """The text of the block of that name."""
    found = [block.text for block in blocks(page) if block.name == name]
    assert len(found) == 1, f"{page} marks {len(found)} blocks as {name!r}"
    return found[0]


def fenced(path: Path, language: str) -> Iterator[str]:
    """Every fenced block of a language."""
    pattern = re.compile(rf"^```{language}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    return iter(pattern.findall(path.read_text("utf-8")))


def prose(path: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", path.read_text("utf-8"))
