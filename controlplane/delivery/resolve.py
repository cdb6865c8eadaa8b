"""The published revisions of an environment as the core's layers: what a dependency's and a tool's policy come to.

Agents' documents are made from this, and the pages that show each value with its origin use it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from recloser.core.policy import (
    CIRCUIT_FIELDS,
    RUN_FIELDS,
    CircuitPolicy,
    Layer,
    Origin,
    Resolved,
    RunPolicy,
    handled_as,
    resolve_circuit,
    resolve_run,
    strictest,
)
from recloser.core.types import SideEffectClass

from controlplane.models import Dependency, PolicyRevision, Tool

_ORIGINS = {
    PolicyRevision.Level.ENVIRONMENT: Origin.ENVIRONMENT,
    PolicyRevision.Level.CLASS: Origin.CLASS,
    PolicyRevision.Level.DEPENDENCY: Origin.DEPENDENCY,
    PolicyRevision.Level.TOOL: Origin.TOOL,
}


@dataclass(frozen=True, slots=True)
class Character:
    """What a class preset is chosen by."""

    side_effect: SideEffectClass
    costly: bool


UNKNOWN = Character(SideEffectClass.UNKNOWN, costly=False)


def character_of(tools: Iterable[Tool]) -> Character:
    """A dependency's: of several tools the strictest class gives the preset, and one costly tool makes it costly.

    What an agent's key only claims to stand before it shapes nothing where an operator has named a tool.
    """
    given = list(tools)
    known = [tool for tool in given if _is_an_operators(tool)] or given
    return Character(strictest(_class_of(tool) for tool in known), costly=any(tool.costly for tool in known))


def _is_an_operators(tool: Tool) -> bool:
    return tool.discovered_by_id is None or tool.class_confirmed


def _class_of(tool: Tool) -> SideEffectClass:
    return handled_as(SideEffectClass(tool.side_effect), confirmed=tool.class_confirmed)


class Published:
    """The published layers of one environment, read once and asked often."""

    def __init__(self, revisions: Iterable[PolicyRevision]) -> None:
        self._layers = {_place(row): _layer(row) for row in revisions}

    def circuit(self, dependency_id: int | None, character: Character = UNKNOWN) -> Resolved[CircuitPolicy]:
        """A dependency's circuit policy, with each value's origin; None: of one that nobody has named yet."""
        places = [*self._shared(character), (PolicyRevision.Level.DEPENDENCY, "", dependency_id, None)]
        return resolve_circuit(self._present(places), side_effect_class=character.side_effect, costly=character.costly)

    def run(self, tool_id: int | None, character: Character = UNKNOWN) -> Resolved[RunPolicy]:
        """A tool's run policy, likewise."""
        places = [*self._shared(character), (PolicyRevision.Level.TOOL, "", None, tool_id)]
        return resolve_run(self._present(places), side_effect_class=character.side_effect, costly=character.costly)

    def _present(self, places: Iterable[_Place]) -> list[Layer]:
        return [layer for place in places if (layer := self._layers.get(place))]

    def _shared(self, character: Character) -> list[_Place]:
        return [
            (PolicyRevision.Level.ENVIRONMENT, "", None, None),
            (PolicyRevision.Level.CLASS, character.side_effect.value, None, None),
        ]


def published(environment_id: int) -> Published:
    """The environment's layers in force."""
    return Published(
        PolicyRevision.objects.filter(environment_id=environment_id, status=PolicyRevision.Status.PUBLISHED)
    )


def published_for(environment_id: int, dependencies: Iterable[Dependency]) -> Published:
    """The same, as far as these dependencies and their tools (read with them) go by it."""
    given = list(dependencies)
    if not given:
        return Published([])
    tools = [tool.pk for one in given for tool in one.tools.all()]
    theirs = Q(dependency=None, tool=None) | Q(dependency__in=given) | Q(tool__in=tools)
    status = PolicyRevision.Status.PUBLISHED
    return Published(PolicyRevision.objects.filter(theirs, environment_id=environment_id, status=status))


def of_dependency(dependency: Dependency) -> Resolved[CircuitPolicy]:
    """One dependency's circuit policy, read alone."""
    return published(dependency.environment_id).circuit(dependency.pk, character_of(dependency.tools.all()))


def of_tool(tool: Tool) -> Resolved[RunPolicy]:
    """One tool's run policy, read alone."""
    return published(tool.environment_id).run(tool.pk, character_of([tool]))


def deliveries(environment_id: int, dependency_ids: Iterable[int]) -> dict[int, str]:
    """The delivery mode of each dependency's policy, by its id."""
    if not (wanted := list(dependency_ids)):
        return {}
    layers = published(environment_id)
    rows = Dependency.objects.filter(pk__in=wanted).prefetch_related("tools")
    return {row.pk: str(layers.circuit(row.pk, character_of(row.tools.all())).policy.delivery) for row in rows}


_Place = tuple[str, str, int | None, int | None]


def _place(row: PolicyRevision) -> _Place:
    return (row.level, row.side_effect, row.dependency_id, row.tool_id)


def _layer(row: PolicyRevision) -> Layer:
    circuit, run = split(row.level, row.values)
    return Layer(_ORIGINS[PolicyRevision.Level(row.level)], circuit=circuit, run=run)


def split(level: str, values: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A revision's values as (circuit, run).

    A dependency sets circuit fields and a tool run fields. An environment and a class set both, each in a mapping
    of its own under `circuit` and `run`, for a name may occur in both.
    """
    match level:
        case PolicyRevision.Level.DEPENDENCY:
            return _known(values, CIRCUIT_FIELDS), {}
        case PolicyRevision.Level.TOOL:
            return {}, _known(values, RUN_FIELDS)
        case _:
            return _known(values.get("circuit", {}), CIRCUIT_FIELDS), _known(values.get("run", {}), RUN_FIELDS)


def _known(values: Mapping[str, Any], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the fields of a newer version than this process runs."""
    return {name: value for name, value in values.items() if name in fields}
