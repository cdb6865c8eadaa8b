"""Tools: which there are, one in full, and its class, owner and dependencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from recloser.core.types import SideEffectClass

from controlplane.delivery import resolve
from controlplane.models import Environment, Tool, ToolChange
from controlplane.permissions import EDIT_POLICY
from controlplane.selectors import circuits, keyset, named, reviews
from controlplane.selectors import tools as selector
from controlplane.selectors.keyset import Order
from controlplane.selectors.tools import ToolRow
from controlplane.services import catalogue, removal, second_person, tool_reviews
from controlplane.services.errors import Refused
from dashboard import addresses, derived, places, policy_rows, told, words
from dashboard.access import actor, needs
from dashboard.forms import BareForm, add_refusal
from dashboard.respond import respond
from dashboard.tool_forms import ToolForm, where_to_propose
from dashboard.views import sheets
from dashboard.views.sheets import Sheet


@needs()
def tools(request: HttpRequest) -> HttpResponse:
    """Every tool of one environment, those that wait for a person first."""
    environment = places.chosen(request)
    if environment is None:
        return respond(request, "empty", places.frame(None, "tools"), part="page")
    with circuits.snapshot() as now:
        by, said = ordered(request)
        place = addresses.key(request, by, selector.COLUMNS, of_id=keyset.number)
        found, said = selector.tools(environment, by=by, after=place), {"environment": environment.slug, **said}
        context = {
            "found": found,
            "waiting": selector.waiting(environment),
            "in_review": reviews.waiting_count(environment),
            "words": said,
            "by": by,
            "next": addresses.query(said, **addresses.place(found.after)) if found.after else "",
            "first": addresses.query(said) if place else "",
            "now": now,
        }
        return respond(request, "tools", places.frame(environment, "tools", **context))


def ordered(request: HttpRequest) -> tuple[Order, dict[str, str]]:
    """The order, and the same as the address has it."""
    return addresses.order(request, selector.COLUMNS, falling=False)


@needs()
def tool(request: HttpRequest, environment: str, tool: str) -> HttpResponse:
    """What it is, what stands behind it, what is decided, its thresholds with origins, what proving it down takes."""
    here = places.named(environment)
    with circuits.snapshot() as now:
        row = find(here, tool)
        published = resolve.published(here.pk)
        context = {
            "row": row,
            "policy_rows": policy_rows.of_run(row.resolved),
            "proof": derived.of_tool(row.policy, selector.measured([row.tool], here, now)),
            "notice": told.preview(row.tool, published),
            "standings": _standings(row, published, now),
            "trips": selector.recent_trips(row.tool),
            "changes": _waiting(row.tool),
            "now": now,
        }
        return respond(request, "tool", places.frame(here, "tools", **context))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A change of the tool that waits, and who may decide it."""

    change: ToolChange
    deciders: list[str]
    moved: bool


def _waiting(tool: Tool) -> list[Waiting]:
    changes = reviews.open_changes(tool)
    people = reviews.deciders() if changes else []
    return [
        Waiting(one, [name for name in people if not second_person.is_own(one, name)], tool_reviews.is_moved(one))
        for one in changes
    ]


def _standings(row: ToolRow, published: resolve.Published, now: Any) -> list[circuits.Standing]:
    """The circuits behind it."""
    rows = circuits.of_environment(row.tool.environment).filter(dependency__in=row.tool.dependencies.all())
    return [
        circuits.standing(
            one,
            published.circuit(one.dependency.pk, resolve.character_of(one.dependency.tools.all())).policy.delivery,
            now,
        )
        for one in rows
    ]


def find(environment: Environment, name: str) -> ToolRow:
    """The tool of that name in that environment; a misspelt one is an error that says what was perhaps meant."""
    row = selector.find(environment, name)
    if row is None:
        try:
            named.tool(environment, name)
        except named.Unknown as unknown:
            raise Http404(f"{words.sentence(unknown.message)}: {unknown.mend}.") from None
        raise Http404(f"There is no tool {name[:60]!r}.")
    return row


@require_http_methods(["GET", "HEAD", "POST"])
@needs(EDIT_POLICY)
def edit_tool(request: HttpRequest, environment: str, tool: str) -> HttpResponse:
    """Confirm a tool's class, name its owner, say what stands behind it."""
    here = places.named(environment)
    row = find(here, tool).tool
    sheet = Sheet(
        title=f"What {row.name} is",
        consequence="Agents hear of it at once. A laxer class brings laxer thresholds; until a class is confirmed "
        "it is handled as a possible side effect.",
        button="Confirm",
        back=reverse("dashboard:tool", args=[here.slug, row.name]),
        section="tools",
        propose=lambda _: where_to_propose(row, form.changes()),
    )
    initial = {
        "side_effect": row.side_effect, "costly": row.costly, "owner": row.owner, "operation": row.operation,
        "dependencies": ", ".join(each.slug for each in row.dependencies.all()),
    }  # fmt: skip
    form = ToolForm(request.POST or None, initial=initial)

    def act(data: dict[str, Any]) -> str:
        catalogue.edit_tool(tool=row, changes=form.changes(), actor=actor(request))
        return f"{row.name} is {words.CLASSES[data['side_effect']]}."

    return sheets.handle(request, here, sheet, form, act)


class ClassForm(forms.Form):
    """The class that a person takes over from the proposal."""

    side_effect = forms.ChoiceField(
        choices=[(each.value, each.value) for each in SideEffectClass], widget=forms.HiddenInput
    )


@require_http_methods(["GET", "HEAD", "POST"])
@needs(EDIT_POLICY)
def confirm_class(request: HttpRequest, environment: str, tool: str) -> HttpResponse:
    """Confirm the class that the name suggests, by one button; the class alone changes."""
    here = places.named(environment)
    found = find(here, tool)
    suggested = found.proposal.side_effect.value if found.proposal else found.tool.side_effect
    sheet = Sheet(
        title=f"{found.tool.name} is {words.CLASSES[suggested]}",
        consequence="Agents hear of it at once, and handle it by this class from then on.",
        button="Confirm",
        back=reverse("dashboard:tool", args=[here.slug, found.tool.name]),
        section="tools",
        propose=lambda data: where_to_propose(found.tool, data),
    )
    form = ClassForm(request.POST or None, initial={"side_effect": suggested})

    def act(data: dict[str, Any]) -> str:
        catalogue.edit_tool(tool=found.tool, changes=data, actor=actor(request))
        return f"{found.tool.name} is {words.CLASSES[data['side_effect']]}."

    return sheets.handle(request, here, sheet, form, act)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(EDIT_POLICY)
def remove_tool(request: HttpRequest, environment: str, tool: str) -> HttpResponse:
    """Take away a tool that was named by mistake; what has a history stays, and says so."""
    here = places.named(environment)
    row = find(here, tool).tool
    sheet = Sheet(
        title=f"Remove {row.name}",
        consequence="Its policy goes with it. A tool that was called within two days, has trips on record, or is some "
        "tool's fallback stays.",
        button="Remove",
        back=f"{reverse('dashboard:tools')}?environment={here.slug}",
        grave=True,
        section="tools",
    )

    form = BareForm(request.POST or None)
    if not form.is_valid():
        return sheets.show(request, here, sheet, form)
    try:
        removal.remove_tool(tool=row, actor=actor(request))
    except Refused as refused:
        add_refusal(form, refused)
        return sheets.show(request, here, sheet, form)
    return sheets.away(request, f"{row.name} is removed.", sheet.back)
