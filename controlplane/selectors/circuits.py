"""Circuits for people: where each stands, why, whom it hits, how it is tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, Max, Prefetch, QuerySet, Sum
from recloser.core import circuit as breaker
from recloser.core.types import Delivery, Mode, Scope, State

from controlplane import clock
from controlplane.evidence.outcomes import FAILURE_COLUMNS, SUCCESS_COLUMNS, any_of, failed, succeeded
from controlplane.models import (
    Agent,
    Circuit,
    Dependency,
    Environment,
    Observation,
    Outage,
    Probe,
    ProbeRound,
    Run,
    Tool,
    Transition,
    Trip,
    Worker,
)
from controlplane.selectors import suspects

CALLERS_WITHIN = timedelta(hours=1)
"""Who called a dependency this recently is expected to call it again."""

HITS_WITHIN = timedelta(hours=24)
"""Runs are searched no further back than this for what they lacked."""

PAST_OUTAGES = 10
RECENT_TRIPS = 8
TIMELINE = 40
ROUNDS = 12


@contextmanager
def snapshot() -> Iterator[datetime]:
    """One moment of the database for everything read inside: no part of a page contradicts another."""
    if connection.in_atomic_block:
        yield clock.now()
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield clock.now()


def kind_of(core: breaker.Circuit) -> str:
    """The one word a page shows first: forced, locked_out, open, half_open, suspected or closed."""
    if core.mode is not Mode.AUTO:
        return "forced"
    if core.state is State.OPEN and core.locked_out_at is not None:
        return "locked_out"
    if core.state is State.CLOSED and core.suspected_at is not None:
        return "suspected"
    return core.state.value


def since_of(core: breaker.Circuit) -> datetime | None:
    """When it came to stand like this: an outage counts from its opening, whatever the probes did since."""
    at = {"forced": core.changed_at, "suspected": core.suspected_at, "closed": core.closed_at}
    return clock.instant(at.get(kind_of(core), core.opened_at))


@dataclass(frozen=True, slots=True)
class Standing:
    """One circuit at one moment: its row, and what follows from it."""

    row: Circuit
    core: breaker.Circuit
    """As the row has it, an override that has run out already left aside."""
    delivery: Delivery
    now: datetime

    @property
    def dependency(self) -> Dependency:
        """Whose circuit this is."""
        return self.row.dependency

    @property
    def tools(self) -> list[Tool]:
        """The tools in front of it."""
        return list(self.row.dependency.tools.all())

    @property
    def effective(self) -> breaker.EffectiveState:
        """What callers meet."""
        return breaker.effective_of(self.core, self.delivery, clock.seconds(self.now))

    @property
    def mode(self) -> Mode:
        """Who decides."""
        return self.core.mode

    @property
    def kind(self) -> str:
        """The one word a page shows first."""
        return kind_of(self.core)

    @property
    def since(self) -> datetime | None:
        """When it came to stand like this."""
        return since_of(self.core)

    @property
    def opened_at(self) -> datetime | None:
        """When the running outage began."""
        return clock.instant(self.core.opened_at)

    @property
    def next_probe_at(self) -> datetime | None:
        """When it is tested next; None while a round runs, a person holds it, or nothing needs a test."""
        if self.mode is not Mode.AUTO or self.core.state is not State.OPEN:
            return None
        return clock.instant(self.core.due_at)

    @property
    def round_ends_at(self) -> datetime | None:
        """Until when the round in flight may take."""
        return clock.instant(self.core.round.lease_expires_at) if self.core.round else None

    @property
    def held_until(self) -> datetime | None:
        """When the override ends."""
        return clock.instant(self.core.mode_expires_at) if self.mode is not Mode.AUTO else None

    @property
    def locked_out_at(self) -> datetime | None:
        """Since when a human is wanted."""
        return clock.instant(self.core.locked_out_at)

    @property
    def acknowledged(self) -> bool:
        """Somebody has said: I am on it."""
        return self.row.acknowledged_at is not None


def standing(row: Circuit, delivery: Delivery, now: datetime) -> Standing:
    """Where a row stands at `now`."""
    core = breaker.expire_override(breaker.from_dict(row.core), clock.seconds(now))
    return Standing(row=row, core=core, delivery=delivery, now=now)


def of_environment(environment: Environment) -> QuerySet[Circuit]:
    """All circuits of one environment, with their dependencies and tools."""
    tools = Prefetch("dependency__tools", Tool.objects.order_by("name"))
    rows = Circuit.objects.filter(environment=environment)
    return (
        rows.select_related("dependency__vendor_status", "fault_worker")
        .prefetch_related(tools)
        .order_by("dependency__slug")
    )


@dataclass(frozen=True, slots=True)
class Calls:
    """What agents reported of one dependency in a stretch of time."""

    ok: int = 0
    failures: int = 0
    slow: int = 0
    rejected: int = 0
    workers: int = 0
    failing: int = 0
    last_ok_at: datetime | None = None

    @property
    def judged(self) -> int:
        """The failure rate's denominator."""
        return self.ok + self.failures

    @property
    def rate(self) -> float | None:
        """Share of failures; None without calls."""
        return self.failures / self.judged if self.judged else None


