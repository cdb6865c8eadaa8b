"""Runs for people: lists that page by keys, and one run with its steps, trips and kin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet
from recloser.core.budget import HEALTHY_RUNS
from recloser.core.types import Scope

from controlplane.models import Agent, Baseline, Environment, Outage, Run, StepLog, Tool, Transition, Trip
from controlplane.selectors import lines
from controlplane.selectors.keyset import Columns, Key, Order, beyond, instant, next_key
from controlplane.selectors.lines import RunLine

PAGE = 50
KIN = 200
DEEPEST = 12
"""A family is followed no further than this: deeper nesting is a loop, or nobody reads it."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs: all, degraded or undisclosed; of one agent, task kind, status; without one tool or dependency."""

    show: str = "degraded"
    agent: str = ""
    task_kind: str = ""
    status: str = ""
    tool: str = ""
    dependency: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def narrowed(self) -> bool:
        """Whether anything but the tab is chosen."""
        return self != Filter(show=self.show)


@dataclass(frozen=True, slots=True)
class RunList:
    """One page of runs, and the key of the next."""

    runs: list[RunLine]
    after: Key | None


COLUMNS: Columns = {"started_at": instant, "steps": int, "tokens": int, "cost": float}
NEWEST = Order("started_at")


def runs(
    environment: Environment, wanted: Filter, *, by: Order = NEWEST, after: Key | None = None, limit: int = PAGE
) -> RunList:
    """The runs that match, in this order, from a key on."""
    rows = beyond(_matching(environment, wanted), by, after)
    found = lines.of_runs(rows[: limit + 1])
    return RunList(_with_children(environment, found[:limit]), next_key(found, limit, by))


def _with_children(environment: Environment, shown: list[RunLine]) -> list[RunLine]:
    """Mark whose children were degraded: asked of these runs alone, not of every degraded run that there ever was."""
    ids = [run.pk for run in shown]
    children = Run.objects.filter(environment=environment, parent__in=ids, degraded=True).order_by()
    parents = set(children.values_list("parent", flat=True)) if ids else set()
    return [run._replace(child_degraded=True) if run.pk in parents else run for run in shown]


def _matching(environment: Environment, wanted: Filter) -> QuerySet[Run]:
    if wanted.since and wanted.until and wanted.since >= wanted.until:
        return Run.objects.none()
    rows = Run.objects.filter(environment=environment)
    if wanted.show in ("degraded", "undisclosed"):
        rows = rows.filter(degraded=True)
    if wanted.show == "undisclosed":
        rows = rows.filter(disclosed=False)
    if wanted.agent:  # by id: of that the database knows how many runs there are
        rows = rows.filter(agent__in=list(Agent.objects.filter(environment=environment, slug=wanted.agent)))
    if lacked := {name: value for name in ("tool", "dependency") if (value := getattr(wanted, name))}:
        rows = rows.filter(missing__contains=[lacked])
    return rows.filter(**_exactly(wanted))


def _exactly(wanted: Filter) -> dict[str, Any]:
    """What a column must hold."""
    values = {
        "task_kind": wanted.task_kind,
        "status": wanted.status,
        "started_at__gte": wanted.since,
        "started_at__lt": wanted.until,
    }
    return {name: value for name, value in values.items() if value}


def lacks(run: Run | RunLine) -> list[dict[str, Any]]:
    """What it went without: the entries that are entries."""
    given = run.missing if isinstance(run.missing, list) else []
    return [one for one in given if isinstance(one, dict)]


def own_lacks(run: Run | RunLine) -> list[dict[str, Any]]:
    """What its own tools array lacked: without what it was told of its children."""
    return [one for one in lacks(run) if not one.get("run")]


@dataclass(frozen=True, slots=True)
class Call:
    """One line of the step log. A mark is a letter that its twins in this run share; empty where it has none."""

    line: dict[str, Any]
    args_mark: str = ""
    args_times: int = 1
    result_mark: str = ""
    result_times: int = 1


@dataclass(frozen=True, slots=True)
class Step:
    """One model turn: its calls, what tripped in it, and what was gone from it on."""

    number: int
    calls: list[Call]
    trips: list[Trip]
    gone: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Kin:
    """One run of the family, how deep below the eldest, and whether it is the one on show."""

    run: Run
    depth: int
    here: bool


