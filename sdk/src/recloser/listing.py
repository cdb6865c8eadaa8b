"""A listing of tools, one JSON object a line, each with the class that its hints and its name claim."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recloser.core import effects
from recloser.core.effects import Claim
from recloser.core.resolve import STRICTNESS
from recloser.core.types import SideEffectClass

MAX_BYTES = 64 * 1024 * 1024


class BadListing(Exception):
    """A file that is no listing; it says which line, and what one looks like."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a listing."""

    line: int
    server: str
    tool: str
    hints: Mapping[str, Any]
    """As published; of a tool that is listed more than once, those of its strictest line."""
    listed: int = 1
    """How many lines name this tool of this server."""

    def claim(self, *, trusted: bool = False) -> Claim:
        """What hints and name say together."""
        return effects.claim(self.tool, self.hints, server=self.server, trusted=trusted)


def read(path: Path) -> list[Listed]:
    """The lines of a listing in order. Raises `BadListing` with the number of the first line that is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise BadListing(f"{path}: {problem.strerror or problem}") from None
    if len(data) > MAX_BYTES:
        raise BadListing(f"{path}: it is larger than {MAX_BYTES // 2**20} MiB; split it")
    lines = enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1)
    return _together([_line(number, line) for number, line in lines if line.strip()])


def _line(number: int, text: bytes) -> Listed:
    try:
        entry = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as problem:
        said = "is no UTF-8" if isinstance(problem, UnicodeDecodeError) else "is no JSON"
        raise _bad(number, said) from None
    if not isinstance(entry, dict):
        raise _bad(number, "is no object")
    name, server, hints = entry.get("tool", entry.get("name")), entry.get("server") or "", entry.get("annotations")
    if not isinstance(name, str) or not name:
        raise _bad(number, 'has no text under "tool"')
    if not isinstance(server, str):
        raise _bad(number, 'has no text under "server"')
    if hints is not None and not isinstance(hints, dict):
        raise _bad(number, 'has no object under "annotations"')
    return Listed(number, server, name, hints or {})


def _bad(number: int, said: str) -> BadListing:
    return BadListing(
        f'line {number} {said}; write one object a line: {{"server": "github", "tool": "get_me", "annotations": {{}}}}'
    )


def _together(listed: list[Listed]) -> list[Listed]:
    """A tool that is listed more than once is one tool, with the strictest of what is said of it."""
    lines: dict[tuple[str, str], list[Listed]] = {}
    for each in listed:
        lines.setdefault((each.server, each.tool), []).append(each)
    strictest = {name: max(among, key=_strictness) for name, among in lines.items()}
    return [
        replace(each, hints=strictest[each.server, each.tool].hints, listed=len(lines[each.server, each.tool]))
        for each in listed
    ]


def _strictness(each: Listed) -> int:
    stated = effects.of_hints(each.hints)
    return STRICTNESS.index(stated.side_effect if stated else SideEffectClass.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Score:
    """How the names alone would have judged the tools whose hints say what they are."""

    writes: int
    writes_caught: int
    reads: int
    reads_over_classified: int
    writes_missed: tuple[Listed, ...] = ()
    over_classified: tuple[Listed, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "writes": self.writes,
            "writes_caught": self.writes_caught,
            "writes_caught_share": _share(self.writes_caught, self.writes),
            "writes_missed": [_named(each) for each in self.writes_missed],
            "reads": self.reads,
            "reads_over_classified": self.reads_over_classified,
            "reads_over_classified_share": _share(self.reads_over_classified, self.reads),
            "over_classified": [_named(each) for each in self.over_classified],
        }


def score_of(listed: Iterable[Listed], judge: Callable[[Listed], Claim] | None = None) -> Score:
    """Hide the hints, judge by name, compare. A write is caught unless its name is taken for a read."""
    judge = judge or (lambda each: effects.of_name(each.tool, server=each.server))
    distinct = {(each.server, each.tool): each for each in listed}.values()
    stated = [(each, said) for each in distinct if (said := effects.of_hints(each.hints)) is not None]
    reads = [each for each, said in stated if said.side_effect is SideEffectClass.READ_ONLY]
    writes = [each for each, said in stated if said.side_effect is not SideEffectClass.READ_ONLY]
    missed = tuple(each for each in writes if judge(each).side_effect is SideEffectClass.READ_ONLY)
    over = tuple(each for each in reads if judge(each).side_effect is not SideEffectClass.READ_ONLY)
    return Score(len(writes), len(writes) - len(missed), len(reads), len(over), missed, over)


def _named(each: Listed) -> str:
    return f"{each.server}/{each.tool}" if each.server else each.tool


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
