"""The probe of one dependency."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from controlplane import clock
from controlplane.models import Dependency, Probe
from controlplane.permissions import OPERATE
from controlplane.services import probes
from controlplane.services.errors import Refused
from dashboard import places
from dashboard.access import actor, needs
from dashboard.forms import ProbeForm, add_refusal, probe_initial
from dashboard.respond import respond


@require_http_methods(["GET", "HEAD", "POST"])
@needs(OPERATE)
def probe(request: HttpRequest, environment: str, dependency: str) -> HttpResponse:
    """Show the form, or save what it says."""
    here = places.named(environment)
    row = places.circuit(here, dependency).dependency
    stored = Probe.objects.filter(dependency=row).first()
    form = ProbeForm(request.POST or None, initial=probe_initial(stored, _operation(row)))
    if request.method == "POST" and form.is_valid() and _saved(request, row, form, stored):
        messages.success(request, f"The probe of {row.slug} is saved.")
        return redirect(reverse("dashboard:circuit", args=[here.slug, row.slug]))
    context = places.frame(here, "board", dependency=row, form=form, stored=stored.spec if stored else None)
    return respond(request, "probe", context, part="page", status=422 if form.is_bound else 200)


def _operation(dependency: Dependency) -> str:
    """What a first probe most likely exercises."""
    first = dependency.tools.order_by("name").first()
    return (first.operation or first.name) if first else dependency.slug


def _saved(request: HttpRequest, dependency: Dependency, form: ProbeForm, stored: Probe | None) -> bool:
    try:
        probes.save_probe(
            dependency=dependency,
            operation=form.cleaned_data["operation"],
            spec=form.spec(stored.spec if stored else {}),
            actor=actor(request),
            now=clock.now(),
            enabled=form.cleaned_data["enabled"],
        )
    except Refused as refused:
        add_refusal(form, refused)
        return False
    return True
