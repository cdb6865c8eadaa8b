"""Changes of policy that wait for a second person: the list, and one with its diff, to approve or to reject."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from controlplane import clock
from controlplane.models import PolicyRevision
from controlplane.permissions import EDIT_POLICY
from controlplane.selectors import circuits
from controlplane.selectors import reviews as selector
from controlplane.services import policies, reviews, second_person
from controlplane.services.errors import Refused
from dashboard import places, policy_form, told, words
from dashboard.access import actor, needs
from dashboard.forms import add_refusal
from dashboard.respond import respond
from dashboard.views.policy import CIRCUIT, RUN

Status = PolicyRevision.Status


@needs()
def waiting(request: HttpRequest) -> HttpResponse:
    """What waits in one environment, one's own drafts, and what was decided."""
    environment = places.chosen(request)
    if environment is None:
        return respond(request, "empty", places.frame(None, "tools"), part="page")
    with circuits.snapshot() as now:
        context = {
            "waiting": selector.waiting(environment),
            "drafts": selector.drafts(environment, actor(request)),
            "ended": selector.ended(environment),
            "now": now,
        }
        return respond(request, "reviews", places.frame(environment, "reviews", **context))


class DecisionForm(forms.Form):
    """Yes or no, to exactly this content."""

    do = forms.ChoiceField(choices=[(each, each) for each in ("approve", "reject", "withdraw", "submit")])
    content_hash = forms.CharField(max_length=64)
    reason = forms.CharField(
        label="A word to the record",
        max_length=500,
        required=False,
        strip=True,
        widget=forms.Textarea(attrs={"rows": 2, "autocomplete": "off"}),
        help_text="A rejection says what would have to be different.",
    )


@require_safe
@needs()
def review(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """One change: what it does, why it needs a second person, and what became of it."""
    return _page(request, _found(environment, pk), DecisionForm())


@require_POST
@needs(EDIT_POLICY)
def decide(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """Approve, reject, withdraw or submit it; what is refused is told on its page, and is on record."""
    row, said = _found(environment, pk), "Approved: it is in force, and agents hear of it at once."
    return carry_out(request, row, reviews, {"revision": row}, said, _page, "dashboard:review")


def carry_out(
    request: HttpRequest,
    row: Any,
    service: Any,
    named: dict[str, Any],
    approved: str,
    page: Callable[..., HttpResponse],
    shown_at: str,
) -> HttpResponse:
    """Do with a change under review what the form says; `service` has the four deeds, and takes the row as `named`."""
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return page(request, row, form, status=422)
    try:
        text = _decided(service, named, form.cleaned_data, actor(request), approved)
    except Refused as refused:
        add_refusal(form, refused)
        row.refresh_from_db()
        return page(request, row, form, status=409)
    messages.success(request, text)
    return redirect(shown_at, row.environment.slug, row.pk)


def _decided(service: Any, named: dict[str, Any], said: dict[str, Any], by: str, approved: str) -> str:
    known = {**named, "actor": by, "now": clock.now()}
    match said["do"]:
        case "approve":
            service.approve(**known, content_hash=said["content_hash"], reason=said["reason"])
            return approved
        case "reject":
            service.reject(**known, reason=said["reason"])
            return "Rejected. Nothing has changed."
        case "withdraw":
            service.withdraw(**known, reason=said["reason"])
            return "Taken back. Nothing has changed."
    service.submit(**known)
    return "It waits for a second person. Nothing has changed yet."


def _found(environment: str, pk: int) -> PolicyRevision:
    here = places.named(environment)
    row = selector.reviews().filter(environment=here, pk=pk).first()
    if row is None:
        raise Http404(f"There is no such review in {here.slug}.")
    return row


def _page(request: HttpRequest, row: PolicyRevision, form: DecisionForm, status: int = 200) -> HttpResponse:
    own = second_person.is_own(row, actor(request))
    context = {
        "row": row,
        "called": f"revision {row.number}",
        "decide_url": reverse("dashboard:decide", args=[row.environment.slug, row.pk]),
        "form": form,
        "own": own,
        "open": row.status in (Status.DRAFT, Status.IN_REVIEW),
        "moved": reviews.is_moved(row) and "Another revision came into force",
        "needs": reviews.needs_of(row),
        "changes": [_line(change, row) for change in selector.changes(row)],
        "notice": _notice(row),
        "editor": _editor(row) if own else "",
        "now": clock.now(),
    }
    frame = places.frame(row.environment, "reviews", **context)
    return respond(request, "review", frame, part="page", status=status)


def _line(change: selector.Change, row: PolicyRevision) -> dict[str, str]:
    """One value as it is and as it would be, in words."""
    both = row.level in (PolicyRevision.Level.ENVIRONMENT, PolicyRevision.Level.CLASS)
    return {
        "name": words.sentence(change.name.replace("_", " ")),
        "part": {"circuit": "shared circuit", "run": "in a run"}[change.part] if both else "",
        "help": change.field.help,
        "before": _said(change, change.before),
        "before_origin": change.before_origin,
        "after": _said(change, change.after),
        "after_origin": change.after_origin,
    }


def _said(change: selector.Change, value: Any) -> str:
    return policy_form.text_of(change.field, value) or "none"


def _notice(row: PolicyRevision) -> str | None:
    """What the model would read, where it is a tool's policy."""
    if row.tool is None or row.status not in (Status.DRAFT, Status.IN_REVIEW):
        return None
    return told.preview(row.tool, policies.with_layer(row.environment, policies.place_of(row), row.values))


def _editor(row: PolicyRevision) -> str:
    """Where its author changes it."""
    owner = row.tool or row.dependency
    if owner is None:
        part = CIRCUIT if row.values.get(CIRCUIT) else RUN
        args = [row.environment.slug, row.side_effect or row.level, part]
        return f"{reverse('dashboard:layer-policy', args=args)}?review={row.pk}"
    page = "tool-policy" if row.tool else "dependency-policy"
    return f"{reverse(f'dashboard:{page}', args=[row.environment.slug, str(owner)])}?review={row.pk}"
