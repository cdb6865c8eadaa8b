"""Things that people call by name. A misspelt name is an error that says what was perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TypeVar

from django.db.models import Model, QuerySet

from controlplane.models import Agent, Dependency, Environment, Tool

M = TypeVar("M", bound=Model)

LONGEST_SHOWN = 60
LONGEST_COMPARED = 200


class Unknown(LookupError):
    """There is nothing of that name there."""

    def __init__(self, noun: str, name: str, place: str, near: str | None) -> None:
        self.noun, self.name, self.near = noun, name, near
        self.message = f"{place} has no {noun} {name[:LONGEST_SHOWN]!r}"
        self.mend = f"did you mean {near}?" if near else f"look up the {noun}s there are"
        super().__init__(self.message)


def environment(slug: str) -> Environment:
    """The environment of that name."""
    return one(Environment.objects.all(), "slug", slug, noun="environment", place="this control plane")


def agent(here: Environment, slug: str) -> Agent:
    """The environment's agent of that name."""
    return one(Agent.objects.filter(environment=here), "slug", slug, noun="agent", place=here.slug)


def dependency(here: Environment, slug: str) -> Dependency:
    """The environment's dependency of that name."""
    return one(Dependency.objects.filter(environment=here), "slug", slug, noun="dependency", place=here.slug)


def tool(here: Environment, name: str) -> Tool:
    """The environment's tool of that name."""
    return one(Tool.objects.filter(environment=here), "name", name, noun="tool", place=here.slug)


def one(rows: QuerySet[M], field: str, name: str, *, noun: str, place: str) -> M:
    """The row of that name among these, or Unknown."""
    found = rows.filter(**{field: name}).first()
    if found is None:
        raise Unknown(noun, name, place, nearest(name, rows.order_by().values_list(field, flat=True)))
    return found


def nearest(name: str, known: Iterable[object]) -> str | None:
    """What was perhaps meant."""
    near = difflib.get_close_matches(name[:LONGEST_COMPARED], [str(each) for each in known], n=1)
    return near[0] if near else None
