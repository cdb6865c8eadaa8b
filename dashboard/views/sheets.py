"""Small forms that open as a sheet over the page, and are pages of their own without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from controlplane import clock
from controlplane.models import Agent, Environment
from controlplane.services.errors import Refused
from dashboard import places
from dashboard.forms import add_refusal
from dashboard.respond import Undo, is_partial, respond, rights, to_notes, told


@dataclass(frozen=True, slots=True)
class Sheet:
    """One form: its words, what follows from it, and where it leads back to."""

    title: str
    consequence: str
    button: str
    back: str
    grave: bool = False
    note: str = ""
    section: str = "settings"
    undo: Callable[[dict[str, Any]], Undo] | None = None
    """What takes it back, of the values that it was done with."""
    propose: Callable[[dict[str, Any]], str] | None = None
    """Where a second person is asked for these values, if one is needed."""


def handle(
    request: HttpRequest,
    environment: Environment,
    sheet: Sheet,
    form: forms.Form,
    act: Callable[[dict[str, Any]], str],
) -> HttpResponse:
    """Show the form, or do `act` with its values; `act` returns what was done, or refuses."""
    if request.method != "POST" or not form.is_valid():
        return show(request, environment, sheet, form)
    try:
        text = act(form.cleaned_data)
    except Refused as refused:
        leads = refused.code == "needs_approval" and sheet.propose
        instead = leads(form.cleaned_data) if leads else ""
        add_refusal(form, refused)
        return show(request, environment, sheet, form, instead=instead)
    return done(request, text, sheet.back, undo=sheet.undo(form.cleaned_data) if sheet.undo else None)


def show(
    request: HttpRequest, environment: Environment, sheet: Sheet, form: forms.Form, *, instead: str = ""
) -> HttpResponse:
    """The form, with what is wrong at each field; `instead`: where it is proposed to a second person."""
    status = 422 if form.is_bound else 200
    context = places.frame(environment, sheet.section, sheet=sheet, form=form, instead=instead, now=clock.now())
    response = respond(request, "sheet", context, part="_sheet", status=status)
    if form.is_bound:
        response["HX-Retarget"] = "#sheet-in"
        response["HX-Reswap"] = "innerHTML"
    return response


def done(request: HttpRequest, text: str, back: str, *, undo: Undo | None = None) -> HttpResponse:
    """What was done: a note above the page, or the page it leads back to."""
    if not is_partial(request):
        told(request, text, undo)
        return redirect(back)
    response = to_notes(render(request, "dashboard/action/_done.html", {"text": text, "undo": undo}))
    response["HX-Trigger"] = "recloser:done"
    return response


def away(request: HttpRequest, text: str, to: str) -> HttpResponse:
    """What was done, on another page: the one under the sheet is no more."""
    messages.success(request, text)
    if not is_partial(request):
        return redirect(to)
    return HttpResponse(status=204, headers={"HX-Redirect": to})


def shown_once(
    request: HttpRequest, environment: Environment, sheet: Sheet, secret: str, *, agent: Agent | None = None
) -> HttpResponse:
    """A secret that is stored nowhere in clear: shown now and never again; an agent's with the lines it goes into."""
    context = places.frame(environment, sheet.section, sheet=sheet, secret=secret, agent=agent) | rights(request)
    name = "_secret" if is_partial(request) else "secret"
    return render(request, f"dashboard/sheet/{name}.html", context)
