"""What a dependency's and a tool's policy come to, each value with its origin; read once a config version."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable

from recloser.core.policy import CircuitPolicy, Resolved, RunPolicy, to_wire

from controlplane.delivery import resolve, versions
from controlplane.models import Circuit, Dependency, Tool

KEPT_ENVIRONMENTS = 64


class Book:
    """The resolved policies of one environment at one config version."""

    def __init__(self, environment_id: int) -> None:
        self._layers = resolve.published(environment_id)
        self._circuits: dict[int, Resolved[CircuitPolicy]] = {}
        self._runs: dict[int, Resolved[RunPolicy]] = {}

    def circuit(self, dependency_id: int) -> Resolved[CircuitPolicy]:
        """A dependency's circuit policy."""
        if dependency_id not in self._circuits:
            character = resolve.character_of(Tool.objects.filter(dependencies=dependency_id))
            self._circuits[dependency_id] = self._layers.circuit(dependency_id, character)
        return self._circuits[dependency_id]

    def read_circuits(self, dependency_ids: Iterable[int]) -> None:
        """Resolve these at once, so that asking for each costs nothing."""
        missing = [pk for pk in dependency_ids if pk not in self._circuits]
        if not missing:
            return
        for row in Dependency.objects.filter(pk__in=missing).prefetch_related("tools"):
            self._circuits[row.pk] = self._layers.circuit(row.pk, resolve.character_of(row.tools.all()))

    def run(self, tool_id: int) -> Resolved[RunPolicy]:
        """A tool's run policy."""
        if tool_id not in self._runs:
            character = resolve.character_of(Tool.objects.filter(pk=tool_id))
            self._runs[tool_id] = self._layers.run(tool_id, character)
        return self._runs[tool_id]


_books: OrderedDict[int, tuple[tuple[str, int], Book]] = OrderedDict()


def book(environment_id: int, at: versions.Versions | None = None) -> Book:
    """The environment's policies as they stand, kept until the config version moves. `at`: the version just read."""
    at = at or versions.of(environment_id)
    version = (at.epoch, at.config)
    kept = _books.get(environment_id)
    if kept is not None and kept[0] == version:
        return kept[1]
    made = Book(environment_id)
    _books[environment_id] = (version, made)
    while len(_books) > KEPT_ENVIRONMENTS:
        _books.popitem(last=False)
    return made


def of_dependency(dependency: Dependency) -> Resolved[CircuitPolicy]:
    """One dependency's circuit policy, and where each value came from."""
    return book(dependency.environment_id).circuit(dependency.pk)


def of_tool(tool: Tool) -> Resolved[RunPolicy]:
    """One tool's run policy, and where each value came from."""
    return book(tool.environment_id).run(tool.pk)


def circuit_policy(*, environment_id: int, dependency_id: int, at: versions.Versions | None = None) -> CircuitPolicy:
    """The circuit policy alone, by ids."""
    return book(environment_id, at).circuit(dependency_id).policy


def circuit_policies(rows: Iterable[Circuit]) -> dict[int, CircuitPolicy]:
    """By dependency, the policies of these circuits: one look at the version of each environment."""
    by_environment: dict[int, list[int]] = {}
    for row in rows:
        by_environment.setdefault(row.environment_id, []).append(row.dependency_id)
    found: dict[int, CircuitPolicy] = {}
    for environment_id, dependency_ids in by_environment.items():
        known = book(environment_id)
        known.read_circuits(dependency_ids)
        found |= {pk: known.circuit(pk).policy for pk in dependency_ids}
    return found


def digest(policy: CircuitPolicy | RunPolicy) -> str:
    """The name of a resolved policy, the same that agents give it: sha256[:12] of its canonical JSON."""
    canonical = json.dumps(to_wire(policy), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:12]
