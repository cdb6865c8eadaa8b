"""Trips: every opening and withdrawal, one in full, and what people say of it afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from recloser.core.types import Delivery, Scope, SideEffectClass, Signal

from controlplane import clock
from controlplane.models import Environment
from controlplane.permissions import OPERATE
from controlplane.selectors import board, circuits
from controlplane.selectors import trips as selector
from controlplane.selectors.trips import MARKS, Filter, TripPage
from controlplane.services import trips as service
from dashboard import addresses, gauges, places, rows, spans, words
from dashboard.access import actor, needs
from dashboard.forms import DeedForm, ReasonForm
from dashboard.respond import respond
from dashboard.views import sheets
from dashboard.views.sheets import Sheet

CHOICES: dict[str, tuple[str, ...]] = {
    "signal": tuple(each.value for each in Signal),
    "scope": tuple(each.value for each in Scope),
    "side_effect": tuple(each.value for each in SideEffectClass),
    "delivery": (Delivery.ENFORCE.value, Delivery.OBSERVE.value),
    "mark": MARKS,
}
TEXTS = ("tool", "dependency", "agent")


@needs()
def trips(request: HttpRequest) -> HttpResponse:
    """The list; its filters and its place are in the address."""
    environment = places.chosen(request)
    if environment is None:
        return respond(request, "empty", places.frame(None, "trips"), part="page")
    with circuits.snapshot() as now:
        wanted, said = filtered(request, environment, now)
        by, ordered = addresses.order(request, selector.COLUMNS)
        place = addresses.key(request, by, selector.COLUMNS)
        found = selector.trips(environment, wanted, by=by, after=place)
        said |= ordered
        context = {
            "found": found,
            "rows": rows.of_trips(environment.slug, found.trips, now),
            "wanted": wanted,
            "words": said,
            "choices": CHOICES,
            "agents": board.agents(environment),
            "withins": spans.choices(),
            "by": by,
            "next": addresses.query(said, **addresses.place(found.after)) if found.after else "",
            "first": addresses.query(said) if place else "",
            "now": now,
        }
        return respond(request, "trips", places.frame(environment, "trips", **context))


def filtered(request: HttpRequest, environment: Environment, now: datetime) -> tuple[Filter, dict[str, str]]:
    """The filter, and the same as the address has it."""
    span = spans.read(request.GET, now)
    values: dict[str, Any] = {name: addresses.choice(request, name, among) for name, among in CHOICES.items()}
    values |= {name: addresses.text(request, name) for name in TEXTS}
    return Filter(**values, since=span.since, until=span.until), {
        "environment": environment.slug,
        **values,
        **span.words,
    }


@needs()
def trip(request: HttpRequest, trip_id: UUID) -> HttpResponse:
    """Its evidence against its threshold, whose claims it rests on, where, and what was done."""
    with circuits.snapshot() as now:
        page = _page(trip_id)
        context = {"page": page, "trip": page.trip, "gauge": gauges.of_signal(page.trip), "now": now}
        context["figures"] = words.figures(page.trip)
        return respond(request, "trip", places.frame(page.trip.environment, "trips", **context))


@require_http_methods(["GET", "HEAD", "POST"])
@needs(OPERATE)
def mark_false(request: HttpRequest, trip_id: UUID) -> HttpResponse:
    """Say that it should not have tripped."""
    row = _page(trip_id).trip
    sheet = Sheet(
        title="Mark as a false trip",
        consequence="It stays on record, with your name and reason. Policies are judged by such marks; no circuit "
        "changes, and no run gets its tool back.",
        button="Mark it",
        back=_address(row.pk),
        section="trips",
    )

    def act(data: dict[str, Any]) -> str:
        service.mark_false_trip(trip=row, actor=actor(request), reason=data["reason"], now=clock.now())
        return "The trip is marked as false."

    return sheets.handle(request, row.environment, sheet, ReasonForm(request.POST or None), act)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(OPERATE)
def unmark_false(request: HttpRequest, trip_id: UUID) -> HttpResponse:
    """Take that back."""
    row = _page(trip_id).trip
    sheet = Sheet(
        title="Take the mark back",
        consequence="The trip counts as a right one again.",
        button="Take it back",
        back=_address(row.pk),
        section="trips",
    )

    def act(data: dict[str, Any]) -> str:
        service.unmark_false_trip(trip=row, actor=actor(request), reason=data["reason"])
        return "The trip counts as a right one."

    return sheets.handle(request, row.environment, sheet, DeedForm(request.POST or None), act)


def _address(trip_id: UUID) -> str:
    return reverse("dashboard:trip", args=[trip_id])


def _page(trip_id: UUID) -> TripPage:
    found = selector.page(trip_id)
    if found is None:
        raise Http404("There is no such trip; trips are kept for a limited time.")
    return found
