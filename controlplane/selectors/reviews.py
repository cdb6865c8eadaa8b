"""What waits for a second person, and what it would change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from recloser.core.policy import CIRCUIT_FIELDS, RUN_FIELDS, Field, Resolved, plain
from recloser.core.types import SideEffectClass

from controlplane.delivery import resolve
from controlplane.models import Environment, PolicyRevision

SHOWN_ENDED = 20
_UNSET = object()
_WAITING = (PolicyRevision.Status.DRAFT, PolicyRevision.Status.IN_REVIEW)


def reviews() -> QuerySet[PolicyRevision]:
    """Every change that was sent for review or kept as a draft, whatever became of it."""
    asked = PolicyRevision.objects.filter(submitted_at__isnull=False) | PolicyRevision.objects.filter(
        status__in=[*_WAITING, PolicyRevision.Status.WITHDRAWN]
    )
    return asked.select_related("environment", "dependency", "tool")


def waiting(environment: Environment) -> list[PolicyRevision]:
    """In review, the oldest first."""
    return list(_in_review(environment).order_by("submitted_at", "pk"))


def waiting_count(environment: Environment) -> int:
    """How many wait for a second person."""
    return _in_review(environment).count()


def drafts(environment: Environment, author: str) -> list[PolicyRevision]:
    """What one person has begun and not sent."""
    rows = reviews().filter(environment=environment, status=PolicyRevision.Status.DRAFT, created_by=author)
    return list(rows.order_by("-pk"))


def ended(environment: Environment) -> list[PolicyRevision]:
    """The last that were decided, newest first."""
    rows = reviews().filter(environment=environment, decided_at__isnull=False)
    return list(rows.order_by("-decided_at", "-pk")[:SHOWN_ENDED])


def _in_review(environment: Environment) -> QuerySet[PolicyRevision]:
    return reviews().filter(environment=environment, status=PolicyRevision.Status.IN_REVIEW)


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
