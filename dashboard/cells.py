"""The fleet's grid as it is sent: each cell made once, and the parts that a page has already left out."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from controlplane.selectors.fleet import Cell
from dashboard import words
from dashboard.respond import is_partial
from dashboard.templatetags.recloser_ui import clip, icon, symbol, tone_class

HEADER = "X-Recloser-Fleet"
"""The marks of the parts that a page shows, in order: what it has need not be sent again."""

PART = 20
REMEMBERED = 8192


@dataclass(frozen=True, slots=True)
class Part:
    """Some neighbours of the grid. `mark` names exactly what they show; None instead of HTML: the page has them."""

    number: int
    mark: str
    html: SafeString | None


def parts(request: HttpRequest, environment: str, cells: Sequence[Cell]) -> list[Part]:
    """The whole grid; what the page that asks already shows is only named."""
    shown = request.headers.get(HEADER, "").split(",") if is_partial(request) else []
    return [
        Part(part.number, part.mark, None) if shown[part.number : part.number + 1] == [part.mark] else part
        for part in _all(environment, cells)
    ]


def _all(environment: str, cells: Sequence[Cell]) -> Iterator[Part]:
    for number, start in enumerate(range(0, len(cells), PART)):
        html = "".join(_cell(environment, each) for each in cells[start : start + PART])
        yield Part(number, _mark(html), mark_safe(html))  # noqa: S308 - a sum of safe strings


def _mark(html: str) -> str:
    """The same in every process: a page's next request may meet another one."""
    return hashlib.blake2b(html.encode(), digest_size=6).hexdigest()


@functools.lru_cache(maxsize=REMEMBERED)
def _cell(environment: str, cell: Cell) -> SafeString:
    """One cell. All that it shows is in the key, so one that was kept is never out of date."""
    return format_html(
        '<a class="cell {}{}" id="cell-{}" href="{}">{}<b>{}</b><small data-brief="{}">{}{}</small></a>',
        cell.kind,
        " warned" if cell.warned else "",
        cell.circuit_id,
        reverse("dashboard:circuit", args=[environment, cell.slug]),
        icon(symbol(cell.kind), tone_class(cell.kind)),
        clip(cell.slug),
        _brief(cell),
        _stands(cell),
        _called(cell) + (" · heartbeat failing" if cell.warned else ""),
    )


def _brief(cell: Cell) -> str:
    """What a crowded grid shows beside the name: nothing where all is well."""
    if cell.kind != "closed":
        return words.KINDS[cell.kind]
    if cell.warned:
        return "heartbeat"
    return words.percent(cell.rate) if cell.judged and cell.rate else ""


def _stands(cell: Cell) -> str:
    """Nothing of a closed circuit: its symbol says it."""
    if cell.kind == "closed":
        return ""
    beneath = f" {words.KINDS[cell.state.value].lower()}" if cell.kind == "forced" else ""
    return f"{words.KINDS[cell.kind]}{beneath} · "


def _called(cell: Cell) -> str:
    if cell.judged:
        return f"{words.plural(cell.judged, 'call')}, {words.percent(cell.rate)} failed"
    return f"{cell.rejected} turned away" if cell.rejected else "no calls"
