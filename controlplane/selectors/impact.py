"""What an outage does to whom, when outages come, and what people wrote down about a circuit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, Q
from django.db.models.functions import ExtractHour

from controlplane.models import AuditEntry, Circuit, Run
from controlplane.selectors.circuits import CALLERS_WITHIN, HITS_WITHIN, Calls, CircuitPage

PATTERN_OVER = timedelta(days=90)
NOTES_WITHIN = timedelta(days=90)
NOTES = 20
HOURS = 24


@dataclass(frozen=True, slots=True)
class AgentImpact:
    """One agent's part: its calls since the circuit's trouble began, and its runs that went without."""

    agent: str
    workers: int = 0
    failures: int = 0
    ok: int = 0
    rejected: int = 0
    runs: int = 0
    undisclosed: int = 0


def by_agent(page: CircuitPage) -> list[AgentImpact]:
    """Whom it hits, the worst first: agents that call it, and agents whose runs lacked it."""
    runs = _runs_by_agent(page)
    calls: dict[str, list[Calls]] = {agent: [] for agent in runs}
    for one in page.workers:
        calls.setdefault(one.worker.agent.slug, []).append(one.calls)
    found = [_of_agent(agent, made, *runs.get(agent, (0, 0))) for agent, made in calls.items()]
    return sorted(found, key=lambda one: (-one.runs, -one.failures, one.agent))


def _of_agent(agent: str, calls: list[Calls], runs: int, undisclosed: int) -> AgentImpact:
    failures, ok, rejected = (sum(getattr(one, name) for one in calls) for name in ("failures", "ok", "rejected"))
    return AgentImpact(agent, len(calls), failures, ok, rejected, runs, undisclosed)


def _runs_by_agent(page: CircuitPage) -> Mapping[str, tuple[int, int]]:
    """By agent, the runs that went without, and those of them that did not say so."""
    here = page.standing
    lacked = Run.objects.filter(
        environment=here.dependency.environment_id,
        degraded=True,
        started_at__gte=here.now - HITS_WITHIN,
        reported_at__gte=here.opened_at or here.now - CALLERS_WITHIN,
        missing__contains=[{"dependency": here.dependency.slug}],
    )
    rows = (
        lacked.order_by()
        .values_list("agent__slug")
        .annotate(every=Count("pk"), silent=Count("pk", filter=Q(disclosed=False)))
    )
    return {agent: (runs, silent) for agent, runs, silent in rows}


@dataclass(frozen=True, slots=True)
class Pattern:
    """At which hours of the day (UTC) outages began."""

    hours: tuple[int, ...]
    midnight: datetime
    """The hour that the first one stands for, of today."""

    @property
    def outages(self) -> int:
        """How many there were."""
        return sum(self.hours)

    @property
    def most(self) -> int:
        """In the hour that had most of them."""
        return max(self.hours)

    @property
    def worst_at(self) -> datetime:
        """That hour, of today."""
        return self.midnight + timedelta(hours=self.hours.index(self.most))

    @property
    def ticks(self) -> list[datetime]:
        """Instants to write below, every six hours."""
        return [self.midnight + timedelta(hours=hour) for hour in range(0, HOURS + 1, 6)]

    @property
    def telling(self) -> bool:
        """Whether one hour stands out: at least three outages, and half of all within it and the next."""
        at = self.hours.index(self.most)
        return self.outages >= 3 and 2 * (self.most + self.hours[(at + 1) % HOURS]) >= self.outages


def pattern(circuit: Circuit, now: datetime) -> Pattern:
    """Over the last 90 days."""
    rows = circuit.outages.filter(started_at__gte=now - PATTERN_OVER).order_by()
    counted = dict(rows.annotate(hour=ExtractHour("started_at", tzinfo=UTC)).values_list("hour").annotate(Count("pk")))
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return Pattern(tuple(counted.get(hour, 0) for hour in range(HOURS)), midnight)


def notes(circuit: Circuit, now: datetime) -> list[AuditEntry]:
    """What people wrote down in the last 90 days, newest first."""
    rows = AuditEntry.objects.filter(environment_id=circuit.environment_id, at__gte=now - NOTES_WITHIN)
    told = rows.filter(action="note", target=circuit.dependency.slug, accepted=True)
    return list(told.order_by("-id")[:NOTES])
