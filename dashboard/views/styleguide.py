"""The design system, shown: every colour with its meaning, every part in every state. For admins, and under debug."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from recloser.core.types import SideEffectClass

from controlplane import clock
from controlplane.permissions import ADMINISTER, VIEW
from dashboard import places
from dashboard.access import needs
from dashboard.forms import HoldForm
from dashboard.respond import respond

TOKENS = Path(__file__).parents[1] / "static" / "dashboard" / "css" / "tokens.css"

MEANINGS = {
    "canvas": "the page",
    "surface": "a card",
    "raised": "a row under the pointer, the head of a table",
    "sunken": "a track, a quiet badge",
    "line": "between rows",
    "line-strong": "around what can be pressed",
    "ink": "what is read",
    "ink-2": "what is read second",
    "ink-3": "labels and times",
    "accent": "a link, this place",
    "accent-fill": "the deed that is expected",
    "accent-soft": "what is chosen",
    "focus": "where the keyboard is",
    "closed": "closed: calls pass",
    "open": "open: nothing passes",
    "half": "half-open, suspected: it is being found out",
    "forced": "forced: a human decided",
}

KINDS = ("closed", "open", "half_open", "locked_out", "suspected", "forced", "worker_fault")


@dataclass(frozen=True, slots=True)
class Token:
    """One custom property."""

    name: str
    meaning: str


def tokens(text: str) -> list[Token]:
    """The colours that the sheet names and that mean something by themselves."""
    named = re.findall(r"--([a-z0-9-]+): light-dark\(", text)
    return [Token(name, MEANINGS[name]) for name in dict.fromkeys(named) if name in MEANINGS]


class SampleForm(HoldForm):
    """Every kind of field."""

    side_effect = forms.ChoiceField(label="Class", choices=[(one.value, one.value) for one in SideEffectClass])
    costly = forms.BooleanField(label="Costly", required=False)


@needs(VIEW if settings.DEBUG else ADMINISTER)
def styleguide(request: HttpRequest) -> HttpResponse:
    """One page with all of it."""
    context = {
        "tokens": tokens(TOKENS.read_text()),
        "kinds": KINDS,
        "form": SampleForm({"token": str(UUID(int=0)), "minutes": "60", "reason": "", "side_effect": "read_only"}),
        "bars": [3, 5, 2, 8, 4, 9, 6, 1, 0, 2, 7, 5],
        "now": clock.now(),
    }
    frame = places.frame(places.chosen(request), "settings", **context)
    return respond(request, "styleguide", frame, part="page")
