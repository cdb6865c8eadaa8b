"""The Board: what needs a human first, then the fleet, all of one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q
from recloser.core.policy import CircuitPolicy, RunPolicy
from recloser.core.types import Scope

from controlplane.delivery import resolve
from controlplane.evidence.live import LIVE_S
from controlplane.models import (
    Agent,
    AgentKey,
    AlertCause,
    DocumentVersion,
    Environment,
    ProbeRound,
    Run,
    Session,
    Tool,
    Trip,
    Worker,
)
from controlplane.selectors import circuits, figures, fleet, matters, processes, suspects
from controlplane.selectors.circuits import Callers, Calls, Hit, Standing
from controlplane.selectors.fleet import Cell, Glance
from controlplane.selectors.matters import Matter

LIVE_WITHIN = timedelta(seconds=LIVE_S)
"""A session that was heard this recently is alive."""

FAULTS_WITHIN = timedelta(minutes=15)
SHARE_WITHIN = timedelta(hours=1)
PULSE = timedelta(seconds=60)
RECENT = 8

_SILENT = Calls()

URGENCY = ("locked_out", "open", "half_open", "suspected", "worker_fault", "forced")
"""In this order a human is needed; an acknowledged outage comes after those that nobody has taken."""

OUT_OF_SERVICE = ("locked_out", "open", "half_open")


@dataclass(frozen=True, slots=True)
class Instead:
    """What agents do without one tool; `decided` is False until a product owner has said so."""

    tool: Tool
    policy: RunPolicy

    @property
    def decided(self) -> bool:
        """Whether anyone has decided it."""
        return self.policy.degraded_behaviour != "undecided"


@dataclass(frozen=True, slots=True)
class Need:
    """One circuit that wants a human, with everything to decide by."""

    standing: Standing
    policy: CircuitPolicy
    trip: Trip | None
    hit: Hit
    callers: Callers
    calls: Calls
    instead: list[Instead]
    last_round: ProbeRound | None
    has_probe: bool

    @property
    def kind(self) -> str:
        """How it stands, in one word."""
        return self.standing.kind

    @property
    def prober_suspect(self) -> bool:
        """Whether the last probe said more about the prober than about the dependency."""
        return suspects.is_suspect(self.last_round)


@dataclass(frozen=True, slots=True)
class WorkerFault:
    """A worker in trouble of its own, while the fleet's circuit stays closed."""

    worker: Worker
    seen_at: datetime
    trip: Trip | None
    """Of its own breaker, where that opened."""
    standing: Standing
    calls: Calls
    alone: bool
    """It fails while others succeed; False: too few workers live to tell."""
    alert: AlertCause | None = None
    """What people were told of it; taken or not."""

    @property
    def taken(self) -> bool:
        """Somebody has said: I am on it."""
        return self.alert is not None and self.alert.acknowledged_at is not None


@dataclass(frozen=True, slots=True)
class Share:
    """Runs that started within the last hour."""

    runs: int
    degraded: int
    undisclosed: int

    @property
    def degraded_share(self) -> float | None:
        """Part of them that lacked a tool; None without runs."""
        return self.degraded / self.runs if self.runs else None

    @property
    def undisclosed_share(self) -> float | None:
        """Part of them that lacked one and did not say so."""
        return self.undisclosed / self.runs if self.runs else None


@dataclass(frozen=True, slots=True)
class Delivery:
    """Whether what we decide reaches the agents, and whether our own processes are there."""

    sessions: int
    polling: int
    stale: int
    old_config: int
    scheduler_at: datetime | None
    scheduler_alive: bool
    """Whether probes are dispatched."""
    celery_workers: int
    degraded_evidence: bool
    now: datetime

    @property
    def live(self) -> int:
        """Agent processes on the stream."""
        return self.sessions - self.polling


