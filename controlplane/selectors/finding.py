"""What somebody looks for by a few letters: circuits, tools and runs of one environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from django.db.models import Case, IntegerField, Model, Q, QuerySet, Value, When

from controlplane.models import Circuit, Environment, Run, Tool, Trip

EACH = 7
"""So many of a kind: what stands further down is found with one more letter."""

RECENT = 400
"""Runs are found by name among the latest; by id among all."""

Row = TypeVar("Row", bound=Model)

HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Found:
    """What fits, the best first."""

    circuits: Sequence[Circuit] = ()
    tools: Sequence[Tool] = ()
    runs: Sequence[Run] = ()
    trips: Sequence[Trip] = ()

    @property
    def count(self) -> int:
        """How many together."""
        return len(self.circuits) + len(self.tools) + len(self.runs) + len(self.trips)


def find(environment: Environment, text: str, *, each: int = EACH) -> Found:
    """Whatever has this text in its name or begins with it as its id; nothing for no text."""
    wanted = text.strip()
    if not wanted:
        return Found()
    circuits = Circuit.objects.filter(environment=environment).select_related("dependency")
    tools = Tool.objects.filter(environment=environment)
    return Found(
        list(_named(circuits, "dependency__slug", wanted)[:each]),
        list(_named(tools, "name", wanted)[:each]),
        _runs(environment, wanted, each),
        list(_by_id(Trip.objects.filter(environment=environment), wanted).select_related("tool", "dependency")[:each]),
    )


def _named(rows: QuerySet[Row], field: str, wanted: str) -> QuerySet[Row]:
    """Those with the text in their name; the ones that begin with it first."""
    first = Case(
        When(**{f"{field}__istartswith": wanted}, then=Value(0)), default=Value(1), output_field=IntegerField()
    )
    return rows.filter(**{f"{field}__icontains": wanted}).order_by(first, field)


def _runs(environment: Environment, wanted: str, each: int) -> list[Run]:
    rows = Run.objects.filter(environment=environment).select_related("agent")
    if exact := list(_by_id(rows, wanted)[:each]):
        return exact
    latest = Run.objects.filter(environment=environment).order_by("-started_at").values("pk")[:RECENT]
    named = Q(task_kind__icontains=wanted) | Q(agent__slug__icontains=wanted)
    return list(rows.filter(named, pk__in=latest).order_by("-started_at")[:each])


def _by_id(rows: QuerySet[Row], wanted: str) -> QuerySet[Row]:
    """Those whose id begins with the text: a range of the key's own index."""
    digits = wanted.replace("-", "").lower()
    if not 4 <= len(digits) <= 32 or not set(digits) <= HEX:
        return rows.none()
    return rows.filter(pk__gte=UUID(digits.ljust(32, "0")), pk__lte=UUID(digits.ljust(32, "f"))).order_by("pk")