@dataclass(frozen=True, slots=True)
class RunPage:
    """One run."""

    run: Run
    steps: list[Step]
    logged: bool
    """False: no log was kept, for a healthy run is only logged now and then."""
    trips: list[Trip]
    kin: list[Kin]
    """The whole family, the eldest first; empty for a run on its own."""
    baseline: Baseline | None = None
    """What healthy runs of its kind spend a step, so far as they have been looked through."""

    @property
    def spend_per_step(self) -> tuple[float, float]:
        """Tokens and cost."""
        return self.run.tokens / max(self.run.steps, 1), self.run.cost / max(self.run.steps, 1)

    @property
    def baseline_wants(self) -> int:
        """How many healthy runs are still missing before there is something to compare with."""
        seen = self.baseline.runs if self.baseline else 0
        return max(HEALTHY_RUNS - seen, 0)

    @property
    def below(self) -> list[Run]:
        """Runs that this one started, directly or not."""
        place = next((at for at, one in enumerate(self.kin) if one.here), len(self.kin))
        depth = self.kin[place].depth if place < len(self.kin) else 0
        found = []
        for one in self.kin[place + 1 :]:
            if one.depth <= depth:
                break
            found.append(one.run)
        return found

    @property
    def degraded_below(self) -> list[Run]:
        """Those of them that went without something: what they gave this run may be poorer for it."""
        return [run for run in self.below if run.degraded]

    @property
    def lacked_below(self) -> list[dict[str, Any]]:
        """What its subagents lacked, each with its `run`: as it reports it itself, and as they do."""
        theirs = [{**one, "run": str(run.pk)} for run in self.degraded_below for one in own_lacks(run)]
        told = [one for one in lacks(self.run) if one.get("run")]
        return list({(one["run"], one.get("tool")): one for one in [*told, *theirs]}.values())


def page(run_id: UUID) -> RunPage | None:
    """One run with its steps, trips and kin; kin of another environment stay out of sight."""
    run = Run.objects.filter(pk=run_id).select_related("environment", "agent", "worker").first()
    if run is None:
        return None
    log = StepLog.objects.filter(run=run).first()
    trips = list(
        Trip.objects.filter(run=run.pk, environment=run.environment).select_related("tool", "dependency").order_by("at")
    )
    lines = [line for line in log.lines if isinstance(line, dict)] if log else []
    baseline = Baseline.objects.filter(agent=run.agent_id, task_kind=run.task_kind).first() if run.task_kind else None
    return RunPage(run, _steps(run, lines, trips), log is not None, trips, family(run), baseline)


def _steps(run: Run, lines: list[dict[str, Any]], trips: Iterable[Trip]) -> list[Step]:
    """Every step of which something is known, in order."""
    found: dict[int, Step] = {}

    def step(number: Any) -> Step:
        key = number if isinstance(number, int) else 0
        return found.setdefault(key, Step(key, [], [], []))

    for call in _marked(lines):
        step(call.line.get("step")).calls.append(call)
    for trip in trips:
        if trip.step is not None:
            step(trip.step).trips.append(trip)
    for one in own_lacks(run):
        step(one.get("step") or 0).gone.append(one)
    return [found[number] for number in sorted(found)]


def _marked(lines: list[dict[str, Any]]) -> list[Call]:
    """Calls whose arguments or results occur again get a letter in common: hashes are salted, so only this is told."""
    args, results = (
        _marks([(str(line.get("tool")), line.get(field)) for line in lines]) for field in ("args", "result")
    )
    return [Call(line, *given, *got) for line, given, got in zip(lines, args, results, strict=True)]


def _marks(keys: list[tuple[str, Any]]) -> list[tuple[str, int]]:
    times: dict[tuple[str, Any], int] = {}
    for key in keys:
        if key[1]:
            times[key] = times.get(key, 0) + 1
    repeated = [key for key, count in times.items() if count > 1]
    letters = {key: _letter(place) for place, key in enumerate(repeated)}
    return [(letters.get(key, ""), times.get(key, 1)) for key in keys]


def _letter(place: int) -> str:
    """A, B, ... Z, A2, B2: readable marks, whatever their number."""
    turn, letter = divmod(place, 26)
    return chr(ord("A") + letter) + (str(turn + 1) if turn else "")


