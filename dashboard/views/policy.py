"""The policy editor of a tool, a dependency, a class and a whole environment: each value with its origin, published
with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from recloser.core.policy import Level
from recloser.core.types import SideEffectClass

from controlplane import clock
from controlplane.delivery import resolve
from controlplane.models import Dependency, Environment, PolicyRevision, Tool
from controlplane.permissions import EDIT_POLICY
from controlplane.selectors import circuits
from controlplane.selectors import reviews as review_selector
from controlplane.selectors import tools as selector
from controlplane.services import loosening, policies, reviews
from controlplane.services.errors import Refused
from dashboard import derived, places, policy_form, told, words
from dashboard.access import actor, needs
from dashboard.forms import add_refusal
from dashboard.policy_form import PolicyForm
from dashboard.respond import respond
from dashboard.views.tools import find

PREVIEW, REVIEW = "preview", "review"
CIRCUIT, RUN = "circuit", "run"
ENVIRONMENT = "environment"
LEVELS = PolicyRevision.Level


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose layer is edited: a tool's run policy, a dependency's circuit policy, or one of the two of a layer that
    many go by."""

    environment: Environment
    level: Level
    back: str
    tool: Tool | None = None
    dependency: Dependency | None = None
    side_effect: str = ""
    part: str = ""
    """`circuit` or `run`, of a layer that holds both."""

    @property
    def name(self) -> str:
        """What people call it."""
        if self.part:
            return words.CLASSES[self.side_effect] if self.side_effect else f"all of {self.environment.slug}"
        return self.tool.name if self.tool else str(self.dependency)

    @property
    def policy(self) -> str:
        """`circuit` or `run`."""
        return self.part or (RUN if self.tool else CIRCUIT)

    @property
    def place(self) -> dict[str, Any]:
        """As the service wants to know it."""
        if self.part:
            level = LEVELS.CLASS if self.side_effect else LEVELS.ENVIRONMENT
        else:
            level = LEVELS.TOOL if self.tool else LEVELS.DEPENDENCY
        owned = {"tool": self.tool, "dependency": self.dependency}
        return {"level": level.value, "side_effect": self.side_effect, **owned}

    def own(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Of a revision's values, those that this form holds."""
        return dict(values.get(self.part) or {}) if self.part else dict(values)

    def whole(self, values: Mapping[str, Any], form: Mapping[str, Any]) -> dict[str, Any]:
        """A revision's values with the form's in their place; the other policy of the layer stays as it is."""
        if not self.part:
            return dict(form)
        return {name: part for name, part in {**values, self.part: dict(form)}.items() if part}

    def goes_by(self, row: PolicyRevision) -> bool:
        """Whether a layer counts for what this page shows: below an environment's own, none does."""
        return not self.part or bool(self.side_effect) or row.level == LEVELS.ENVIRONMENT

    def resolved(self, published: resolve.Published) -> Any:
        """What its policy comes to with these layers; an environment's as for what only reads."""
        if self.part:
            character = resolve.Character(SideEffectClass(self.side_effect or SideEffectClass.READ_ONLY), costly=False)
            return published.circuit(None, character) if self.part == CIRCUIT else published.run(None, character)
        if self.tool is not None:
            return published.run(self.tool.pk, resolve.character_of([self.tool]))
        assert self.dependency is not None
        return published.circuit(self.dependency.pk, resolve.character_of(self.dependency.tools.all()))


@require_http_methods(["GET", "HEAD", "POST"])
@needs(EDIT_POLICY)
def tool_policy(request: HttpRequest, environment: str, tool: str) -> HttpResponse:
    """A tool's thresholds, actions and texts inside a run."""
    here = places.named(environment)
    row = find(here, tool).tool
    back = reverse("dashboard:tool", args=[here.slug, row.name])
    return _edit(request, Owner(here, Level.TOOL, back, tool=row))


@require_http_methods(["GET", "HEAD", "POST"])
@needs(EDIT_POLICY)
def dependency_policy(request: HttpRequest, environment: str, dependency: str) -> HttpResponse:
    """The thresholds and timing of a dependency's shared circuit."""
    here = places.named(environment)
    row = places.circuit(here, dependency).dependency
    back = reverse("dashboard:circuit", args=[here.slug, row.slug])
    return _edit(request, Owner(here, Level.CIRCUIT, back, dependency=row))


@needs()
def layers(request: HttpRequest, environment: str) -> HttpResponse:
    """What holds for all of an environment, and for each class of tools in it."""
    here = places.named(environment)
    with circuits.snapshot() as now:
        rows = [_shared_row(here, one) for one in (ENVIRONMENT, *(each.value for each in SideEffectClass))]
        return respond(request, "layers", places.frame(here, "tools", rows=rows, now=now), part="page")


def _shared_row(environment: Environment, layer: str) -> dict[str, Any]:
    owner = _shared(environment, layer, RUN)
    values = published.values if (published := selector.layer(environment, owner.place).published) else {}
    counts = {part: len(values.get(part) or {}) for part in (CIRCUIT, RUN)}
    return {"layer": layer, "name": owner.name, "published": published, **counts}


@require_http_methods(["GET", "HEAD", "POST"])
@needs(EDIT_POLICY)
def layer_policy(request: HttpRequest, environment: str, layer: str, part: str) -> HttpResponse:
    """What holds for a whole environment or for one class in it, in a run or for the shared circuit."""
    here = places.named(environment)
    if layer not in (ENVIRONMENT, *SideEffectClass) or part not in (CIRCUIT, RUN):
        raise Http404(f"There is no policy {layer[:40]!r}, {part[:40]!r}.")
    return _edit(request, _shared(here, layer, part))


def _shared(environment: Environment, layer: str, part: str) -> Owner:
    side_effect = "" if layer == ENVIRONMENT else layer
    level = Level.CIRCUIT if part == CIRCUIT else Level.TOOL if side_effect else Level.ENVIRONMENT
    back = reverse("dashboard:layers", args=[environment.slug])
    return Owner(environment, level, back, side_effect=side_effect, part=part)


def _edit(request: HttpRequest, owner: Owner) -> HttpResponse:
    layer = selector.layer(owner.environment, owner.place)
    revised = _revised(request, owner)
    base = _base_values(request, layer, revised)
    own = owner.own(base)
    form = PolicyForm(owner.level, request.POST or None, own=own)
    if revised:
        form.fields["reason"].initial = revised.reason
    previewing = request.method == "POST" and request.POST.get("do") == PREVIEW
    if previewing:
        form.fields["reason"].required = False
    valid = request.method == "POST" and form.is_valid()
    values = owner.whole(base, form.values) if valid else {}
    needs = loosening.needs(owner.environment, owner.place, values) if valid else []
    if valid and not previewing and (done := _done(request, owner, form, values, needs, revised)):
        return done
    status = 422 if form.is_bound and form.errors else 200
    context = _context(owner, layer, form, own) | {"previewing": previewing and valid, "needs": needs}
    context |= {"base": request.POST.get("base") or layer.number, "revised": revised}
    context["asked"] = bool(needs) and not previewing
    return respond(request, "policy", places.frame(owner.environment, "tools", **context), part="page", status=status)


def _done(
    request: HttpRequest,
    owner: Owner,
    form: PolicyForm,
    values: dict[str, Any],
    needs: list[loosening.Need],
    revised: PolicyRevision | None,
) -> HttpResponse | None:
    """Sent for review or published; None where the form has to be looked at again: nothing was saved then."""
    if request.POST.get("do") == REVIEW:
        return _sent(request, owner, form, values, revised)
    if needs or not _published(request, owner, form, values):
        return None
    messages.success(request, f"The policy of {owner.name} is published. Agents hear of it at once.")
    return redirect(owner.back)


def _sent(
    request: HttpRequest, owner: Owner, form: PolicyForm, values: dict[str, Any], revised: PolicyRevision | None
) -> HttpResponse | None:
    said = {"values": values, "reason": form.cleaned_data["reason"], "actor": actor(request)}
    try:
        if revised is None:
            row = reviews.propose(
                environment=owner.environment, **owner.place, **said, base=_base(request), now=clock.now()
            )
        else:
            row = reviews.submit(revision=reviews.edit(revision=revised, **said), actor=said["actor"], now=clock.now())
    except Refused as refused:
        add_refusal(form, refused)
        return None
    messages.success(request, "It waits for a second person. Nothing has changed yet.")
    return redirect("dashboard:review", owner.environment.slug, row.pk)


def _base(request: HttpRequest) -> int | None:
    text = request.POST.get("base", "")
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _revised(request: HttpRequest, owner: Owner) -> PolicyRevision | None:
    """The change under review that its author takes up again."""
    pk = request.POST.get("review") or request.GET.get("review") or ""
    if not pk.isdecimal() or len(pk) > 18:
        return None
    rows = review_selector.reviews().filter(environment=owner.environment, **owner.place)
    return rows.filter(pk=pk, created_by=actor(request)).first()


def _base_values(request: HttpRequest, layer: selector.Layer, revised: PolicyRevision | None) -> dict[str, Any]:
    """What is edited: the change under review, the layer in force, or an earlier revision to be brought back."""
    if revised:
        return dict(revised.values)
    wanted = request.GET.get("revision", "")
    earlier = next((row for row in layer.revisions if str(row.number) == wanted), None)
    shown = earlier or layer.published
    return dict(shown.values) if shown else {}


def _published(request: HttpRequest, owner: Owner, form: PolicyForm, values: dict[str, Any]) -> bool:
    """Publish, unless somebody was faster: then nothing is overwritten unseen."""
    with transaction.atomic():
        Environment.objects.select_for_update(no_key=True).get(pk=owner.environment.pk)
        number = selector.layer(owner.environment, owner.place).number
        if request.POST.get("base") != str(number):
            form.add_error(
                None, f"Revision {number} was published meanwhile: load the page anew, look, and decide again."
            )
            return False
        try:
            policies.publish(
                environment=owner.environment, **owner.place, values=values, reason=form.cleaned_data["reason"],
                actor=actor(request), now=clock.now(),
            )  # fmt: skip
        except Refused as refused:
            add_refusal(form, refused)
            return False
    return True


def _context(owner: Owner, layer: selector.Layer, form: PolicyForm, own: dict[str, Any]) -> dict[str, Any]:
    rows = PolicyRevision.objects.filter(environment=owner.environment, status=PolicyRevision.Status.PUBLISHED)
    published = [row for row in rows if owner.goes_by(row)]
    above = [row for row in published if layer.published is None or row.pk != layer.published.pk]
    in_force, inherited = (owner.resolved(resolve.Published(rows)) for rows in (published, above))
    values = form.values if form.is_bound and not form.errors else own
    guarded = loosening.guarded(owner.environment, owner.place, policy=owner.policy)
    draft = resolve.Published([*above, _draft(owner, owner.whole({}, values))])
    return {
        "owner": owner,
        "form": form,
        "guarded": guarded,
        "groups": policy_form.rows(form, in_force, inherited, own, guarded),
        "revisions": layer.revisions,
        "number": layer.number,
        "notice": told.preview(owner.tool, draft) if owner.tool else None,
        "proof": _proof(owner, draft),
    }


def _draft(owner: Owner, values: dict[str, Any]) -> PolicyRevision:
    return PolicyRevision(environment=owner.environment, **owner.place, values=values)


def _proof(owner: Owner, draft: resolve.Published) -> derived.Proof | None:
    if owner.tool is None:
        return None
    seen = selector.measured([owner.tool], owner.environment, clock.now())
    return derived.of_tool(owner.resolved(draft).policy, seen)