@dataclass(frozen=True, slots=True)
class Board:
    """The whole page."""

    environment: Environment
    now: datetime
    version: int
    needs: list[Need]
    faults: list[WorkerFault]
    matters: list[Matter]
    """Alerts that nobody has taken, beside those that a worker fault's own card shows."""
    given_up: int
    """Alert messages that reached nobody, of the last day."""
    fleet: list[Cell]
    trips: list[Trip]
    share: Share
    delivery: Delivery
    quarantined_keys: list[AgentKey]
    quarantined_workers: list[Worker]
    discovered: list[Tool]
    short_of_quorum: list[Glance]
    """Fewer workers live than their quorum asks for: each worker's own breaker is the protection."""
    quiet_since: datetime
    has_agents: bool

    @property
    def waiting_for_agent(self) -> bool:
        """Nobody has called yet: the page leads to the first agent."""
        return not self.has_agents and not self.fleet

    @property
    def urgent(self) -> list[Need]:
        """Those that keep agents from working and that nobody has taken."""
        return [one for one in self.needs if one.kind in OUT_OF_SERVICE and not one.standing.acknowledged]

    @property
    def watching(self) -> int:
        """How much there is to see, urgent or not."""
        return len(self.needs) + len(self.faults) + len(self.matters)

    @property
    def beside(self) -> int:
        """How much there is to see beside what is urgent."""
        return self.watching - len(self.urgent)


def board(environment: Environment, *, evidence_store_up: bool) -> Board:
    """Everything the Board shows of one environment, at one moment."""
    with circuits.snapshot() as now:
        glances = fleet.glances(environment, now)
        calls = figures.recent(environment.pk, PULSE.total_seconds(), now)
        breakers = _own_breakers(environment, glances, now)
        told = matters.running(environment)
        warned = {one.circuit_id for one in told if one.kind == AlertCause.Kind.HEARTBEAT_FAILING}
        read = _standings(environment, _worth_an_eye(glances, breakers, now), now)
        closed = [one for one in read.rows if one.kind == "closed"]
        faults = _faults(closed, breakers, calls, _faulty(told), now)
        return Board(
            environment=environment,
            now=now,
            version=_version(environment),
            needs=_needs(environment, [one for one in read.rows if one.kind != "closed"], read.published, calls, now),
            faults=faults,
            matters=matters.untaken(_beside(told, faults)),
            given_up=matters.given_up(environment, now),
            fleet=[
                fleet.cell(one, calls.get(one.dependency_id, _SILENT), warned=one.circuit_id in warned)
                for one in glances
            ],
            trips=recent_trips(environment),
            share=_share(environment, now),
            delivery=_delivery(environment, now, evidence_store_up),
            quarantined_keys=list(
                AgentKey.objects.filter(_QUARANTINED, environment=environment).select_related("agent")
            ),
            quarantined_workers=list(
                Worker.objects.filter(_QUARANTINED, environment=environment).select_related("agent")
            ),
            discovered=_discovered(environment),
            short_of_quorum=[one for one in glances if one.quorum_short],
            quiet_since=max([environment.created_at, *_stirrings(environment, glances)]),
            has_agents=Session.objects.filter(worker__environment=environment).exists(),
        )


def _stirrings(environment: Environment, glances: Iterable[Glance]) -> Iterator[datetime]:
    """When something was last the matter: a circuit's last move, and the end of the last alert."""
    yield from (one.changed_at for one in glances if one.changed_at)
    if (over := matters.last_over(environment)) is not None:
        yield over


def _faulty(told: Iterable[AlertCause]) -> _Alerts:
    return {(one.circuit_id, one.worker_id): one for one in told if one.kind == AlertCause.Kind.WORKER_FAULT}


def _beside(told: Iterable[AlertCause], faults: Iterable[WorkerFault]) -> list[AlertCause]:
    """The alerts that no worker fault's card shows."""
    shown = {fault.alert.pk for fault in faults if fault.alert is not None}
    return [one for one in told if one.pk not in shown]


def _version(environment: Environment) -> int:
    found = DocumentVersion.objects.filter(environment=environment).values_list("circuits", flat=True).first()
    return found or 0