_FAMILY = """
WITH RECURSIVE elders(id, parent, height) AS (
    SELECT id, parent, 0 FROM controlplane_run WHERE id = %(run)s
    UNION ALL
    SELECT r.id, r.parent, e.height + 1 FROM elders e
    JOIN controlplane_run r ON r.id = e.parent AND r.environment_id = %(environment)s
    WHERE e.height < %(deepest)s
),
eldest AS (SELECT id FROM elders ORDER BY height DESC LIMIT 1),
family(id, depth, path) AS (
    SELECT r.id, 0, ARRAY[extract(epoch FROM r.started_at)::text || r.id] FROM controlplane_run r
    JOIN eldest ON r.id = eldest.id
    UNION ALL
    SELECT r.id, f.depth + 1, f.path || (extract(epoch FROM r.started_at)::text || r.id) FROM family f
    JOIN controlplane_run r ON r.parent = f.id AND r.environment_id = %(environment)s
    WHERE f.depth < %(deepest)s
)
SELECT id, min(depth) FROM (SELECT * FROM family LIMIT %(limit)s) AS found GROUP BY id ORDER BY min(path)
"""


def family(run: Run) -> list[Kin]:
    """The family of a run, each elder before what it started, siblings by age; empty where it is alone."""
    values: dict[str, Any] = {"run": run.pk, "environment": run.environment_id, "deepest": DEEPEST, "limit": KIN}
    with connection.cursor() as cursor:
        cursor.execute(_FAMILY, values)
        places = dict(cursor.fetchall())
    if len(places) < 2:
        return []
    rows = Run.objects.filter(pk__in=list(places)).select_related("agent").in_bulk()
    return [Kin(rows[key], depth, key == run.pk) for key, depth in places.items() if key in rows]


@dataclass(frozen=True, slots=True)
class Why:
    """Why one tool was not there for one run, with what shows it."""

    run: Run
    tool: str
    known: Tool | None
    declared: bool
    lack: dict[str, Any] | None
    trip: Trip | None
    """The opening or withdrawal that took it."""
    transition: Transition | None
    """A hand's doing, where no signal took it."""
    outage: Outage | None
    below: tuple[str, ...] = ()
    """Children that lacked it, by id, as this run reports; a child is asked about by its own id."""

    @property
    def by_hand(self) -> bool:
        """Whether a person took it away."""
        return self.trip is None and self.transition is not None


def why(run: Run, tool: str) -> Why:
    """Look for what took this tool from this run: its own trip first, then the worker's, then the fleet's."""
    lack = next((one for one in own_lacks(run) if one.get("tool") == tool), None)
    known = Tool.objects.filter(environment=run.environment_id, name=tool).prefetch_related("dependencies").first()
    declared = isinstance(run.tools, list) and tool in run.tools
    if lack is None:
        below = tuple(str(one["run"]) for one in lacks(run) if one.get("tool") == tool)
        return Why(run, tool, known, declared, None, None, None, None, below)
    trip = _taken_by(run, known, lack)
    transition = None if trip else _held_by(run, lack)
    return Why(run, tool, known, declared, lack, trip, transition, _outage_of(trip, transition))


def _taken_by(run: Run, known: Tool | None, lack: dict[str, Any]) -> Trip | None:
    rows = Trip.objects.filter(environment=run.environment_id).select_related("dependency", "tool", "worker", "outage")
    scope = lack.get("scope")
    if scope == Scope.RUN:
        own = rows.filter(run=run.pk, scope=Scope.RUN.value, signal=str(lack.get("cause")))
        mine = Q(tool=known) if known else Q()
        return own.filter(mine).order_by("at").first() or own.filter(_behind(lack)).order_by("at").first()
    before = rows.filter(_behind(lack), at__lte=_last_moment(run), delivery="enforce")
    if scope == Scope.WORKER:
        return before.filter(scope=Scope.WORKER.value, worker=run.worker_id).order_by("-at").first()
    found = before.filter(scope=Scope.FLEET.value).order_by("-at").first()
    return found if found is not None and lack.get("cause") == found.signal else None


def _behind(lack: dict[str, Any]) -> Q:
    return Q(dependency__slug=str(lack.get("dependency")))


def _last_moment(run: Run) -> datetime:
    return run.ended_at or run.reported_at


def _held_by(run: Run, lack: dict[str, Any]) -> Transition | None:
    """The last hold of the circuit before the run ended."""
    rows = Transition.objects.filter(
        circuit__environment=run.environment_id,
        circuit__dependency__slug=str(lack.get("dependency")),
        to_mode="forced_open",
        at__lte=_last_moment(run),
    )
    return rows.select_related("outage").order_by("-at").first()


def _outage_of(trip: Trip | None, transition: Transition | None) -> Outage | None:
    if trip is not None:
        return trip.outage
    return transition.outage if transition is not None else None


def task_kinds(environment: Environment, among: int = 1000) -> list[str]:
    """The kinds of task among the latest runs, by name."""
    recent = Run.objects.filter(environment=environment).order_by("-started_at").values_list("task_kind", flat=True)
    return sorted(set(recent[:among]) - {""})
