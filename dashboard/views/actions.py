"""What an operator may do to a circuit: one address a deed, a form by GET, the deed by POST."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from recloser.core.types import Mode

from controlplane import clock
from controlplane.models import Circuit, Environment
from controlplane.permissions import OPERATE
from controlplane.services import circuits as service
from controlplane.services.errors import Refused
from dashboard import places
from dashboard.access import actor, needs
from dashboard.forms import DeedForm, HoldForm, NoteForm, ReasonForm, add_refusal
from dashboard.respond import Undo, respond
from dashboard.views import circuit as circuit_page
from dashboard.views import sheets


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing to do: its words, its form, its service."""

    title: str
    button: str
    done: str
    form: type[DeedForm]
    act: Callable[..., Any]
    grave: bool = False


DEEDS: Mapping[str, Deed] = {
    "force-close": Deed(
        "Force close", "Close it now", "is closed, with fresh counters", ReasonForm, service.force_close, True
    ),
    "hold-open": Deed("Hold open", "Hold it open", "is held open", HoldForm, service.hold_open, True),
    "hold-closed": Deed("Hold closed", "Hold it closed", "is held closed", HoldForm, service.hold_closed, True),
    "release": Deed("Release", "Release it", "decides by evidence again", ReasonForm, service.release),
    "probe-now": Deed("Probe now", "Probe now", "is due for its test at once", DeedForm, service.probe_now),
    "acknowledge": Deed("Acknowledge", "Acknowledge", "is acknowledged", DeedForm, service.acknowledge),
    "hand-back": Deed("Hand back", "Hand it back", "waits for somebody again", DeedForm, service.hand_back),
    "note": Deed("Write a note", "Write it down", "has a new note", NoteForm, service.note),
}

OPPOSITES: Mapping[str, str] = {
    "force-close": "hold-open",
    "hold-open": "release",
    "hold-closed": "release",
    "acknowledge": "hand-back",
    "hand-back": "acknowledge",
}
"""What takes a deed back; each is a deed of its own, with its own words and its own place on record."""


@require_http_methods(["GET", "HEAD", "POST"])
@needs(OPERATE)
def action(request: HttpRequest, environment: str, dependency: str, action: str) -> HttpResponse:
    """Show what a deed would do, or do it; the answer is the new truth."""
    here = places.named(environment)
    row = places.circuit(here, dependency)
    deed = DEEDS.get(action)
    if deed is None:
        raise Http404(f"There is no action {action[:40]!r}.")
    form = deed.form(request.POST) if request.method == "POST" else deed.form()
    if request.method == "POST" and form.is_valid():
        return _act(request, here, row, action, form)
    return _form(request, here, row, action, form, status=422 if form.is_bound else 200)


def _act(request: HttpRequest, environment: Environment, row: Circuit, action: str, form: DeedForm) -> HttpResponse:
    now = clock.now()
    try:
        DEEDS[action].act(dependency_id=row.dependency.pk, actor=actor(request), now=now, **form.values(now))
    except Refused as refused:
        add_refusal(form, refused)
        return _form(request, environment, row, action, form, status=409)
    return _done(request, environment, row, action)


def _form(
    request: HttpRequest, environment: Environment, row: Circuit, action: str, form: DeedForm, *, status: int
) -> HttpResponse:
    context = places.frame(environment, "board", **circuit_page.contents(environment, row.dependency.slug))
    context |= {"deed": DEEDS[action], "action": action, "form": form}
    response = respond(request, "action", context, part="_sheet", status=status)
    if status != 200:
        response["HX-Retarget"] = "#sheet-in"
        response["HX-Reswap"] = "innerHTML"
    return response


def _done(request: HttpRequest, environment: Environment, row: Circuit, action: str) -> HttpResponse:
    text = f"{row.dependency.slug} {DEEDS[action].done}."
    back = reverse("dashboard:circuit", args=[environment.slug, row.dependency.slug])
    return sheets.done(request, text, back, undo=_undo(environment, row, action))


def _undo(environment: Environment, row: Circuit, action: str) -> Undo | None:
    """What takes it back; a hold that was released is held again as it was. `row` is as it stood before."""
    held = "hold-open" if row.mode == Mode.FORCED_OPEN.value else "hold-closed"
    opposite = held if action == "release" else OPPOSITES.get(action)
    if opposite is None:
        return None
    address = reverse("dashboard:action", args=[environment.slug, row.dependency.slug, opposite])
    return Undo(address, DEEDS[opposite].title)
