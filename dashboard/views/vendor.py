"""The status page of a dependency's vendor."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from controlplane import clock
from controlplane.models import VendorStatus
from controlplane.permissions import OPERATE
from controlplane.services import vendor_status
from dashboard import places
from dashboard.access import actor, needs
from dashboard.views import sheets


class VendorForm(forms.Form):
    """Which page, and what of it."""

    status_address = forms.CharField(
        max_length=500,
        required=False,
        label="Address",
        help_text="Of Statuspage JSON, such as https://status.example.com/api/v2/summary.json, or of an RSS or Atom "
        "feed. Empty: none is read.",
    )
    status_component = forms.CharField(
        max_length=200,
        required=False,
        label="Component",
        help_text="Of the page's components one, by its name. Empty: the page as a whole.",
    )


@require_http_methods(["GET", "HEAD", "POST"])
@needs(OPERATE)
def edit(request: HttpRequest, environment: str, dependency: str) -> HttpResponse:
    """Name the page that is read beside the circuit, or none."""
    here = places.named(environment)
    row = places.circuit(here, dependency).dependency
    stored = VendorStatus.objects.filter(dependency=row).first()
    sheet = sheets.Sheet(
        title=f"What the vendor of {row.slug} says",
        consequence="It is read every minute while the circuit is out of service, every quarter of an hour else, and "
        "shown beside it. It is context: nothing opens or closes by it.",
        button="Save",
        back=reverse("dashboard:circuit", args=[here.slug, row.slug]),
        section="board",
    )

    def act(data: dict[str, Any]) -> str:
        if not data["status_address"]:
            vendor_status.remove_status(dependency=row, actor=actor(request))
            return f"No status page is read for {row.slug}."
        vendor_status.set_status(
            dependency=row,
            address=data["status_address"],
            component=data["status_component"],
            actor=actor(request),
            now=clock.now(),
        )
        return f"The status page of {row.slug} is saved; it is read within seconds."

    given = {"status_address": stored.address, "status_component": stored.component} if stored else None
    return sheets.handle(request, here, sheet, VendorForm(request.POST or None, initial=given), act)
