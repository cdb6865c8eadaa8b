"""Tools for people: which there are, what stands behind them, what is decided, and what proving one down takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, CharField, Prefetch, QuerySet, Sum, Value, When
from django.db.models.functions import Concat
from recloser.core.effects import Basis, Claim, claim_of_all, in_words
from recloser.core.policy import Resolved, RunPolicy, strictest
from recloser.core.types import SideEffectClass

from controlplane.delivery import resolve
from controlplane.evidence.outcomes import failed
from controlplane.models import Dependency, Environment, Observation, PolicyRevision, Run, Tool, ToolHints, Trip
from controlplane.selectors.keyset import Columns, Key, Order, beyond, instant, next_key

HINTS = Prefetch("hints", ToolHints.objects.select_related("agent", "key"))
MEASURED_OVER = timedelta(hours=24)
RECENT_TRIPS = 8
REVISIONS = 20
PAGE = 100
MOST_WAITING = 500


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One tool, and what its policy comes to."""

    tool: Tool
    resolved: Resolved[RunPolicy]

    @property
    def policy(self) -> RunPolicy:
        """The policy in force."""
        return self.resolved.policy

    @property
    def decided(self) -> bool:
        """Whether anyone has decided what a run does without it."""
        return self.policy.degraded_behaviour != "undecided"

    @property
    def waits(self) -> bool:
        """Whether it waits for a person: its class was not confirmed, or nobody has decided."""
        return not self.tool.class_confirmed

    @property
    def proposal(self) -> Claim | None:
        """The class that its name and its own hints suggest; None once one is confirmed, or where they say nothing."""
        return proposed(self.tool)

    @property
    def claims(self) -> list[Told]:
        """What it says of itself, as each agent told it."""
        return told(self.tool)

    @property
    def contradicted(self) -> Claim | None:
        """The class that its hints claim, where that is stricter than the one that a person confirmed."""
        claimed = _claimed(self.tool) if self.tool.class_confirmed and self.claims else None
        confirmed = SideEffectClass(self.tool.side_effect)
        stricter = claimed is not None and strictest((claimed.side_effect, confirmed)) is not confirmed
        return claimed if stricter and claimed is not None and claimed.basis is Basis.HINTS else None


@dataclass(frozen=True, slots=True)
class Told:
    """What a tool says of itself, as one agent told it: a claim."""

    agent: str
    stated: dict[str, bool]
    told_at: datetime
    counted: bool
    """False: told by a key in quarantine."""

    @property
    def in_words(self) -> str:
        """By MCP's names."""
        return in_words(self.stated)


def told(tool: Tool) -> list[Told]:
    """The claims about a tool, by agent; of none that says nothing any more."""
    return [
        Told(row.agent.slug, row.stated(), row.told_at, row.key is None or row.key.quarantined_at is None)
        for row in tool.hints.all()
        if row.stated()
    ]


def proposed(tool: Tool) -> Claim | None:
    """The class that a person may confirm: the strictest that name and hints suggest; None where there is none."""
    if tool.class_confirmed:
        return None
    suggested = _claimed(tool)
    return suggested if suggested.side_effect is not SideEffectClass.UNKNOWN else None


def _claimed(tool: Tool) -> Claim:
    return claim_of_all(tool.name, [each.stated for each in told(tool) if each.counted])


@dataclass(frozen=True, slots=True)
class ToolList:
    """One page of tools, and the key of the next."""

    tools: list[ToolRow]
    after: Key | None


COLUMNS: Columns = {"place": str, "name": str, "side_effect": str, "owner": str, "created_at": instant}
"""`place`: those that wait for a person first, then by name."""
WAITING_FIRST = Order("place", falling=False)

_PLACE = Concat(Case(When(class_confirmed=True, then=Value("1")), default=Value("0")), "name", output_field=CharField())


