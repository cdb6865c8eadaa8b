"""Runs for people: lists that page by keys, and one run with its steps, trips and kin."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import F, Q, QuerySet

from controlplane.models import Environment, Run, StepLog, Trip

PAGE = 50


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs: all, degraded or undisclosed; of one agent, one status, one dependency."""

    show: str = "degraded"
    agent: str = ""
    status: str = ""
    dependency: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """A place in the list: newest first, the id breaks ties."""

    started_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True)
class RunList:
    """One page of runs, and the key of the next."""

    runs: list[Run]
    after: Key | None


def runs(environment: Environment, wanted: Filter, *, after: Key | None = None, limit: int = PAGE) -> RunList:
    """The runs that match, newest first, from a key on; the cost does not grow with the page number."""
    rows = _matching(environment, wanted)
    if after is not None:
        earlier = Q(started_at__lt=after.started_at) | Q(started_at=after.started_at, id__lt=after.id)
        rows = rows.filter(earlier, started_at__lte=after.started_at)
    found = list(rows.select_related("agent", "worker")[: limit + 1])
    more = len(found) > limit
    shown = found[:limit]
    return RunList(shown, Key(shown[-1].started_at, shown[-1].pk) if more else None)


def _matching(environment: Environment, wanted: Filter) -> QuerySet[Run]:
    rows = Run.objects.filter(environment=environment)
    if wanted.show in ("degraded", "undisclosed"):
        rows = rows.filter(degraded=True)
    if wanted.show == "undisclosed":
        rows = rows.filter(disclosed=False)
    if wanted.agent:
        rows = rows.filter(agent__slug=wanted.agent)
    if wanted.status:
        rows = rows.filter(status=wanted.status)
    if wanted.dependency:
        rows = rows.filter(missing__contains=[{"dependency": wanted.dependency}])
    return rows.order_by(F("started_at").desc(), F("id").desc())


@dataclass(frozen=True, slots=True)
class RunPage:
    """One run."""

    run: Run
    log: list[dict[str, object]] | None
    """None: none was kept, for a healthy run is only logged now and then."""
    trips: list[Trip]
    parent: Run | None
    children: list[Run]


def page(run_id: UUID) -> RunPage | None:
    """One run with its steps, trips and kin; kin of another environment stay out of sight."""
    run = Run.objects.filter(pk=run_id).select_related("environment", "agent", "worker").first()
    if run is None:
        return None
    kin = Run.objects.filter(environment=run.environment).select_related("agent")
    log = StepLog.objects.filter(run=run).first()
    return RunPage(
        run=run,
        log=log.lines if log else None,
        trips=list(Trip.objects.filter(run=run.pk, environment=run.environment).select_related("tool", "dependency")),
        parent=kin.filter(pk=run.parent).first() if run.parent else None,
        children=list(kin.filter(parent=run.pk)[:PAGE]),
    )
