"""What waits for a second person, and what it would change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from recloser.core.policy import CIRCUIT_FIELDS, RUN_FIELDS, Field, Resolved, plain
from recloser.core.types import SideEffectClass

from controlplane.delivery import resolve
from controlplane.models import Environment, PolicyRevision, Tool, ToolChange, User
from controlplane.permissions import EDIT_POLICY, GRANTS

SHOWN_ENDED = 20
_UNSET = object()
DRAFT, IN_REVIEW = "draft", "in_review"
_WAITING = (DRAFT, IN_REVIEW)


def reviews() -> QuerySet[PolicyRevision]:
    """Every change that was sent for review or kept as a draft, whatever became of it."""
    asked = PolicyRevision.objects.filter(submitted_at__isnull=False) | PolicyRevision.objects.filter(
        status__in=[*_WAITING, PolicyRevision.Status.WITHDRAWN]
    )
    return asked.select_related("environment", "dependency", "tool")


def tool_changes() -> QuerySet[ToolChange]:
    """Every change of a tool that was proposed, whatever became of it."""
    return ToolChange.objects.select_related("environment", "tool__environment")


Proposal = PolicyRevision | ToolChange


def waiting(environment: Environment) -> list[Proposal]:
    """In review, the oldest first."""
    found = [row for rows in _both(environment, status=IN_REVIEW) for row in rows]
    return sorted(found, key=lambda row: (row.submitted_at or row.created_at, row.pk))


def waiting_count(environment: Environment) -> int:
    """How many wait for a second person."""
    policies, tools = (rows.order_by().values("pk") for rows in _both(environment, status=IN_REVIEW))
    return policies.union(tools, all=True).count()


def drafts(environment: Environment, author: str) -> list[Proposal]:
    """What one person has begun and not sent."""
    found = [row for rows in _both(environment, status=DRAFT, created_by=author) for row in rows]
    return sorted(found, key=lambda row: (row.created_at, row.pk), reverse=True)


def ended(environment: Environment) -> list[Proposal]:
    """The last that were decided, newest first."""
    both = _both(environment, decided_at__isnull=False)
    found = [row for rows in both for row in rows.order_by("-decided_at", "-pk")[:SHOWN_ENDED]]
    return sorted(found, key=lambda row: (row.decided_at, row.pk), reverse=True)[:SHOWN_ENDED]


def open_changes(tool: Tool) -> list[ToolChange]:
    """What waits for a second person to say what a tool may be, the oldest first."""
    return list(tool_changes().filter(tool=tool, status=IN_REVIEW).order_by("submitted_at", "pk"))


def deciders() -> list[str]:
    """Who may approve or reject what somebody else proposes."""
    roles = [role for role, granted in GRANTS.items() if EDIT_POLICY in granted]
    people = User.objects.filter(is_active=True, role__in=roles).order_by("username")
    return list(people.values_list("username", flat=True))


def _both(environment: Environment, **more: Any) -> tuple[QuerySet[PolicyRevision], QuerySet[ToolChange]]:
    return reviews().filter(environment=environment, **more), tool_changes().filter(environment=environment, **more)


@dataclass(frozen=True, slots=True)
class ToolValue:
    """One value of a tool: as it is, or was when it was decided, and as it would be."""

    name: str
    before: Any
    after: Any


def tool_values(change: ToolChange) -> list[ToolValue]:
    """What a change of a tool changes: against what is in force, or what was when its review was asked for."""
    before = change.before if change.decided_at or not change.submitted_at else {}
    return [ToolValue(name, before.get(name, _held(change.tool, name)), after)
            for name, after in change.wanted.items()]  # fmt: skip


def _held(tool: Tool, name: str) -> Any:
    if name == "dependencies":
        return sorted(tool.dependencies.values_list("slug", flat=True))
    return getattr(tool, name)


@dataclass(frozen=True, slots=True)
class Change:
    """One value that a revision sets otherwise; where a layer sets none, what holds without it."""

    field: Field
    before: Any
    before_origin: str
    after: Any
    after_origin: str

    @property
    def name(self) -> str:
        """As the schema calls it."""
        return self.field.name

    @property
    def part(self) -> str:
        """`circuit` or `run`."""
        return self.field.policy


def changes(revision: PolicyRevision) -> list[Change]:
    """What a revision changes: against what is in force, or what was when it came into force."""
    before = _before(revision)
    above = resolve.Published(_above(revision))
    parts = zip(_parts(revision, above), _own(revision, before), _own(revision, revision), strict=True)
    level = PolicyRevision.Level(revision.level).value
    found: list[Change] = []
    for (fields, inherited), old, new in parts:
        found += _of_part(fields, inherited, old, new, level)
    return found


def _before(revision: PolicyRevision) -> PolicyRevision | None:
    layer = PolicyRevision.objects.filter(
        environment=revision.environment_id, level=revision.level, side_effect=revision.side_effect,
        dependency=revision.dependency_id, tool=revision.tool_id,
    )  # fmt: skip
    if revision.published_at is None:
        return layer.filter(status=PolicyRevision.Status.PUBLISHED).first()
    return layer.filter(number__lt=revision.number, published_at__isnull=False).order_by("-number").first()


def _above(revision: PolicyRevision) -> list[PolicyRevision]:
    """The published layers without this one."""
    owner = _owner(revision)
    rows = PolicyRevision.objects.filter(environment=revision.environment_id, status=PolicyRevision.Status.PUBLISHED)
    return [row for row in rows if _owner(row) != owner]


def _owner(row: PolicyRevision) -> tuple[str, str, int | None, int | None]:
    return row.level, row.side_effect, row.dependency_id, row.tool_id


_Part = tuple[Mapping[str, Field], Resolved[Any]]


def _parts(revision: PolicyRevision, above: resolve.Published) -> tuple[_Part, _Part]:
    """Circuit and run as they are without the layer."""
    character = _character(revision)
    return (
        (CIRCUIT_FIELDS, above.circuit(revision.dependency_id, character)),
        (RUN_FIELDS, above.run(revision.tool_id, character)),
    )


def _character(revision: PolicyRevision) -> resolve.Character:
    if revision.tool is not None:
        return resolve.character_of([revision.tool])
    if revision.dependency is not None:
        return resolve.character_of(revision.dependency.tools.all())
    if revision.side_effect:
        return resolve.Character(SideEffectClass(revision.side_effect), costly=False)
    return resolve.UNKNOWN


def _own(revision: PolicyRevision, row: PolicyRevision | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return resolve.split(revision.level, row.values if row else {})


def _of_part(
    fields: Mapping[str, Field], inherited: Resolved[Any], old: Mapping[str, Any], new: Mapping[str, Any], level: str
) -> Iterable[Change]:
    for name, field in fields.items():
        if old.get(name, _UNSET) == new.get(name, _UNSET):
            continue
        without = (plain(field, getattr(inherited.policy, name)), inherited.origins[name].value)
        before = (old[name], level) if name in old else without
        after = (new[name], level) if name in new else without
        yield Change(field, *before, *after)
