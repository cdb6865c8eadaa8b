"""The probe of one dependency: its editor, and trying it out before it is needed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from controlplane import clock
from controlplane.models import Dependency, Environment, Probe, ProbeTest
from controlplane.permissions import OPERATE
from controlplane.probe_spec import KINDS
from controlplane.services import probes
from controlplane.services.errors import Refused
from dashboard import places
from dashboard.access import actor, needs
from dashboard.forms import add_refusal
from dashboard.probe_form import ProbeForm, form_for
from dashboard.respond import respond
from dashboard.views import sheets

editing = require_http_methods(["GET", "HEAD", "POST"])

PATIENCE = timedelta(seconds=45)
"""A try-out without an answer by then will have none."""


@editing
@needs(OPERATE)
def probe(request: HttpRequest, environment: str, dependency: str) -> HttpResponse:
    """Show the form, save what it says, or have it tried out."""
    here = places.named(environment)
    row = places.circuit(here, dependency).dependency
    stored = Probe.objects.filter(dependency=row).first()
    chosen = request.POST.get("kind") or request.GET.get("kind", "")
    form = form_for(request.POST or None, stored, _operation(row), chosen)
    if request.method == "POST" and form.is_valid():
        trying = request.POST.get("do") == "test"
        answer = _tried(request, here, row, form) if trying else _saved(request, here, row, form)
        if answer is not None:
            return answer
    kinds = [(each.KIND, each.LABEL, each is form.kind) for each in KINDS.values()]
    context = places.frame(here, "board", dependency=row, form=form, stored=stored, kinds=kinds)
    response = respond(request, "probe", context, part="_form", status=422 if form.is_bound else 200)
    if form.is_bound:
        response["HX-Retarget"], response["HX-Reswap"] = "#probe-form", "outerHTML"
    return response


def _operation(dependency: Dependency) -> str:
    """What a first probe most likely exercises."""
    first = dependency.tools.order_by("name").first()
    return (first.operation or first.name) if first else dependency.slug


def _saved(request: HttpRequest, here: Environment, row: Dependency, form: ProbeForm) -> HttpResponse | None:
    """Back to the circuit, or None with the refusal in the form."""
    try:
        probes.save_probe(
            dependency=row,
            operation=form.cleaned_data["operation"],
            enabled=form.cleaned_data["enabled"],
            ask_from=form.cleaned_data["ask_from"] or None,
            heartbeat_s=form.cleaned_data["heartbeat_s"],
            **_asked(request, form),
        )
    except Refused as refused:
        add_refusal(form, refused)
        return None
    messages.success(request, f"The probe of {row.slug} is saved.")
    return redirect(reverse("dashboard:circuit", args=[here.slug, row.slug]))


def _tried(request: HttpRequest, here: Environment, row: Dependency, form: ProbeForm) -> HttpResponse | None:
    """The page of the try-out, or None with the refusal in the form."""
    try:
        test = probes.test_now(dependency=row, **_asked(request, form))
    except Refused as refused:
        add_refusal(form, refused)
        return None
    return redirect(reverse("dashboard:probe-test", args=[here.slug, row.slug, test.pk]))


def _asked(request: HttpRequest, form: ProbeForm) -> dict[str, Any]:
    return {
        "kind": form.kind.KIND,
        "spec": form.spec(),
        **form.secrets(),
        "actor": actor(request),
        "now": clock.now(),
    }


@needs(OPERATE)
def probe_test(request: HttpRequest, environment: str, dependency: str, test_id: UUID) -> HttpResponse:
    """One try-out: what was asked, what came back, each condition's verdict; it asks again by itself until it knows."""
    here = places.named(environment)
    row = places.circuit(here, dependency).dependency
    test = ProbeTest.objects.filter(pk=test_id, dependency=row).first()
    if test is None:
        raise Http404("There is no such try-out; they are kept for an hour.")
    now = clock.now()
    given_up = test.finished_at is None and now - test.asked_at > PATIENCE
    kind = KINDS[test.kind].LABEL
    context = {"dependency": row, "test": test, "kind": kind, "given_up": given_up, "now": now}
    return respond(request, "probe_test", places.frame(here, "board", **context), part="_result")


@editing
@needs(OPERATE)
def remove_probe(request: HttpRequest, environment: str, dependency: str) -> HttpResponse:
    """From now on nothing but a permit tests this dependency."""
    here = places.named(environment)
    row = places.circuit(here, dependency).dependency
    sheet = sheets.Sheet(
        title=f"Remove the probe of {row.slug}",
        consequence="While its circuit is open, only a later run's permit can test it, and none where its tools have "
        "side effects. The stored secrets are forgotten.",
        button="Remove it",
        back=reverse("dashboard:circuit", args=[here.slug, row.slug]),
        grave=True,
        section="board",
    )

    def act(data: dict[str, Any]) -> str:
        probes.remove_probe(dependency=row, actor=actor(request))
        return f"{row.slug} has no probe any more."

    return sheets.handle(request, here, sheet, forms.Form(request.POST if request.method == "POST" else None), act)
