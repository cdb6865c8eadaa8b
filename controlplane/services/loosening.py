"""What nobody does alone: guard a tool less, or change what models are told where that is protected; and what
nobody does at all."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recloser.core.policy import (
    STRICTNESS,
    TOLD,
    Field,
    Guard,
    Layer,
    Origin,
    altered,
    eased,
    is_downward,
    loosened,
    watched,
)
from recloser.core.texts import SAMPLE, rendered
from recloser.core.types import SideEffectClass
from recloser.core.wording import inviting

from controlplane.delivery import resolve
from controlplane.delivery.resolve import Character
from controlplane.models import Dependency, Environment, PolicyRevision, Tool
from controlplane.services.errors import Refused

LEVELS = PolicyRevision.Level

Place = Mapping[str, Any]
"""Level and owner of a layer, as a revision holds them."""


LOOSENS, ALTERS = "loosens", "alters"


@dataclass(frozen=True, slots=True)
class Need:
    """One reason why a change of policy needs a second person."""

    kind: str
    """`loosens` or `alters`."""
    fields: tuple[str, ...]
    subject: str
    """The class that is guarded less, or the protected environment."""

    @property
    def message(self) -> str:
        """The reason in a sentence's words."""
        one = len(self.fields) == 1
        names = ", ".join(self.fields)
        if self.kind == LOOSENS:
            return f"{names} {'guards' if one else 'guard'} less than the class {self.subject} does"
        told = "changes" if one else "change"
        return f"{names} {told} what models are told or what answers count as, and {self.subject} is protected"


def needs(environment: Environment, place: Place, values: Mapping[str, Any]) -> list[Need]:
    """Why these values need a second person, if they do: what loosens a class that may have side effects, and in a
    protected environment whatever alters what models are told."""
    return [*_loosened(environment, place, values), *_altered(environment, place, values)]


def demand_approval(
    environment: Environment, place: Place, values: Mapping[str, Any], *, actor: str, approved_by: str
) -> None:
    """Refuse, unless another person approves, what needs a second one."""
    if not is_approved(actor, approved_by) and (found := needs(environment, place, values)):
        raise _unapproved(found, approved_by)


def _loosened(environment: Environment, place: Place, values: Mapping[str, Any]) -> list[Need]:
    circuit, run = resolve.split(place["level"], values)
    layer = Layer(Origin(place["level"]), circuit=circuit, run=run)
    found: dict[SideEffectClass, dict[str, None]] = {}
    for character in _characters(environment, place):
        for field in loosened(character.side_effect, layer, costly=character.costly):
            found.setdefault(character.side_effect, {})[field.name] = None
    ordered = sorted(found, key=STRICTNESS.index)
    return [Need(LOOSENS, tuple(found[side_effect]), side_effect.value) for side_effect in ordered]


def _altered(environment: Environment, place: Place, values: Mapping[str, Any]) -> list[Need]:
    if not environment.protected:
        return []
    in_force = PolicyRevision.objects.filter(
        environment=environment, **place, status=PolicyRevision.Status.PUBLISHED
    ).first()
    _, before = resolve.split(place["level"], in_force.values if in_force else {})
    _, after = resolve.split(place["level"], values)
    names = tuple(field.name for field in altered(before, after))
    return [Need(ALTERS, names, environment.slug)] if names else []


def guarded(environment: Environment, place: Place, *, policy: str) -> dict[str, str]:
    """The fields of a layer's `circuit` or `run` policy that a second person has a say in: to loosen, or at all to
    alter."""
    characters = _characters(environment, place)
    found = {
        field.name: LOOSENS
        for each in characters
        for field in watched(each.side_effect, costly=each.costly)
        if field.policy == policy
    }
    return found | (dict.fromkeys(TOLD, ALTERS) if environment.protected and policy == "run" else {})


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


def _unapproved(found: list[Need], approved_by: str) -> Refused:
    own = ", and nobody approves a change of their own" if approved_by.strip() else ""
    unconfirmed = any(need.subject == SideEffectClass.UNKNOWN for need in found)
    first = "confirm the tool's class first" if unconfirmed else "leave it out"
    mend = f"{first}, or send it for review: another person approves it"
    return Refused("needs_approval", "; ".join(need.message for need in found) + own, mend, found[0].fields[0])


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


MILDER, EASES = "milder", "eases"


@dataclass(frozen=True, slots=True)
class ToolNeed:
    """One reason why a change of a tool needs a second person."""

    kind: str
    """`milder` or `eases`."""
    field: str
    """Of the tool: side_effect, costly or dependencies."""
    message: str

    @property
    def fields(self) -> tuple[str, ...]:
        """As the reasons of a policy name them."""
        return (self.field,)


