"""The two documents for agents: `config`, which changes rarely, and `circuits`, which changes at every transition."""

from __future__ import annotations

import gzip
import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.db import connection
from recloser.core.budget import HEALTHY_RUNS
from recloser.core.policy import CircuitPolicy, RunPolicy, to_wire

from controlplane import clock
from controlplane.delivery import resolve, versions
from controlplane.models import Agent, Baseline, Dependency, Tool

FORMAT = 1
_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it goes over the wire, packed once for everyone who asks."""

    body: bytes
    gzipped: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Circuits:
    """Every circuit of an environment that ever moved, or is suspected, at one version."""

    environment_id: int
    epoch: str
    version: int
    config: int
    entries: Mapping[str, Mapping[str, Any]]
    etag: str
    read_at: datetime
    read_tick: float
    """The process's monotonic clock when it was read."""

    def now_s(self) -> float:
        """Database time, reckoned on from when this was read."""
        return clock.reckoned(self.read_at, self.read_tick)

    def wire(self, now_s: float) -> dict[str, Any]:
        """The whole document; `now_s` is database time as it is sent, since its reader counts from it."""
        return {
            "format": FORMAT,
            "epoch": self.epoch,
            "version": self.version,
            "complete": True,
            "now": now_s,
            "circuits": self.entries,
        }

    def delta(self, older: Circuits, now_s: float) -> dict[str, Any] | None:
        """What changed since `older`; None where that cannot be told as a delta."""
        if older.epoch != self.epoch or older.version >= self.version:
            return None
        changed = {slug: entry for slug, entry in self.entries.items() if older.entries.get(slug) != entry}
        gone = dict.fromkeys(older.entries.keys() - self.entries.keys())
        return {
            "epoch": self.epoch,
            "previous": older.version,
            "version": self.version,
            "now": now_s,
            "circuits": {**changed, **gone},
        }


ENTRY = """jsonb_build_object(
    'state', c.state, 'mode', c.mode, 'generation', c.generation,
    'mode_expires_at', extract(epoch FROM c.mode_expires_at), 'cause', nullif(c.cause, ''),
    'opened_at', extract(epoch FROM c.opened_at), 'due_at', c.core->'due_at',
    'suspected', c.suspected_at IS NOT NULL, 'operation', c.core->'operation',
    'tripped_by', c.core->'tripped_by', 'ramp_started_at', c.core->'round'->'ramp_started_at',
    'probed', EXISTS (SELECT FROM controlplane_probe p WHERE p.dependency_id = c.dependency_id AND p.enabled))"""
"""One circuit as agents see it, in SQL over `controlplane_circuit c`; its policy's `delivery` is added to it."""

_CIRCUITS = f"""
SELECT {clock.STATEMENT_TIME}, v.epoch, v.config, v.circuits,
       (SELECT coalesce(jsonb_agg(jsonb_build_array(d.id, d.slug, {ENTRY}) ORDER BY d.slug), '[]')
        FROM controlplane_circuit c JOIN controlplane_dependency d ON d.id = c.dependency_id
        WHERE c.environment_id = v.environment_id AND (c.generation > 0 OR c.suspected_at IS NOT NULL))::text
FROM controlplane_documentversion v
WHERE v.environment_id = %(environment)s
"""  # noqa: S608 (nothing but our own constant is put in)


def circuits(environment_id: int) -> Circuits:
    """The circuits document's content, read in one statement, so that it and its version belong together."""
    read_at, epoch, config_version, version, found = _read_circuits(environment_id)
    rows = msgspec.json.decode(found)
    modes = _deliveries(environment_id, (epoch, config_version), [dependency_id for dependency_id, _, _ in rows])
    entries = {
        slug: {**entry, "delivery": modes[dependency_id]}
        for dependency_id, slug, entry in rows
        if dependency_id in modes
    }
    etag = _etag(epoch, version, _encode(entries))
    return Circuits(environment_id, epoch, version, config_version, entries, etag, read_at, time.monotonic())


def _read_circuits(environment_id: int) -> Any:
    asked = {"environment": environment_id, "now": clock.substitute()}
    with connection.cursor() as cursor:
        cursor.execute(_CIRCUITS, asked)
        if (row := cursor.fetchone()) is None:
            versions.of(environment_id)  # makes the first
            cursor.execute(_CIRCUITS, asked)
            row = cursor.fetchone()
    return row