@dataclass(frozen=True, slots=True)
class _Standings:
    """The circuits that are read in full, with the policies that they go by."""

    rows: list[Standing]
    published: resolve.Published


def _worth_an_eye(glances: Iterable[Glance], breakers: _Trips, now: datetime) -> list[int]:
    """The circuits that the page says more of than their cell."""
    tripped = {dependency for dependency, _ in breakers}
    return [
        one.circuit_id
        for one in glances
        if one.kind != "closed" or _fails_alone(one, now) or (one.quorum_short and one.dependency_id in tripped)
    ]


def _fails_alone(one: Glance, now: datetime) -> bool:
    return one.fault_worker_id is not None and _lately(one.fault_seen_at, now)


def _lately(seen_at: datetime | None, now: datetime) -> bool:
    return seen_at is not None and seen_at >= now - FAULTS_WITHIN


def _standings(environment: Environment, wanted: list[int], now: datetime) -> _Standings:
    rows = list(circuits.of_environment(environment).filter(pk__in=wanted)) if wanted else []
    published = resolve.published_for(environment.pk, [row.dependency for row in rows])
    return _Standings(
        [
            circuits.standing(row, policy_of(row.dependency.pk, row.dependency.tools.all(), published).delivery, now)
            for row in rows
        ],
        published,
    )


def policy_of(dependency_id: int, tools: Iterable[Tool], published: resolve.Published) -> CircuitPolicy:
    """A dependency's circuit policy in force."""
    return published.circuit(dependency_id, resolve.character_of(tools)).policy


def instead(tools: Iterable[Tool], published: resolve.Published) -> list[Instead]:
    """What a run does without each tool."""
    return [Instead(tool, published.run(tool.pk, resolve.character_of([tool])).policy) for tool in tools]


def _needs(
    environment: Environment,
    standings: list[Standing],
    published: resolve.Published,
    calls: Mapping[int, Calls],
    now: datetime,
) -> list[Need]:
    if not standings:
        return []
    ids = [one.dependency.pk for one in standings]
    since = {one.dependency.slug: one.since or now for one in standings}
    trips, callers, probed = circuits.latest_trips(ids), circuits.callers(ids, now), circuits.probed(ids)
    rounds = circuits.latest_rounds([one.row.pk for one in standings])
    hits = circuits.hits(environment, since, now)
    needs = [
        Need(
            standing=one,
            policy=policy_of(one.dependency.pk, one.tools, published),
            trip=trips.get(one.dependency.pk) if one.kind != "suspected" else None,
            hit=hits.get(one.dependency.slug, Hit()),
            callers=callers.get(one.dependency.pk, Callers()),
            calls=calls.get(one.dependency.pk, Calls()),
            instead=instead(one.tools, published),
            last_round=rounds.get(one.row.pk),
            has_probe=one.dependency.pk in probed,
        )
        for one in standings
    ]
    return sorted(needs, key=_urgency)


def _urgency(need: Need) -> tuple[bool, int, float]:
    since = need.standing.since
    return (need.standing.acknowledged, URGENCY.index(need.kind), since.timestamp() if since else 0.0)


_Trips = Mapping[tuple[int, int], Trip]
_Alerts = Mapping[tuple[int | None, int | None], AlertCause]


def _faults(
    closed: list[Standing], breakers: _Trips, calls: Mapping[int, Calls], told: _Alerts, now: datetime
) -> list[WorkerFault]:
    """Workers in trouble of their own in front of a circuit that is closed for the fleet.

    Either the core found that one fails alone, or too few workers live for a quorum and its own breaker opened.
    """
    faults = [*_alone(closed, breakers, calls, told, now), *_unheard(closed, breakers, calls)]
    return sorted(faults, key=lambda fault: (not fault.taken, fault.seen_at), reverse=True)


