"""From the names that agents send to the ids of an environment's tools, dependencies and workers.

Read in a thread, kept per process, and read again when the environment's config version has moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from recloser.core.policy import is_vouched
from recloser.core.types import SideEffectClass

from controlplane import clock
from controlplane.delivery import publish, resolve, versions
from controlplane.models import Circuit, Dependency, Tool, Worker
from controlplane.services.ingest import caps


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose key it is."""

    key_id: int
    agent_id: int
    agent: str
    environment_id: int
    environment: str


@dataclass(frozen=True, slots=True)
class KnownDependency:
    """A dependency, and what its policy says that ingest needs."""

    id: int
    window_s: float
    delivery: str


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool, who discovered it, and the dependencies behind it."""

    id: int
    discovered_by: int | None
    """The key that may say what stands behind it; None once a person answers for a class that is guarded."""
    dependencies: frozenset[str]


@dataclass(frozen=True, slots=True)
class Names:
    """All names of an environment at one config version."""

    version: tuple[str, int]
    dependencies: Mapping[str, KnownDependency]
    tools: Mapping[str, KnownTool]

    def unknown(self, pairs: Iterable[tuple[str, str]], key_id: int) -> set[tuple[str, str]]:
        """The (tool, dependency) pairs that the key would have to discover."""
        return {pair for pair in pairs if self._undiscovered(*pair, key_id)}

    def _undiscovered(self, tool: str, dependency: str, key_id: int) -> bool:
        known = self.tools.get(tool)
        if known is None or dependency not in self.dependencies:
            return True
        return known.discovered_by == key_id and dependency not in known.dependencies


def read(environment_id: int) -> Names:
    """The environment's names, and the policies of its dependencies."""
    version = versions.of(environment_id)
    layers = resolve.published(environment_id)
    dependencies = Dependency.objects.filter(environment_id=environment_id).prefetch_related("tools")
    tools = Tool.objects.filter(environment_id=environment_id).prefetch_related("dependencies")
    return Names(
        version=(version.epoch, version.config),
        dependencies={row.slug: _dependency(row, layers) for row in dependencies},
        tools={row.name: _tool(row) for row in tools},
    )


def _dependency(row: Dependency, layers: resolve.Published) -> KnownDependency:
    policy = layers.circuit(row.pk, resolve.character_of(row.tools.all())).policy
    return KnownDependency(row.pk, policy.window_s, str(policy.delivery))


def _tool(row: Tool) -> KnownTool:
    says = None if _is_vouched(row) else row.discovered_by_id
    return KnownTool(row.pk, says, frozenset(each.slug for each in row.dependencies.all()))


def _is_vouched(row: Tool) -> bool:
    return is_vouched(SideEffectClass(row.side_effect), confirmed=row.class_confirmed)


@transaction.atomic
def discover(caller: Caller, pairs: Iterable[tuple[str, str]]) -> None:
    """Make what an agent named and nobody knew: class unknown, shown to the operator, so many a key and no more."""
    wanted = sorted(pairs)
    now = clock.now()
    made = _make_dependencies(caller, {dependency for _, dependency in wanted}, now)
    ids = dict(_here(Dependency, caller, slug__in={dependency for _, dependency in wanted}).values_list("slug", "id"))
    made |= _make_tools(caller, {tool for tool, dependency in wanted if dependency in ids}, now)
    made |= _link(caller, wanted, ids)
    if made:
        versions.bump_config(caller.environment_id)
        publish.config_changed(caller.environment_id)


def _here(model: type[Dependency | Tool], caller: Caller, **named: Any) -> QuerySet[Any]:
    return model.objects.filter(environment_id=caller.environment_id, **named)


def _make_dependencies(caller: Caller, slugs: set[str], now: datetime) -> bool:
    known = set(_here(Dependency, caller, slug__in=slugs).values_list("slug", flat=True))
    room = caps.DISCOVERED_DEPENDENCIES - Dependency.objects.filter(discovered_by_id=caller.key_id).count()
    new = _as_many(slugs - known, room)
    common = {"environment_id": caller.environment_id, "created_at": now, "discovered_by_id": caller.key_id}
    Dependency.objects.bulk_create([Dependency(slug=slug, **common) for slug in new], ignore_conflicts=True)
    made = _here(Dependency, caller, slug__in=new).values_list("id", flat=True)
    Circuit.objects.bulk_create(
        [Circuit(dependency_id=pk, environment_id=caller.environment_id) for pk in made], ignore_conflicts=True
    )
    return bool(new)


def _make_tools(caller: Caller, names: set[str], now: datetime) -> bool:
    known = set(_here(Tool, caller, name__in=names).values_list("name", flat=True))
    room = caps.DISCOVERED_TOOLS - Tool.objects.filter(discovered_by_id=caller.key_id).count()
    new = _as_many(names - known, room)
    common = {"environment_id": caller.environment_id, "created_at": now, "discovered_by_id": caller.key_id}
    Tool.objects.bulk_create([Tool(name=name, **common) for name in new], ignore_conflicts=True)
    return bool(new)


def _link(caller: Caller, pairs: list[tuple[str, str]], dependencies: Mapping[str, int]) -> bool:
    """An agent may say what stands behind a tool that its own key discovered, never behind anyone else's, nor once a
    person has confirmed a class that is guarded."""
    own = _here(Tool, caller, name__in={tool for tool, _ in pairs}, discovered_by_id=caller.key_id)
    ids = {row.name: row.pk for row in own.select_for_update(no_key=True) if not _is_vouched(row)}
    through = Tool.dependencies.through
    links = [
        through(tool_id=ids[tool], dependency_id=dependencies[dependency])
        for tool, dependency in pairs
        if tool in ids and dependency in dependencies
    ]
    through.objects.bulk_create(links, ignore_conflicts=True)
    return bool(links)


def _as_many(names: Iterable[str], room: int) -> list[str]:
    return sorted(names)[: max(room, 0)]


def worker(caller: Caller, instance: str) -> int:
    """The id of the agent's worker at that instance; Capped where a key brings too many new ones a minute."""
    known = Worker.objects.filter(agent_id=caller.agent_id, instance=instance).values_list("id", flat=True).first()
    if known is not None:
        return known
    now = clock.now()
    _check_room(caller, now=now)
    made, _ = Worker.objects.get_or_create(
        agent_id=caller.agent_id,
        instance=instance,
        defaults={
            "environment_id": caller.environment_id,
            "key_id": caller.key_id,
            "first_seen_at": now,
            "last_seen_at": now,
        },
    )
    return made.pk


def _check_room(caller: Caller, *, now: datetime) -> None:
    a_minute = timedelta(minutes=1)
    recent = Worker.objects.filter(key_id=caller.key_id, first_seen_at__gt=now - a_minute).order_by("first_seen_at")
    times = list(recent.values_list("first_seen_at", flat=True))
    if len(times) >= caps.NEW_WORKERS_A_MINUTE:
        raise caps.Capped(max(1, round((times[0] + a_minute - now).total_seconds())))