def tools(
    environment: Environment, *, by: Order = WAITING_FIRST, after: Key | None = None, limit: int = PAGE
) -> ToolList:
    """Every tool, in this order, from a key on."""
    found = list(beyond(_of(environment).annotate(place=_PLACE), by, after)[: limit + 1])
    published = resolve.published(environment.pk)
    return ToolList([_row(tool, published) for tool in found[:limit]], next_key(found, limit, by))


def waiting(environment: Environment) -> int:
    """How many tools wait for somebody to confirm their class; counted no further than anybody would read."""
    rows = Tool.objects.filter(environment=environment, class_confirmed=False).order_by()
    return len(rows.values_list("pk")[:MOST_WAITING])


def find(environment: Environment, name: str) -> ToolRow | None:
    """The tool of that name."""
    tool = _of(environment).filter(name=name).prefetch_related(HINTS).first()
    return _row(tool, resolve.published(environment.pk)) if tool else None


def _row(tool: Tool, published: resolve.Published) -> ToolRow:
    return ToolRow(tool, published.run(tool.pk, resolve.character_of([tool])))


def _of(environment: Environment) -> QuerySet[Tool]:
    behind = Prefetch("dependencies", Dependency.objects.order_by("slug"))
    rows = Tool.objects.filter(environment=environment).select_related("environment", "discovered_by__agent")
    return rows.prefetch_related(behind).order_by("name")


@dataclass(frozen=True, slots=True)
class Measured:
    """What is typical of the runs and calls of a tool; None where nothing was reported."""

    step_limit: int | None
    """The commonest step limit that its runs declare."""
    attempts: float | None
    """HTTP attempts that a failed call took, on average, over the last 24 hours."""


def measured(tools: Iterable[Tool], environment: Environment, now: datetime) -> Measured:
    """For the figures beside the thresholds."""
    given = list(tools)
    return Measured(_step_limit(given, environment), _attempts(given, now))


def _step_limit(given: list[Tool], environment: Environment) -> int | None:
    recent = Run.objects.filter(environment=environment, step_limit__isnull=False).order_by("-started_at")
    names = {tool.name for tool in given}
    counts: dict[int, int] = {}
    for limit, declared in recent.values_list("step_limit", "tools")[:200]:
        if limit is not None and isinstance(declared, list) and names.intersection(map(str, declared)):
            counts[limit] = counts.get(limit, 0) + 1
    return max(counts, key=lambda limit: (counts[limit], limit)) if counts else None


def _attempts(given: list[Tool], now: datetime) -> float | None:
    """From slices in which every call failed: only there is it known whose attempts they were."""
    rows = Observation.objects.filter(
        dependency_id__in={row.pk for tool in given for row in tool.dependencies.all()},
        tool_id__in=[tool.pk for tool in given],
        received_at__gte=now - MEASURED_OVER,
        ok=0,
        empty=0,
        semantic_error=0,
    )
    found = rows.order_by().aggregate(attempts=Sum("attempts"), calls=Sum(failed()))
    return found["attempts"] / found["calls"] if found["calls"] else None


def recent_trips(tool: Tool) -> list[Trip]:
    """The last trips of a tool, newest first."""
    rows = Trip.objects.filter(tool=tool, environment=tool.environment_id).select_related(
        "dependency", "tool", "worker"
    )
    return list(rows[:RECENT_TRIPS])


@dataclass(frozen=True, slots=True)
class Layer:
    """What one tool or dependency sets by itself, and how that came about."""

    revisions: list[PolicyRevision]

    @property
    def published(self) -> PolicyRevision | None:
        """The revision in force, if it sets anything."""
        return next((row for row in self.revisions if row.status == PolicyRevision.Status.PUBLISHED), None)

    @property
    def number(self) -> int:
        """Of the revision in force; 0 without one."""
        return self.published.number if self.published else 0


def layer(environment: Environment, place: Mapping[str, Any]) -> Layer:
    """The revisions of one layer, newest first; `place` is its level and owner, as a revision holds them."""
    rows = PolicyRevision.objects.filter(environment=environment, **place)
    return Layer(list(rows.order_by("-number")[:REVISIONS]))