def needs_of_tool(tool: Tool, wanted: Mapping[str, Any]) -> list[ToolNeed]:
    """Why these new values of a tool need a second person, if they do: a class milder than the confirmed one, or
    whatever guards the class that it will have less than now. They are as `tools.wanted` reads them."""
    return [*_milder(tool, wanted), *_eased(tool, wanted)]


def demand_tool(tool: Tool, wanted: Mapping[str, Any], *, actor: str, approved_by: str) -> None:
    """Refuse, unless another person approves, what guards a tool less."""
    if not is_approved(actor, approved_by) and (found := needs_of_tool(tool, wanted)):
        message = "; ".join(need.message for need in found)
        raise Refused("needs_approval", message, _tool_mend(tool, wanted), found[0].field)


def _tool_mend(tool: Tool, wanted: Mapping[str, Any]) -> str:
    if not tool.dependencies.exists():
        return "let it stand behind a dependency of its own first, then send the move for review"
    first = "leave it" if _with_class(tool, wanted).class_confirmed else "confirm the tool's class first"
    return f"{first}, or send it for review: another person approves it"


def _milder(tool: Tool, wanted: Mapping[str, Any]) -> list[ToolNeed]:
    before, after = (SideEffectClass(each.side_effect) for each in (tool, _with_class(tool, wanted)))
    if not (tool.class_confirmed and is_downward(before, after)):
        return []
    message = f"{tool.name} is confirmed as {before}, and {after} is handled more leniently"
    return [ToolNeed(MILDER, "side_effect", message)]


def _eased(tool: Tool, wanted: Mapping[str, Any]) -> list[ToolNeed]:
    """By what it costs and where it stands, given the class that it will have."""
    now = _with_class(tool, wanted)
    then = copy.copy(now)
    then.costly = wanted.get("costly", now.costly)
    stood = list(tool.dependencies.all())
    stands = wanted.get("dependencies", stood)
    if then.costly == now.costly and set(stands) == set(stood):
        return []
    layers = resolve.published(tool.environment_id)
    before, after = _guard(layers, now, stood), _guard(layers, then, stands)
    fields = eased(resolve.character_of([then]).side_effect, before, after)
    return [*_cheaper(tool, [each for each in fields if each.policy == "run"]),
            *_moved(tool, stood, [each for each in fields if each.policy == "circuit"])]  # fmt: skip


def _cheaper(tool: Tool, fields: list[Field]) -> list[ToolNeed]:
    if not fields:
        return []
    return [ToolNeed(EASES, "costly", f"no longer costly, {_guarding(fields)} {tool.name} less than now")]


def _moved(tool: Tool, stood: list[Dependency], fields: list[Field]) -> list[ToolNeed]:
    if not fields:
        return []
    than = "where it stands" if stood else "its class does"
    return [ToolNeed(EASES, "dependencies", f"behind those, {_guarding(fields)} {tool.name} less than {than}")]


def _guarding(fields: list[Field]) -> str:
    return f"{', '.join(each.name for each in fields)} {'guards' if len(fields) == 1 else 'guard'}"


def _with_class(tool: Tool, wanted: Mapping[str, Any]) -> Tool:
    """As it would be of the class that is wanted."""
    then = copy.copy(tool)
    then.side_effect = wanted.get("side_effect", tool.side_effect)
    then.class_confirmed = wanted.get("class_confirmed", tool.class_confirmed)
    return then


def _guard(layers: resolve.Published, tool: Tool, behind: Iterable[Dependency]) -> Guard:
    """What protects its calls if it stands behind these."""
    run = layers.run(tool.pk, resolve.character_of([tool])).policy
    return Guard(run, tuple(layers.circuit(row.pk, _character_with(row, tool)).policy for row in behind))


def _character_with(dependency: Dependency, tool: Tool) -> Character:
    return resolve.character_of([*dependency.tools.exclude(pk=tool.pk), tool])


def demand_fallback_of(tool: Tool, wanted: Mapping[str, Any]) -> None:
    """Refuse a class that is milder than what stands in for the tool."""
    then = _with_class(tool, wanted)
    character = resolve.character_of([then])
    name = resolve.published(tool.environment_id).run(tool.pk, character).policy.fallback_tool
    if name and (fallback := Tool.objects.filter(environment=tool.environment_id, name=name).first()):
        _demand_no_stricter(fallback, character.side_effect, "side_effect")
