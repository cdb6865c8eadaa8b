"""Changes that would guard a tool less: proposed from its page, looked at by a second person, approved or rejected."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from controlplane import clock
from controlplane.models import Tool, ToolChange
from controlplane.permissions import EDIT_POLICY
from controlplane.selectors import reviews as selector
from controlplane.services import second_person, tool_reviews
from controlplane.services.errors import Refused
from dashboard import places, words
from dashboard.access import actor, needs
from dashboard.forms import add_refusal
from dashboard.respond import respond
from dashboard.tool_forms import GuardForm
from dashboard.views import sheets
from dashboard.views.reviews import DecisionForm, carry_out
from dashboard.views.sheets import Sheet
from dashboard.views.tools import find

Status = ToolChange.Status
FIELDS = {"side_effect": "Side-effect class", "costly": "Each call costs money", "dependencies": "Behind it"}


class ProposalForm(GuardForm):
    """What the tool is to be, and why."""

    reason = forms.CharField(
        max_length=500, strip=True, label="Why", help_text="The second person reads it, and it stays on record.",
        error_messages={"required": "Say why: a second person decides by it."},
        widget=forms.Textarea(attrs={"rows": 2, "autocomplete": "off"}),
    )  # fmt: skip
    review = forms.CharField(required=False, max_length=18, widget=forms.HiddenInput)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(EDIT_POLICY)
def propose(request: HttpRequest, environment: str, tool: str) -> HttpResponse:
    """Ask a second person for a milder class or a looser place; nothing changes by it."""
    here = places.named(environment)
    row = find(here, tool).tool
    revised = _revised(request, row)
    form = ProposalForm(request.POST or None, initial=_initial(request, row, revised))
    sheet = Sheet(
        title=f"Propose what {row.name} is",
        consequence="Nothing changes until somebody else who may edit policies approves it.",
        button="Send for review",
        back=reverse("dashboard:tool", args=[here.slug, row.name]),
        section="tools",
    )
    if not (request.method == "POST" and form.is_valid()):
        return sheets.show(request, here, sheet, form)
    try:
        change = _sent(row, form, revised, actor(request))
    except Refused as refused:
        add_refusal(form, refused)
        return sheets.show(request, here, sheet, form)
    to = reverse("dashboard:tool-review", args=[here.slug, change.pk])
    return sheets.away(request, "It waits for a second person. Nothing has changed yet.", to)


def _sent(tool: Tool, form: ProposalForm, revised: ToolChange | None, by: str) -> ToolChange:
    wanted, reason, now = form.changes(), form.cleaned_data["reason"], clock.now()
    if revised is None:
        return tool_reviews.propose(tool=tool, wanted=wanted, reason=reason, actor=by, now=now)
    edited = tool_reviews.edit(change=revised, wanted=wanted, reason=reason, actor=by)
    return tool_reviews.submit(change=edited, actor=by, now=now)


def _revised(request: HttpRequest, tool: Tool) -> ToolChange | None:
    """The change under review that its author takes up again."""
    pk = request.POST.get("review") or request.GET.get("review") or ""
    if not pk.isdecimal() or len(pk) > 18:
        return None
    return selector.tool_changes().filter(tool=tool, pk=pk, created_by=actor(request)).first()


def _initial(request: HttpRequest, tool: Tool, revised: ToolChange | None) -> dict[str, Any]:
    """What is shown first: the change taken up again, else what an edit was refused for, else the tool as it is."""
    values = tool_reviews.state_of(tool) | (revised.wanted if revised else {})
    shown = values | {"dependencies": ", ".join(values["dependencies"])}
    shown |= {"reason": revised.reason, "review": revised.pk} if revised else {}
    given = {name: request.GET[name][:2000] for name in FIELDS if name in request.GET}
    return shown | given | ({"costly": given["costly"] == "true"} if "costly" in given else {})


@require_safe
@needs()
def review(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """One change: what the tool would be, why that needs a second person, and what became of it."""
    return _page(request, _found(environment, pk), DecisionForm())


@require_POST
@needs(EDIT_POLICY)
def decide(request: HttpRequest, environment: str, pk: int) -> HttpResponse:
    """Approve, reject, withdraw or submit it; what is refused is told on its page, and is on record."""
    row, said = _found(environment, pk), "Approved: the tool is what was proposed, and agents hear of it at once."
    return carry_out(request, row, tool_reviews, {"change": row}, said, _page, "dashboard:tool-review")


def _found(environment: str, pk: int) -> ToolChange:
    here = places.named(environment)
    row = selector.tool_changes().filter(environment=here, pk=pk).first()
    if row is None:
        raise Http404(f"There is no such review in {here.slug}.")
    return row


def _page(request: HttpRequest, row: ToolChange, form: DecisionForm, status: int = 200) -> HttpResponse:
    own, args = second_person.is_own(row, actor(request)), [row.environment.slug, row.tool.name]
    context = {
        "row": row,
        "called": "what a tool is",
        "form": form,
        "own": own,
        "open": row.status in (Status.DRAFT, Status.IN_REVIEW),
        "moved": tool_reviews.is_moved(row) and f"{row.tool.name}, or what guards it, was changed",
        "needs": tool_reviews.needs_of(row),
        "changes": [_line(one) for one in selector.tool_values(row)],
        "decide_url": reverse("dashboard:decide-tool", args=[row.environment.slug, row.pk]),
        "about_url": reverse("dashboard:tool", args=args),
        "editor": f"{reverse('dashboard:propose-tool', args=args)}?review={row.pk}" if own else "",
        "now": clock.now(),
    }
    frame = places.frame(row.environment, "reviews", **context)
    return respond(request, "review", frame, part="page", status=status)


def _line(value: selector.ToolValue) -> dict[str, str]:
    """One value as it is and as it would be, in words."""
    said = {"side_effect": lambda each: words.CLASSES.get(each, each), "costly": lambda each: "yes" if each else "no",
            "dependencies": ", ".join}[value.name]  # fmt: skip
    return {"name": FIELDS[value.name], "before": said(value.before), "after": said(value.after)}
