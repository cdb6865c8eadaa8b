"""Bodies: JSON in UTF-8, at most 1 MiB, without anything that only looks like data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from rest_framework.parsers import BaseParser

from controlplane.api.errors import Problem, bad_field, too_large

MOST_BYTES = 1024 * 1024
DEEPEST = 40

_CONTROL = frozenset(map(chr, [*range(9), 11, 12, *range(14, 32), 127]))


class StrictJson(BaseParser):
    """What the framework's own parser lets pass (NaN, doubled names, NUL, bodies of any size) is refused here."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        """The body's value; an empty body is an empty object."""
        body = stream.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise too_large(MOST_BYTES)
        value = _decoded(body) if body.strip() else {}
        demand_plain(value)
        return value


def _decoded(body: bytes) -> Any:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(400, "bad_encoding", "the body is not UTF-8", "encode it as UTF-8") from None
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_number)
    except RecursionError:
        raise _bad_json("it is nested too deeply") from None
    except ValueError as error:
        raise _bad_json(str(error)[:200]) from None


def _bad_json(why: str) -> Problem:
    return Problem(400, "bad_json", f"the body is not JSON: {why}", "send one JSON object")


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:60]!r} stands there twice")
        found[name] = value
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text[:30])


def demand_plain(value: Any, where: str = "", depth: int = 0) -> None:
    """No control character, no half of one, nothing deeper than anybody needs."""
    if depth > DEEPEST:
        raise _bad_json("it is nested too deeply")
    if isinstance(value, str):
        demand_text(value, where)
    elif isinstance(value, dict):
        for name, inner in value.items():
            demand_text(name, where)
            demand_plain(inner, f"{where}.{name}" if where else name, depth + 1)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            demand_plain(inner, f"{where}[{place}]", depth + 1)


def demand_text(text: str, where: str) -> None:
    """Text that a database stores and a page shows; new lines and tabs are text."""
    if not _CONTROL.isdisjoint(text):
        raise bad_field(where, "it holds a control character", "leave that out")
    if any("\ud800" <= each <= "\udfff" for each in text):
        raise bad_field(where, "it holds half a character", "send it whole, as UTF-8")
