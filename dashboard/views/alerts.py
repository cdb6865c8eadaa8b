"""Alerts: whom they go to, and what became of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from controlplane import clock
from controlplane.models import AlertChannel, AlertDelivery, Environment
from controlplane.permissions import ADMINISTER, OPERATE
from controlplane.selectors import alerts as selector
from controlplane.selectors import circuits
from controlplane.services import alert_takers, alert_tests
from controlplane.services import alerts as service
from controlplane.services.errors import Refused
from dashboard import addresses, places, words
from dashboard.access import actor, needs
from dashboard.forms import CausesForm, DeedForm, add_refusal
from dashboard.respond import Undo, respond
from dashboard.views import sheets
from dashboard.views.sheets import Sheet

editing = require_http_methods(["GET", "HEAD", "POST"])
STATUSES = tuple(AlertDelivery.Status.values)


@needs()
def alerts(request: HttpRequest) -> HttpResponse:
    """Channels and deliveries, those that were given up a tab away."""
    environment = places.chosen(request)
    if environment is None:
        return respond(request, "empty", places.frame(None, "alerts"), part="page")
    (by, ordered), (wanted, asked) = addresses.order(request, selector.COLUMNS), filtered(request, environment)
    place, asked = addresses.key(request, by, selector.COLUMNS), asked | ordered
    with circuits.snapshot() as now:
        found = selector.alerts(environment, wanted, by=by, after=place)
        context = {
            "found": found,
            "status": wanted.status,
            "tabs": [(one, addresses.query(asked, status=one), one == wanted.status) for one in ("", *STATUSES)],
            "words": asked,
            "by": by,
            "next": addresses.query(asked, **addresses.place(found.after)) if found.after else "",
            "first": addresses.query(asked) if place else "",
            "now": now,
        }
        return respond(request, "alerts", places.frame(environment, "alerts", **context))


def filtered(request: HttpRequest, environment: Environment) -> tuple[selector.Filter, dict[str, str]]:
    """Which messages are wanted, and the same as the address has it."""
    status, channel = addresses.choice(request, "status", STATUSES), _id(request.GET.get("channel", ""))
    told = {"environment": environment.slug, "status": status, "channel": "" if channel is None else str(channel)}
    return selector.Filter(status, channel), told


def _id(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


def _back(environment: Environment) -> str:
    return f"{reverse('dashboard:alerts')}?environment={environment.slug}"


def _channel(environment: Environment, pk: int) -> AlertChannel:
    row = AlertChannel.objects.filter(environment=environment, pk=pk).select_related("environment").first()
    if row is None:
        raise Http404(f"There is no such channel in {environment.slug}.")
    return row


class ChannelForm(forms.Form):
    """Whom to tell, and how."""

    kind = forms.ChoiceField(choices=AlertChannel.Kind.choices)
    name = forms.CharField(max_length=100, help_text="The people who read it, such as: search team.")
    target = forms.CharField(
        label="Address",
        max_length=500,
        help_text="https://… for a webhook; name@host for e-mail; #oncall or the like for Slack; "
        "https://events.pagerduty.com/v2/enqueue for PagerDuty.",
    )
    secret = forms.CharField(
        required=False,
        max_length=500,
        empty_value=None,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="The incoming webhook's address for Slack, the integration key for PagerDuty. Leave it empty for a "
        "webhook: one is made. Stored encrypted, never shown again.",
    )


class ChannelEdit(ChannelForm):
    """A channel as it stands; an empty secret keeps the stored one."""

    enabled = forms.BooleanField(required=False, label="Switched on")


def _save(request: HttpRequest, here: Environment, sheet: Sheet, form: forms.Form, **more: Any) -> HttpResponse:
    """Save it; a webhook's new signing secret is shown this once."""
    if not form.is_valid():
        return sheets.show(request, here, sheet, form)
    try:
        channel, secret = service.save_channel(
            environment=here, actor=actor(request), now=clock.now(), **form.cleaned_data, **more
        )
    except Refused as refused:
        add_refusal(form, refused)
        return sheets.show(request, here, sheet, form)
    if secret:
        return sheets.shown_once(request, here, sheet, secret)
    told = "is told from now on" if channel.enabled else "is switched off"
    return sheets.done(request, f"{channel.name} {told}.", sheet.back)


SIGNING_NOTE = "The secret that signs each message. Give it to the receiver now: it is not shown again."


@editing
@needs(ADMINISTER)
def add_channel(request: HttpRequest, environment: str) -> HttpResponse:
    """A new channel for this environment's alerts."""
    here = places.named(environment)
    sheet = Sheet(
        title="Add an alert channel",
        consequence="It is told once when a circuit opens, locks out and closes.",
        button="Add",
        back=_back(here),
        note=SIGNING_NOTE,
        section="alerts",
    )
    return _save(request, here, sheet, ChannelForm(request.POST or None))


