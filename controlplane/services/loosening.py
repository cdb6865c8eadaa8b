"""What nobody does alone: a policy or a class that guards a tool less; and what nobody does at all."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from recloser.core.policy import STRICTNESS, Layer, Origin, is_downward, loosened
from recloser.core.texts import SAMPLE, rendered
from recloser.core.types import SideEffectClass
from recloser.core.wording import inviting

from controlplane.delivery import resolve
from controlplane.delivery.resolve import Character
from controlplane.models import Environment, PolicyRevision, Tool
from controlplane.services.errors import Refused

LEVELS = PolicyRevision.Level

Place = Mapping[str, Any]
"""Level and owner of a layer, as a revision holds them."""


def demand_approval(
    environment: Environment, place: Place, values: Mapping[str, Any], *, actor: str, approved_by: str
) -> None:
    """Refuse, unless another person approves, what loosens a class that may have side effects."""
    circuit, run = resolve.split(place["level"], values)
    layer = Layer(Origin(place["level"]), circuit=circuit, run=run)
    for character in sorted(_characters(environment, place), key=lambda each: STRICTNESS.index(each.side_effect)):
        fields = loosened(character.side_effect, layer, costly=character.costly)
        if fields and not is_approved(actor, approved_by):
            raise _unapproved([field.name for field in fields], character.side_effect, approved_by)


def is_approved(actor: str, approved_by: str) -> bool:
    """Whether somebody else than the actor has approved."""
    return approved_by.strip().casefold() not in ("", actor.strip().casefold())


def _characters(environment: Environment, place: Place) -> set[Character]:
    """What the layer is in force for; an environment's also for tools that nobody has named yet."""
    tools = Tool.objects.filter(environment=environment)
    match place["level"]:
        case LEVELS.TOOL:
            return {resolve.character_of([place["tool"]])}
        case LEVELS.DEPENDENCY:
            return {resolve.character_of(place["dependency"].tools.all())}
        case LEVELS.CLASS:
            side_effect = SideEffectClass(place["side_effect"])
            alike = (character for tool in tools if (character := resolve.character_of([tool])))
            return {Character(side_effect, costly=False), *(one for one in alike if one.side_effect is side_effect)}
        case _:
            return {resolve.UNKNOWN, *(resolve.character_of([tool]) for tool in tools)}


def _unapproved(fields: list[str], side_effect: SideEffectClass, approved_by: str) -> Refused:
    own = ", and nobody approves a change of their own" if approved_by.strip() else ""
    verb = "guards" if len(fields) == 1 else "guard"
    message = f"{', '.join(fields)} {verb} less than the class {side_effect} does{own}"
    first = "confirm the tool's class first" if side_effect is SideEffectClass.UNKNOWN else "leave it out"
    return Refused("needs_approval", message, f"{first}, or have another person approve it", fields[0])


def demand_wording(level: str, values: Mapping[str, Any]) -> None:
    """Refuse a text that would lead a model to call again what is gone, once its variables stand in it."""
    _, run = resolve.split(level, values)
    if words := inviting(rendered(run.get("model_text") or "", SAMPLE) or ""):
        mend = "say what to do instead; a plain 'do not call it again' may stand"
        raise Refused("bad_field", f"model_text invites another call: {words!r}", mend, _field(level, "model_text"))


def demand_fallback(environment: Environment, place: Place, values: Mapping[str, Any]) -> None:
    """Refuse a fallback that is not there, or that does more to the world than what it stands in for."""
    _, run = resolve.split(place["level"], values)
    if not (name := run.get("fallback_tool")):
        return
    field = _field(place["level"], "fallback_tool")
    known = {tool.name: tool for tool in Tool.objects.filter(environment=environment)}
    if name not in known:
        raise Refused("unknown_tool", f"{environment.slug} has no tool {name[:60]!r}", _meant(name, known), field)
    if place["tool"] is not None and known[name].pk == place["tool"].pk:
        raise Refused("bad_field", "a tool cannot stand in for itself", "name another tool", field)
    _demand_no_stricter(known[name], _replaced(place), field)


def _demand_no_stricter(fallback: Tool, replaced: SideEffectClass, field: str) -> None:
    stricter = resolve.character_of([fallback]).side_effect
    if is_downward(stricter, replaced):
        mend = "name a tool of the same class or a milder one, or confirm its class"
        message = f"{fallback.name} is handled as {stricter}, which is stricter than {replaced}"
        raise Refused("stricter_fallback", message, mend, field)


def _replaced(place: Place) -> SideEffectClass:
    """The mildest class that the fallback would stand in for."""
    if place["tool"] is not None:
        return resolve.character_of([place["tool"]]).side_effect
    return SideEffectClass(place["side_effect"]) if place["side_effect"] else STRICTNESS[0]


def _meant(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name[:200], list(known), n=1)
    return f"did you mean {near[0]}?" if near else "name the tool first"


def _field(level: str, name: str) -> str:
    return name if level == LEVELS.TOOL else f"run.{name}"


def demand_class(tool: Tool, side_effect: str, *, actor: str, approved_by: str) -> None:
    """Refuse, unless another person approves, to handle a tool of a confirmed class more leniently."""
    before, after = SideEffectClass(tool.side_effect), SideEffectClass(side_effect)
    if tool.class_confirmed and is_downward(before, after) and not is_approved(actor, approved_by):
        message = f"{tool.name} is confirmed as {before}, and {after} is handled more leniently"
        raise Refused("needs_approval", message, "leave it, or have another person approve it", "side_effect")
