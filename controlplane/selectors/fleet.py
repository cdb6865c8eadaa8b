"""The whole fleet at a glance: every circuit of an environment as plain values, read in one statement."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from recloser.core import circuit as breaker
from recloser.core.types import Mode, State

from controlplane import clock
from controlplane.models import Environment
from controlplane.selectors import circuits
from controlplane.selectors.circuits import Calls

REMEMBERED = 4096
"""Stored circuits that a process keeps decoded, whatever their environment: 500 circuits eight times over."""


@dataclass(frozen=True)
class Glance:
    """One circuit: where it stands, and what tells whether more must be read of it."""

    circuit_id: int
    dependency_id: int
    slug: str
    core: breaker.Circuit
    fault_worker_id: int | None
    fault_seen_at: datetime | None
    quorum_short: bool
    changed_at: datetime | None

    @functools.cached_property
    def kind(self) -> str:
        """The one word that a page shows first; asked for several times a page."""
        return circuits.kind_of(self.core)

    @property
    def since(self) -> datetime | None:
        """When it came to stand like this."""
        return circuits.since_of(self.core)


@dataclass(frozen=True, slots=True)
class Cell:
    """Everything that one cell of the grid shows: equal cells look the same, so what was made of one may be kept."""

    circuit_id: int
    slug: str
    kind: str
    mode: Mode
    state: State
    judged: int
    failures: int
    rejected: int
    warned: bool = False
    """Its probe's heartbeats fail; agents' calls have not opened it."""

    @property
    def rate(self) -> float | None:
        """Share of failures; None without calls."""
        return self.failures / self.judged if self.judged else None


_FLEET = """
SELECT c.id, c.dependency_id, d.slug, c.core::text, c.fault_worker_id, c.fault_seen_at, c.quorum_short_at IS NOT NULL,
       c.changed_at
FROM controlplane_circuit c JOIN controlplane_dependency d ON d.id = c.dependency_id
WHERE c.environment_id = %s ORDER BY d.slug
"""


def glances(environment: Environment, now: datetime) -> list[Glance]:
    """Every circuit of the environment, by its dependency's name."""
    now_s = clock.seconds(now)
    with connection.cursor() as cursor:
        cursor.execute(_FLEET, [environment.pk])
        return [
            Glance(key, dependency, slug, breaker.expire_override(_decoded(core), now_s), *more)
            for key, dependency, slug, core, *more in cursor.fetchall()
        ]


@functools.lru_cache(maxsize=REMEMBERED)
def _decoded(stored: str) -> breaker.Circuit:
    """The circuit that a text holds: the text is the key, so nothing that was remembered can be out of date."""
    return breaker.from_dict(json.loads(stored))


def cell(one: Glance, calls: Calls, *, warned: bool = False) -> Cell:
    """What the grid shows of it."""
    core, counted = one.core, (calls.judged, calls.failures, calls.rejected)
    return Cell(one.circuit_id, one.slug, one.kind, core.mode, core.state, *counted, warned)
