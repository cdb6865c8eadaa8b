"""Settings: who reports, whom to tell, which networks may be reached."""

from __future__ import annotations

from typing import Any, TypeVar

from django import forms
from django.db import transaction
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from controlplane import clock
from controlplane.models import Agent, AgentKey, AllowedNetwork, Environment, Worker
from controlplane.permissions import ADMINISTER, QUARANTINE
from controlplane.selectors import access as selector
from controlplane.selectors import circuits
from controlplane.services import access, catalogue, egress, probes, removal
from controlplane.services.errors import Refused
from dashboard import places
from dashboard.access import actor, needs
from dashboard.forms import BareForm, ReasonForm, add_refusal
from dashboard.respond import respond
from dashboard.views import sheets
from dashboard.views.sheets import Sheet

M = TypeVar("M", bound=Model)
editing = require_http_methods(["GET", "HEAD", "POST"])


@needs()
def settings(request: HttpRequest) -> HttpResponse:
    """Everything of one environment that is set by hand."""
    environment = places.chosen(request)
    if environment is None:
        return respond(request, "empty", places.frame(None, "settings"), part="page")
    with circuits.snapshot() as now:
        found = selector.access(environment, now)
        return respond(
            request,
            "settings",
            places.frame(environment, "settings", found=found, control=probes.control_of(environment), now=now),
        )


def _back(environment: Environment) -> str:
    return f"{reverse('dashboard:settings')}?environment={environment.slug}"


def _mine(model: type[M], environment: Environment, pk: int) -> M:
    """A row of this environment, and of no other."""
    row = model._default_manager.filter(environment=environment, pk=pk).first()
    if row is None:
        raise Http404(f"There is no such {model._meta.verbose_name} in {environment.slug}.")
    return row


def _name(target: AgentKey | Worker) -> str:
    return f"worker {target.instance[:80]}" if isinstance(target, Worker) else f"key {target.prefix}"


def _quarantine(request: HttpRequest, here: Environment, target: AgentKey | Worker) -> HttpResponse:
    sheet = Sheet(
        title=f"Quarantine {_name(target)}",
        consequence="Its reports are recorded and not counted, nor those of the present window: it can open no "
        "circuit and keep none closed. Its own agents go on being told what is open.",
        button="Quarantine",
        back=_back(here),
        grave=True,
    )

    def act(data: dict[str, Any]) -> str:
        common = {"actor": actor(request), "reason": data["reason"], "now": clock.now()}
        if isinstance(target, Worker):
            access.quarantine_worker(worker=target, **common)
        else:
            access.quarantine_key(key=target, **common)
        return f"{_name(target).capitalize()} is quarantined."

    return sheets.handle(request, here, sheet, ReasonForm(request.POST or None), act)


def _lift(request: HttpRequest, here: Environment, target: AgentKey | Worker) -> HttpResponse:
    sheet = Sheet(
        title=f"Lift the quarantine of {_name(target)}",
        consequence="From now on its reports count again.",
        button="Lift",
        back=_back(here),
    )

    def act(data: dict[str, Any]) -> str:
        access.lift_quarantine(target=target, actor=actor(request), reason=data["reason"], now=clock.now())
        return f"{_name(target).capitalize()} counts again."

    return sheets.handle(request, here, sheet, ReasonForm(request.POST or None), act)