_FAILING, _WORKING = any_of(FAILURE_COLUMNS), any_of(SUCCESS_COLUMNS)


def _observed(dependencies: Iterable[int], since: datetime) -> QuerySet[Observation]:
    return Observation.objects.filter(dependency_id__in=list(dependencies), received_at__gte=since).order_by()


def _sums(rows: QuerySet[Observation], by: str) -> dict[int, Calls]:
    """Calls added up by one column."""
    found = rows.values_list(by).annotate(
        good=Sum(succeeded()),
        failures=Sum(failed()),
        slow_calls=Sum("slow"),
        turned_away=Sum("rejected"),
        workers=Count("worker_id", distinct=True),
        failing=Count("worker_id", distinct=True, filter=_FAILING),
        last_ok=Max("at", filter=_WORKING),
    )
    return {key: Calls(*figures) for key, *figures in found}


def recent_calls(dependencies: Iterable[int], since: datetime) -> dict[int, Calls]:
    """Calls by dependency since then, whoever made them."""
    return _sums(_observed(dependencies, since), "dependency_id")


@dataclass(frozen=True, slots=True)
class WorkerCalls:
    """One worker's part in a dependency's calls."""

    worker: Worker
    calls: Calls


def by_worker(dependency: Dependency, since: datetime) -> list[WorkerCalls]:
    """Who fails and who succeeds, the worst first."""
    calls = _sums(_observed([dependency.pk], since), "worker_id")
    workers = Worker.objects.filter(pk__in=list(calls), environment=dependency.environment_id).select_related("agent")
    found = [WorkerCalls(worker, calls[worker.pk]) for worker in workers]
    return sorted(found, key=lambda one: (-(one.calls.rate or 0), -one.calls.judged, one.worker.instance))


@dataclass(frozen=True, slots=True)
class Callers:
    """Who uses a dependency, and so would call it again."""

    agents: tuple[str, ...] = ()
    workers: int = 0


def callers(dependencies: Iterable[int], now: datetime) -> dict[int, Callers]:
    """By dependency, the agents and the number of workers that called or were turned away within the last hour."""
    rows = _observed(dependencies, now - CALLERS_WITHIN).values("dependency_id", "agent_id", "worker_id").distinct()
    pairs = list(rows)
    names = dict(Agent.objects.filter(pk__in={row["agent_id"] for row in pairs}).values_list("pk", "slug"))
    found: dict[int, tuple[set[str], set[int]]] = {}
    for row in pairs:
        agents, workers = found.setdefault(row["dependency_id"], (set(), set()))
        agents.add(names.get(row["agent_id"], "?"))
        workers.add(row["worker_id"])
    return {key: Callers(tuple(sorted(agents)), len(workers)) for key, (agents, workers) in found.items()}


@dataclass(frozen=True, slots=True)
class Hit:
    """The runs that went without a dependency's tools."""

    runs: int = 0
    running: int = 0
    undisclosed: int = 0
    agents: tuple[str, ...] = ()


_HITS = """
SELECT wanted.slug, count(DISTINCT r.id), count(DISTINCT r.id) FILTER (WHERE r.status = 'running'),
       count(DISTINCT r.id) FILTER (WHERE r.disclosed IS FALSE), array_agg(DISTINCT a.slug)
FROM unnest(%s::text[], %s::timestamptz[]) AS wanted(slug, since)
JOIN controlplane_run r ON r.environment_id = %s AND r.degraded AND r.started_at >= %s AND r.reported_at >= wanted.since
JOIN controlplane_agent a ON a.id = r.agent_id
WHERE EXISTS (SELECT FROM jsonb_array_elements(r.missing) m WHERE m ->> 'dependency' = wanted.slug)
GROUP BY wanted.slug
"""


