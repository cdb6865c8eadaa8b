"""The palette: jump to any circuit, tool, run or trip by a few letters; and the sheet of shortcuts."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from controlplane.selectors import circuits, finding
from dashboard import addresses, places
from dashboard.access import needs
from dashboard.respond import respond


@needs()
def find(request: HttpRequest) -> HttpResponse:
    """What fits the text, as a page of its own or as the palette's list."""
    environment = places.chosen(request)
    if environment is None:
        return respond(request, "empty", places.frame(None, ""), part="page")
    with circuits.snapshot() as now:
        text = addresses.text(request, "q")
        found = finding.find(environment, text)
        context = places.frame(environment, "", found=found, text=text, now=now)
        return respond(request, "find", context, part="_found")


@needs()
def shortcuts(request: HttpRequest) -> HttpResponse:
    """Which keys do what."""
    return respond(request, "shortcuts", places.frame(places.chosen(request), ""), part="_sheet")