@editing
@needs(QUARANTINE)
def quarantine_worker(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """Stop counting a worker's evidence."""
    here = places.named(environment)
    return _quarantine(request, here, _mine(Worker, here, pk))


@editing
@needs(QUARANTINE)
def quarantine_key(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """Stop counting a key's evidence."""
    here = places.named(environment)
    return _quarantine(request, here, _mine(AgentKey, here, pk))


@editing
@needs(QUARANTINE)
def lift_worker(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """Count a worker again."""
    here = places.named(environment)
    return _lift(request, here, _mine(Worker, here, pk))


@editing
@needs(QUARANTINE)
def lift_key(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """Count a key again."""
    here = places.named(environment)
    return _lift(request, here, _mine(AgentKey, here, pk))


class KeyForm(forms.Form):
    """Which agent gets a key."""

    agent = forms.ModelChoiceField(Agent.objects.none(), error_messages={"required": "Choose the agent that uses it."})
    label = forms.CharField(max_length=100, required=False, help_text="Where it is kept, such as: staging cluster.")


class AgentForm(forms.Form):
    """A new agent application."""

    slug = forms.CharField(label="Short name", max_length=60, help_text="Letters, digits, - and _, such as: research.")
    name = forms.CharField(max_length=100, help_text="As people call it.")
    owner = forms.CharField(max_length=100, required=False, help_text="The team that answers for it.")


KEY_NOTE = "Copy it now: it is stored as a hash only, and shown this once."


@editing
@needs(ADMINISTER)
def add_agent(request: HttpRequest, environment: str) -> HttpResponse:
    """A new agent with its first key, the lines that it takes, and a word as soon as it reports."""
    here = places.named(environment)
    sheet = Sheet(
        title="Add an agent",
        consequence="It gets its first key at once.",
        button="Add",
        back=_back(here),
        note=KEY_NOTE,
    )
    form = AgentForm(request.POST or None)
    if not form.is_valid():
        return sheets.show(request, here, sheet, form)
    common: dict[str, Any] = {"environment": here, "actor": actor(request), "now": clock.now()}
    with transaction.atomic():
        try:
            agent = catalogue.create_agent(**form.cleaned_data, **common)
        except Refused as refused:  # what the service wrote down of it is kept: the transaction ends well
            add_refusal(form, refused)
            return sheets.show(request, here, sheet, form)
        _, token = access.issue_key(agent=agent, label="first key", **common)
    return sheets.shown_once(request, here, sheet, token, agent=agent)


@editing
@needs(ADMINISTER)
def issue_key(request: HttpRequest, environment: str) -> HttpResponse:
    """A new key, whose token is shown this once."""
    here = places.named(environment)
    sheet = Sheet(title="Issue an agent key", consequence="", button="Issue", back=_back(here), note=KEY_NOTE)
    form = KeyForm(request.POST or None)
    form.fields["agent"].queryset = Agent.objects.filter(environment=here)  # type: ignore[attr-defined]
    if not form.is_valid():
        return sheets.show(request, here, sheet, form)
    data = form.cleaned_data
    _, token = access.issue_key(
        environment=here, agent=data["agent"], label=data["label"], actor=actor(request), now=clock.now()
    )
    return sheets.shown_once(request, here, sheet, token, agent=data["agent"])


@needs()
def heard(request: HttpRequest, environment: str, agent: str) -> HttpResponse:
    """Whether an agent has reported yet; asks again by itself until it has."""
    here = places.named(environment)
    row = Agent.objects.filter(environment=here, slug=agent).first()
    if row is None:
        raise Http404(f"There is no agent {agent[:60]!r} in {here.slug}.")
    context = {"agent": row, "worker": selector.first_heard(row), "environment": here, "now": clock.now()}
    return render(request, "dashboard/settings/_heard.html", context)


@editing
@needs(ADMINISTER)
def revoke_key(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """End a key for good."""
    here = places.named(environment)
    key = _mine(AgentKey, here, pk)
    sheet = Sheet(
        title=f"Revoke key {key.prefix}",
        consequence=f"Every process of {key.agent.slug} that uses it is cut off: it keeps its last documents and "
        "decides alone. This cannot be undone.",
        button="Revoke it",
        back=_back(here),
        grave=True,
    )

    def act(data: dict[str, Any]) -> str:
        access.revoke_key(key=key, actor=actor(request), now=clock.now(), reason=data["reason"])
        return f"Key {key.prefix} is revoked."

    return sheets.handle(request, here, sheet, ReasonForm(request.POST or None), act)


class NetworkForm(ReasonForm):
    """Which private range may be reached, and why."""

    network = forms.CharField(max_length=50, help_text="Such as 10.1.0.0/16.")
    field_order = ("network", "reason")


@editing
@needs(ADMINISTER)
def allow_network(request: HttpRequest, environment: str) -> HttpResponse:
    """Open a private range to probes and webhooks."""
    here = places.named(environment)
    sheet = Sheet(
        title="Allow a private network",
        consequence="Probes and webhooks of every environment may reach every address in it.",
        button="Allow it",
        back=_back(here),
        grave=True,
    )

    def act(data: dict[str, Any]) -> str:
        row = egress.allow_network(
            network=data["network"], reason=data["reason"], actor=actor(request), now=clock.now()
        )
        return f"{row.network} may be reached."

    return sheets.handle(request, here, sheet, NetworkForm(request.POST or None), act)


@editing
@needs(ADMINISTER)
def close_network(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """Take a range back."""
    here = places.named(environment)
    row = AllowedNetwork.objects.filter(pk=pk).first()
    if row is None:
        raise Http404("This network is not allowed any more.")
    sheet = Sheet(
        title=f"Close {row.network}",
        consequence="Probes and webhooks to addresses in it are refused from now on.",
        button="Close it",
        back=_back(here),
    )

    def act(data: dict[str, Any]) -> str:
        egress.close_network(network=row.network, actor=actor(request))
        return f"{row.network} is closed."

    return sheets.handle(request, here, sheet, forms.Form(_posted(request)), act)


@editing
@needs(ADMINISTER)
def remove_agent(request: HttpRequest, environment: str, agent: str) -> HttpResponse:
    """Take away an agent that was named by mistake; one that has reported stays, and says so."""
    here = places.named(environment)
    row = Agent.objects.filter(environment=here, slug=agent).first()
    if row is None:
        raise Http404(f"There is no agent {agent[:60]!r} in {here.slug}.")
    sheet = Sheet(
        title=f"Remove {row.slug}",
        consequence="Only an agent that never reported, and whose keys are revoked, can go. What happened stays.",
        button="Remove",
        back=_back(here),
        grave=True,
    )

    def act(data: dict[str, Any]) -> str:
        removal.remove_agent(agent=row, actor=actor(request))
        return f"{row.slug} is removed."

    return sheets.handle(request, here, sheet, BareForm(request.POST or None), act)


@editing
@needs(ADMINISTER)
def remove_environment(request: HttpRequest, environment: str) -> HttpResponse:
    """Take away an environment in which nothing is left."""
    here = places.named(environment)
    sheet = Sheet(
        title=f"Remove the environment {here.slug}",
        consequence="Only an empty one can go. Its channels and shared policies go with it.",
        button="Remove",
        back=_back(here),
        grave=True,
    )
    form = BareForm(request.POST or None)
    if not form.is_valid():
        return sheets.show(request, here, sheet, form)
    try:
        removal.remove_environment(environment=here, actor=actor(request))
    except Refused as refused:
        add_refusal(form, refused)
        return sheets.show(request, here, sheet, form)
    return sheets.away(request, f"The environment {environment} is removed.", reverse("dashboard:board"))


@editing
@needs(ADMINISTER)
def protection(request: HttpRequest, environment: str) -> HttpResponse:
    """Whether changing what models are told needs a second person there."""
    here = places.named(environment)
    on = not here.protected
    sheet = Sheet(
        title=f"{'Protect' if on else 'Stop protecting'} {here.slug}",
        consequence="From then on whoever changes what models are told, a fallback, or what an answer counts as needs "
        "somebody else who approves."
        if on
        else "From then on one person alone changes what models are told, a fallback, or what an answer counts as. "
        "Loosening a class still needs a second one.",
        button="Protect it" if on else "Stop protecting it",
        back=_back(here),
        grave=not on,
    )

    def act(data: dict[str, Any]) -> str:
        catalogue.edit_environment(environment=here, changes={"protected": on}, actor=actor(request))
        return f"{here.slug} is {'protected' if on else 'not protected any more'}."

    return sheets.handle(request, here, sheet, BareForm(request.POST or None), act)


class ControlForm(forms.Form):
    """What tells a prober that is cut off itself."""

    control_address = forms.CharField(
        max_length=300,
        required=False,
        help_text="host:port that always answers, such as one.example.com:443; off: none is asked. "
        "Empty: the installation's own.",
    )


@editing
@needs(ADMINISTER)
def control_address(request: HttpRequest, environment: str) -> HttpResponse:
    """Which address a prober asks after a bad probe."""
    here = places.named(environment)
    sheet = Sheet(
        title="Control address",
        consequence="After a bad probe it is asked, too. Where it does not answer either, the prober is suspect: the "
        "verdict is inconclusive and the channels are told.",
        button="Save",
        back=_back(here),
    )

    def act(data: dict[str, Any]) -> str:
        changes = {"control_address": data["control_address"].strip()}
        catalogue.edit_environment(environment=here, changes=changes, actor=actor(request))
        return "The control address is saved."

    given = {"control_address": here.control_address}
    return sheets.handle(request, here, sheet, ControlForm(request.POST or None, initial=given), act)


def _posted(request: HttpRequest) -> Any:
    """A form without fields is bound by the method alone."""
    return request.POST if request.method == "POST" else None
