"""People and the audit: who may sign in, and what was done and refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from controlplane.models import Environment, User
from controlplane.models.access import Role
from controlplane.permissions import ADMINISTER
from controlplane.selectors import circuits
from controlplane.selectors import people as selector
from controlplane.selectors.keyset import Order
from controlplane.services import people as service
from controlplane.services.errors import Refused
from dashboard import addresses, places, spans
from dashboard.access import actor, needs
from dashboard.forms import BareForm, DeedForm, add_refusal
from dashboard.respond import respond, rights
from dashboard.views import sheets
from dashboard.views.sheets import Sheet

editing = require_http_methods(["GET", "HEAD", "POST"])


@needs(ADMINISTER)
def people(request: HttpRequest) -> HttpResponse:
    """Everyone who may sign in, with their roles."""
    environment = places.chosen(request)
    with circuits.snapshot() as now:
        context = {"people": selector.people(), "now": now}
        return respond(request, "people", places.frame(environment, "settings", **context))


def _here(request: HttpRequest) -> Environment:
    """People belong to no environment; their sheets lie over the page of one."""
    environment = places.chosen(request)
    if environment is None:
        raise Http404("There is no environment yet.")
    return environment


def _person(pk: int) -> User:
    row = User.objects.filter(pk=pk).first()
    if row is None:
        raise Http404("There is no such person.")
    return row


ROLE_HELP = "Viewer reads. On-call operates circuits. Product owner edits policies. Admin does all of it."


class RoleForm(DeedForm):
    """What a person is trusted with."""

    role = forms.ChoiceField(choices=Role.choices, help_text=ROLE_HELP)
    reason = None  # type: ignore[assignment]


class PersonForm(RoleForm):
    """Somebody new."""

    username = forms.CharField(label="Name", max_length=150, help_text="What they sign in with.")
    email = forms.EmailField(label="E-mail", required=False)
    field_order = ("username", "email", "role")


@editing
@needs(ADMINISTER)
def add_person(request: HttpRequest) -> HttpResponse:
    """Let somebody in; the first password is shown this once."""
    sheet = Sheet(
        title="Add a person",
        consequence="",
        button="Add",
        back=reverse("dashboard:people"),
        note="Their first password. Hand it over now: it is stored as a hash only, and shown this once.",
    )
    form = PersonForm(request.POST or None)
    if not form.is_valid():
        return sheets.show(request, _here(request), sheet, form)
    data = form.cleaned_data
    try:
        _, password = service.add(
            username=data["username"], email=data["email"], role=data["role"], actor=actor(request)
        )
    except Refused as refused:
        add_refusal(form, refused)
        return sheets.show(request, _here(request), sheet, form)
    return sheets.shown_once(request, _here(request), sheet, password)


@editing
@needs(ADMINISTER)
def change_role(request: HttpRequest, pk: int) -> HttpResponse:
    """Trust a person with something else."""
    row = _person(pk)
    sheet = Sheet(
        title=f"The role of {row.username}",
        consequence="It holds from the next click on, in open pages and for tokens too.",
        button="Save",
        back=reverse("dashboard:people"),
    )

    def act(data: dict[str, Any]) -> str:
        service.change_role(person=row, role=data["role"], actor=actor(request))
        return f"{row.username} is {Role(data['role']).label.lower()}."

    form = RoleForm(request.POST or None, initial={"role": row.role})
    return sheets.handle(request, _here(request), sheet, form, act)


@editing
@needs(ADMINISTER)
def switch_person(request: HttpRequest, pk: int) -> HttpResponse:
    """End a person's access, or give it back."""
    row = _person(pk)
    off = row.is_active
    sheet = Sheet(
        title=f"Switch {row.username} {'off' if off else 'on'}",
        consequence="They are signed out everywhere, and their tokens are revoked; what they did stays on record."
        if off
        else "They may sign in again, with their old password and role; tokens they make anew.",
        button=f"Switch {'off' if off else 'on'}",
        back=reverse("dashboard:people"),
        grave=off,
    )

    def act(data: dict[str, Any]) -> str:
        (service.switch_off if off else service.switch_on)(person=row, actor=actor(request))
        return f"{row.username} {'may not sign in any more' if off else 'may sign in again'}."

    return sheets.handle(request, _here(request), sheet, BareForm(request.POST or None), act)


@editing
@needs(ADMINISTER)
def new_password(request: HttpRequest, pk: int) -> HttpResponse:
    """For somebody who has lost theirs."""
    row = _person(pk)
    sheet = Sheet(
        title=f"A new password for {row.username}",
        consequence="The old one ends at once, and every sign-in with it.",
        button="Make one",
        back=reverse("dashboard:people"),
        grave=True,
        note="Hand it over now: it is stored as a hash only, and shown this once.",
    )
    form = BareForm(request.POST or None)
    if not form.is_valid():
        return sheets.show(request, _here(request), sheet, form)
    return sheets.shown_once(request, _here(request), sheet, service.new_password(person=row, actor=actor(request)))


@needs()
def audit(request: HttpRequest) -> HttpResponse:
    """What people did and were refused; what belongs to no environment is for admins."""
    environment = places.chosen(request)
    if environment is None:
        return respond(request, "empty", places.frame(None, "settings"), part="page")
    with circuits.snapshot() as now:
        wanted, words = filtered(request, environment, now)
        below, oldest = request.GET.get("below", ""), request.GET.get("order") == "id"
        start = int(below) if below.isdecimal() and len(below) < 19 else None
        found = selector.audit(environment, wanted, oldest=oldest, below=start)
        words["order"] = "id" if oldest else ""
        context = {
            "found": found,
            "wanted": wanted,
            "words": words,
            "by": Order("id", falling=not oldest),
            "withins": spans.choices(),
            "next": addresses.query(words, below=found.below) if found.below else "",
            "first": addresses.query(words) if below else "",
            "now": now,
        }
        return respond(request, "audit", places.frame(environment, "settings", **context))


def filtered(request: HttpRequest, environment: Environment, now: datetime) -> tuple[selector.Filter, dict[str, str]]:
    """The filter, and the same as the address has it."""
    span = spans.read(request.GET, now)
    values = {name: addresses.text(request, name) for name in ("actor", "action", "target")}
    values["accepted"] = addresses.choice(request, "accepted", ("yes", "no"))
    everywhere = bool(rights(request)["may_administer"])
    wanted = selector.Filter(**values, everywhere=everywhere, since=span.since, until=span.until)
    return wanted, {"environment": environment.slug, **values, **span.words}
