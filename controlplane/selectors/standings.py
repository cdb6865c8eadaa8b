"""Circuits for scripts: where each stands, and one in full, its evidence against the thresholds in force."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from recloser.core.circuit import Evidence
from recloser.core.policy import CircuitPolicy
from recloser.core.types import Signal

from controlplane import clock
from controlplane.delivery import resolve
from controlplane.evidence import window
from controlplane.evidence.counters import Key
from controlplane.models import Circuit, Environment, Trip
from controlplane.selectors import circuits
from controlplane.selectors.circuits import CALLERS_WITHIN, Hit, Standing


@dataclass(frozen=True, slots=True)
class Measured:
    """One signal: its value (None without calls) against its threshold (None is off)."""

    signal: str
    value: float | None
    threshold: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """What the circuit would be judged by at this moment."""

    found: Evidence
    policy: CircuitPolicy

    @property
    def failing_workers(self) -> int:
        """How many workers reported a failure."""
        return sum(own.failures > 0 for own in self.found.workers)

    @property
    def signals(self) -> list[Measured]:
        """Each shared signal."""
        found, policy = self.found, self.policy
        rate = found.failures / found.judged if found.judged else None
        slow = found.slow / found.calls if found.calls else None
        return [
            Measured(Signal.FAILURE_RATE.value, rate, policy.failure_rate),
            Measured(Signal.SLOW_CALL_RATE.value, slow, policy.slow_call_rate),
            Measured(Signal.CONSECUTIVE_FAILURES.value, float(found.streak), policy.consecutive_failures),
        ]


@dataclass(frozen=True, slots=True)
class InFull(Standing):
    """One circuit with what it is judged by, what last opened it, and whom it hits."""

    evidence: Window
    trip: Trip | None
    hit: Hit


def of_rows(environment: Environment, rows: Iterable[Circuit], now: datetime) -> list[Standing]:
    """Where each of these circuits stands; their dependencies' tools have been read with them."""
    published = resolve.published(environment.pk)
    return [circuits.standing(row, _policy(row, published).delivery, now) for row in rows]


def in_full(row: Circuit, now: datetime) -> InFull:
    """One circuit."""
    dependency = row.dependency
    policy = _policy(row, resolve.published(row.environment_id))
    here = circuits.standing(row, policy.delivery, now)
    since = here.opened_at or now - CALLERS_WITHIN
    return InFull(
        row=row,
        core=here.core,
        delivery=here.delivery,
        now=now,
        evidence=Window(_evidence(here, policy), policy),
        trip=circuits.latest_trips([dependency.pk]).get(dependency.pk),
        hit=circuits.hits(row.environment, {dependency.slug: since}, now).get(dependency.slug, Hit()),
    )


def _evidence(here: Standing, policy: CircuitPolicy) -> Evidence:
    key = Key(here.row.environment_id, here.dependency.pk, here.core.generation)
    return window.evidence(key, policy, here.now, begun_at=clock.instant(here.core.changed_at))


def _policy(row: Circuit, published: resolve.Published) -> CircuitPolicy:
    return published.circuit(row.dependency_id, resolve.character_of(row.dependency.tools.all())).policy