@editing
@needs(ADMINISTER)
def edit_channel(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """Another name or address, or off and on."""
    here = places.named(environment)
    channel = _channel(here, pk)
    sheet = Sheet(
        title=f"Change {channel.name}",
        consequence="Messages that wait go to the new address. Switched off, it is told of nothing new.",
        button="Save",
        back=_back(here),
        note=SIGNING_NOTE,
        section="alerts",
    )
    initial = {name: getattr(channel, name) for name in ("kind", "name", "target", "enabled")}
    return _save(request, here, sheet, ChannelEdit(request.POST or None, initial=initial), channel=channel)


@editing
@needs(ADMINISTER)
def remove_channel(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """Nobody is told by it any more."""
    here = places.named(environment)
    channel = _channel(here, pk)
    sheet = Sheet(
        title=f"Remove {channel.name}",
        consequence="Nobody is told by this channel any more; its unsent messages are dropped, and its record with it.",
        button="Remove it",
        back=_back(here),
        grave=True,
        section="alerts",
    )

    def act(data: dict[str, Any]) -> str:
        service.remove_channel(channel=channel, actor=actor(request))
        return f"{channel.name} is removed."

    return sheets.handle(request, here, sheet, DeedForm(request.POST or None), act)


@editing
@needs(ADMINISTER)
def test_channel(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """Send one message that says that it is a test."""
    here = places.named(environment)
    channel = _channel(here, pk)
    sheet = Sheet(
        title=f"Try {channel.name} out",
        consequence=f"One message that says that it is a test goes to {channel.target}. What becomes of it is listed "
        "with the others.",
        button="Send a test",
        back=_back(here),
        section="alerts",
    )

    def act(data: dict[str, Any]) -> str:
        alert_tests.send_test(channel=channel, actor=actor(request), now=clock.now())
        return f"A test is on its way to {channel.name}."

    return sheets.handle(request, here, sheet, DeedForm(request.POST or None), act)


@editing
@needs(OPERATE)
def acknowledge(request: HttpRequest, environment: str) -> HttpResponse:
    """Say that somebody is on alerts that are no outage."""
    sheet = Sheet(
        title="Acknowledge",
        consequence="Everyone sees that you are on it. It leaves the Board, and stands here until it is over.",
        button="Acknowledge",
        back="",
        section="alerts",
    )
    return _take(request, environment, sheet, act_on=alert_takers.acknowledge, opposite="hand-back-alerts")


@editing
@needs(OPERATE)
def hand_back(request: HttpRequest, environment: str) -> HttpResponse:
    """Take that back."""
    sheet = Sheet(
        title="Hand back",
        consequence="It stands on the Board as one that nobody has taken. Nothing else changes.",
        button="Hand it back",
        back="",
        section="alerts",
    )
    return _take(request, environment, sheet, act_on=alert_takers.hand_back, opposite="acknowledge-alerts")


_TAKEN = {"hand-back-alerts": "acknowledged", "acknowledge-alerts": "handed back"}
_UNDO = {"hand-back-alerts": "Hand back", "acknowledge-alerts": "Acknowledge"}


def _take(
    request: HttpRequest, environment: str, sheet: Sheet, *, act_on: Callable[..., int], opposite: str
) -> HttpResponse:
    """Take alerts, or hand them back: which ones the form says, for those alone were seen."""
    here = places.named(environment)
    form = CausesForm(request.POST or None, initial={"causes": request.GET.get("causes", "")[:2000]})

    def act(data: dict[str, Any]) -> str:
        act_on(environment=here, causes=data["causes"], actor=actor(request), reason=data["reason"], now=clock.now())
        return f"{words.plural(len(data['causes']), 'alert')} {_TAKEN[opposite]}."

    def undo(data: dict[str, Any]) -> Undo:
        address = reverse(f"dashboard:{opposite}", args=[here.slug])
        causes = ",".join(str(pk) for pk in data["causes"])
        return Undo(f"{address}?causes={causes}", _UNDO[opposite])

    return sheets.handle(request, here, replace(sheet, back=_back(here), undo=undo), form, act)


@editing
@needs(OPERATE)
def resend(request: HttpRequest, environment: str, delivery_id: UUID) -> HttpResponse:
    """Send a message again, dead or sent: its receiver keeps one record."""
    here = places.named(environment)
    row = AlertDelivery.objects.filter(pk=delivery_id, channel__environment=here).select_related("channel").first()
    if row is None:
        raise Http404(f"There is no such message in {here.slug}.")
    sheet = Sheet(
        title=f"Send it to {row.channel.name} again",
        consequence="The same message under the same id, so a receiver that has it keeps one record.",
        button="Send again",
        back=_back(here),
        section="alerts",
    )

    def act(data: dict[str, Any]) -> str:
        service.resend(delivery_id=row.pk, actor=actor(request), now=clock.now())
        return f"The message to {row.channel.name} is on its way again."

    return sheets.handle(request, here, sheet, DeedForm(request.POST or None), act)