def hits(environment: Environment, since: Mapping[str, datetime], now: datetime) -> dict[str, Hit]:
    """By dependency, the runs that lacked it since its own moment (24 hours at most)."""
    if not since:
        return {}
    values: list[Any] = [list(since), list(since.values()), environment.pk, now - HITS_WITHIN]
    with connection.cursor() as cursor:
        cursor.execute(_HITS, values)
        return {
            slug: Hit(runs, running, quiet, tuple(names)) for slug, runs, running, quiet, names in cursor.fetchall()
        }


def latest_trips(dependencies: Iterable[int]) -> dict[int, Trip]:
    """By dependency, the trip that last opened it for the fleet."""
    rows = Trip.objects.filter(dependency__in=list(dependencies), scope=Scope.FLEET.value, delivery="enforce")
    ordered = rows.order_by("dependency_id", "-at").distinct("dependency_id")
    return {trip.dependency_id: trip for trip in ordered if trip.dependency_id is not None}


def latest_rounds(circuits: Iterable[int]) -> dict[int, ProbeRound]:
    """By circuit, the last probe round that came to an end."""
    rows = ProbeRound.objects.filter(circuit__in=list(circuits), finished_at__isnull=False)
    return {row.circuit_id: row for row in rows.order_by("circuit_id", "-granted_at").distinct("circuit_id")}


def probed(dependencies: Iterable[int]) -> set[int]:
    """Which of them have a probe that is switched on."""
    rows = Probe.objects.filter(dependency__in=list(dependencies), enabled=True)
    return set(rows.values_list("dependency_id", flat=True))


@dataclass(frozen=True, slots=True)
class CircuitPage:
    """Everything the page of one circuit shows."""

    standing: Standing
    trip: Trip | None
    timeline: list[Transition]
    rounds: list[ProbeRound]
    probe: Probe | None
    window_s: float
    calls: Calls
    workers: list[WorkerCalls]
    callers: Callers
    hit: Hit
    runs: list[Run] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    trips: list[Trip] = field(default_factory=list)

    @property
    def prober_suspect(self) -> bool:
        """Whether the last finished probe of a circuit out of service fell to the prober's own fault."""
        last = next((each for each in self.rounds if each.finished_at), None)
        return self.standing.kind != "closed" and suspects.is_suspect(last)


def find(environment: Environment, slug: str) -> Circuit | None:
    """The circuit of that dependency in that environment, and no other's."""
    return of_environment(environment).filter(dependency__slug=slug).first()


def page(*, row: Circuit, delivery: Delivery, window_s: float, now: datetime) -> CircuitPage:
    """Everything about one circuit, at one moment."""
    dependency = row.dependency
    here = standing(row, delivery, now)
    since = here.opened_at or now - CALLERS_WITHIN
    window = now - timedelta(seconds=window_s)
    return CircuitPage(
        standing=here,
        trip=latest_trips([dependency.pk]).get(dependency.pk),
        timeline=list(row.transitions.all()[:TIMELINE]),
        rounds=list(row.rounds.prefetch_related("votes")[:ROUNDS]),
        probe=Probe.objects.filter(dependency=dependency).first(),
        window_s=window_s,
        calls=recent_calls([dependency.pk], window).get(dependency.pk, Calls()),
        workers=by_worker(dependency, attributed_since(here, window_s)),
        callers=callers([dependency.pk], now).get(dependency.pk, Callers()),
        hit=hits(dependency.environment, {dependency.slug: since}, now).get(dependency.slug, Hit()),
        runs=_runs_without(dependency, since, now),
        outages=list(row.outages.all()[:PAST_OUTAGES]),
        trips=list(
            Trip.objects.filter(dependency=dependency).select_related("dependency", "worker", "tool")[:RECENT_TRIPS]
        ),
    )


def attributed_since(here: Standing, window_s: float) -> datetime:
    """From when on who failed is counted: the window, and while it is open the window that opened it."""
    return (here.opened_at or here.now) - timedelta(seconds=window_s)


def _runs_without(dependency: Dependency, since: datetime, now: datetime) -> list[Run]:
    rows = Run.objects.filter(
        environment=dependency.environment_id,
        degraded=True,
        started_at__gte=now - HITS_WITHIN,
        reported_at__gte=since,
        missing__contains=[{"dependency": dependency.slug}],
    )
    return list(rows.select_related("agent")[:8])


def environments() -> Sequence[Environment]:
    """All of them, by name."""
    return list(Environment.objects.all())