def _alone(
    closed: list[Standing], trips: _Trips, calls: Mapping[int, Calls], told: _Alerts, now: datetime
) -> Iterator[WorkerFault]:
    for one in closed:
        worker, seen_at, key = one.row.fault_worker, one.row.fault_seen_at, one.dependency.pk
        if worker is not None and seen_at is not None and _lately(seen_at, now):
            trip, alert = trips.get((key, worker.pk)), told.get((one.row.pk, worker.pk))
            yield WorkerFault(worker, seen_at, trip, one, calls.get(key, Calls()), alone=True, alert=alert)


def _unheard(closed: list[Standing], trips: _Trips, calls: Mapping[int, Calls]) -> Iterator[WorkerFault]:
    short = {one.dependency.pk: one for one in closed if one.row.quorum_short_at is not None}
    for (key, _), trip in trips.items():
        if key in short and trip.worker is not None and trip.worker_id != short[key].row.fault_worker_id:
            yield WorkerFault(trip.worker, trip.at, trip, short[key], calls.get(key, Calls()), alone=False)


def _own_breakers(environment: Environment, glances: Iterable[Glance], now: datetime) -> _Trips:
    """By dependency and worker, the last opening of that worker's own breaker since the circuit closed."""
    since = {one.dependency_id: one.since or now - FAULTS_WITHIN for one in glances if one.kind == "closed"}
    rows = Trip.objects.filter(environment=environment, scope=Scope.WORKER.value, at__gte=now - FAULTS_WITHIN)
    latest = rows.order_by("dependency_id", "worker_id", "-at").distinct("dependency_id", "worker_id")
    return {
        (trip.dependency_id, trip.worker_id): trip
        for trip in latest.select_related("worker")
        if trip.worker_id is not None and trip.dependency_id in since and trip.at >= since[trip.dependency_id]
    }


def recent_trips(environment: Environment, limit: int = RECENT) -> list[Trip]:
    """The last openings and withdrawals, newest first."""
    rows = Trip.objects.filter(environment=environment)
    return list(rows.select_related("dependency", "tool", "worker")[:limit])


def _share(environment: Environment, now: datetime) -> Share:
    rows = Run.objects.filter(environment=environment, started_at__gte=now - SHARE_WITHIN).order_by()
    found = rows.aggregate(
        every=Count("pk"),
        lacking=Count("pk", filter=Q(degraded=True)),
        silent=Count("pk", filter=Q(degraded=True, disclosed=False)),
    )
    return Share(found["every"], found["lacking"], found["silent"])


def _delivery(environment: Environment, now: datetime, evidence_store_up: bool) -> Delivery:
    ours = processes.all_heard(now)
    latest = DocumentVersion.objects.filter(environment=environment).values_list("epoch", "config").first()
    epoch, config = latest or ("", 0)
    live = Session.objects.filter(worker__environment=environment, last_seen_at__gte=now - LIVE_WITHIN)
    sessions = live.aggregate(
        alive=Count("pk"),
        polling=Count("pk", filter=Q(feed="polling")),
        stale=Count("pk", filter=Q(stale_s__gt=0)),
        old_config=Count("pk", filter=_old_config(epoch, config)),
    )
    return Delivery(
        sessions=sessions["alive"],
        polling=sessions["polling"],
        stale=sessions["stale"],
        old_config=sessions["old_config"],
        scheduler_at=ours["scheduler"].last_at,
        scheduler_alive=ours["scheduler"].working > 0,
        celery_workers=ours["worker"].working,
        degraded_evidence=not evidence_store_up,
        now=now,
    )


def _old_config(epoch: str, config: int) -> Q:
    """Sessions that report another config than the one in force."""
    return Q(config_version__isnull=False) & (~Q(config_epoch=epoch) | Q(config_version__lt=config))


_QUARANTINED = Q(quarantined_at__isnull=False)


def _discovered(environment: Environment) -> list[Tool]:
    rows = Tool.objects.filter(environment=environment, discovered_by__isnull=False, class_confirmed=False)
    return list(rows.select_related("discovered_by__agent").order_by("-created_at")[:RECENT])


def agents(environment: Environment) -> list[Agent]:
    """The agents of an environment, by name."""
    return list(Agent.objects.filter(environment=environment))