_modes: dict[int, tuple[tuple[str, int], dict[int, str]]] = {}


def _deliveries(environment_id: int, version: tuple[str, int], dependency_ids: list[int]) -> dict[int, str]:
    """The delivery mode of each dependency's policy, resolved once a config version."""
    at, known = _modes.get(environment_id, (version, {}))
    known = known if at == version else {}
    missing = [pk for pk in dependency_ids if pk not in known]
    if missing:
        known = {**known, **resolve.deliveries(environment_id, missing)}
    _modes[environment_id] = (version, known)
    return known


def config(environment_id: int, agent_id: int) -> Document:
    """The config document of one agent, read again while policies are being published under it.

    Where they never come to rest, it has the version from before it was read: whoever holds it fetches again.
    """
    agent = Agent.objects.select_related("environment").get(pk=agent_id, environment_id=environment_id)
    after = versions.of(environment_id)
    for _ in range(3):
        before, content = after, _config(environment_id, agent_id)
        after = versions.of(environment_id)
        if after == before:
            break
    named = {"environment": agent.environment.slug, "agent": agent.slug}
    return _packed({**named, **content}, before)


def _packed(content: Mapping[str, Any], version: versions.Versions) -> Document:
    etag = _etag(version.epoch, version.config, _encode(content))
    head = {"format": FORMAT, "epoch": version.epoch, "version": version.config, "complete": True}
    body = _encode({**head, "now": clock.seconds(clock.now()), **content})
    return Document(body=body, gzipped=gzip.compress(body, 6), etag=etag)


def _config(environment_id: int, agent_id: int) -> dict[str, Any]:
    layers = resolve.published(environment_id)
    dependencies = Dependency.objects.filter(environment_id=environment_id).prefetch_related("tools")
    tools = Tool.objects.filter(environment_id=environment_id).prefetch_related("dependencies")
    circuit_policies, run_policies = _Interned(), _Interned()
    return {
        "default_circuit_policy": circuit_policies.place(layers.circuit(None).policy),
        "default_run_policy": run_policies.place(layers.run(None).policy),
        "dependencies": _dependencies(dependencies, layers, circuit_policies),
        "tools": _tools(tools, layers, run_policies),
        "circuit_policies": circuit_policies.wire(),
        "run_policies": run_policies.wire(),
        "baselines": _baselines(agent_id),
    }


def _baselines(agent_id: int) -> dict[str, dict[str, float | None]]:
    """By kind of task; one of too few runs is not told at all."""
    return {
        row.task_kind: {"tokens_per_step": row.tokens_per_step, "cost_per_step": row.cost_per_step}
        for row in Baseline.objects.filter(agent=agent_id, runs__gte=HEALTHY_RUNS)
    }


def _dependencies(
    rows: Iterable[Dependency], layers: resolve.Published, interned: _Interned
) -> dict[str, dict[str, int]]:
    return {
        row.slug: {"policy": interned.place(layers.circuit(row.pk, resolve.character_of(row.tools.all())).policy)}
        for row in rows
    }


def _tools(rows: Iterable[Tool], layers: resolve.Published, interned: _Interned) -> dict[str, dict[str, Any]]:
    return {
        row.name: {
            "policy": interned.place(layers.run(row.pk, resolve.character_of([row])).policy),
            "dependencies": [dependency.slug for dependency in row.dependencies.all()],
            "side_effect": row.side_effect,
            "confirmed": row.class_confirmed,
            "operation": row.operation or None,
        }
        for row in rows
    }


class _Interned:
    """A list of distinct policies; an entry of the document names its place in it."""

    def __init__(self) -> None:
        self._places: dict[CircuitPolicy | RunPolicy, int] = {}

    def place(self, policy: CircuitPolicy | RunPolicy) -> int:
        return self._places.setdefault(policy, len(self._places))

    def wire(self) -> list[dict[str, Any]]:
        return [to_wire(policy) for policy in self._places]


def _etag(epoch: str, version: int, content: bytes) -> str:
    return f'"{epoch}-{version}-{hashlib.sha256(content).hexdigest()[:16]}"'
