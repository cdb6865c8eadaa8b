"""Operators name what agents call. A misspelt name is an error, never a new object."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from recloser.core.types import SideEffectClass

from controlplane.delivery import publish, versions
from controlplane.models import Circuit, Dependency, Environment, Tool
from controlplane.services import audit, loosening, policies
from controlplane.services.errors import Refused

LONGEST_NAME = 200


@audit.refusals("ensure_dependency")
@transaction.atomic
def ensure_dependency(
    *,
    environment: Environment,
    slug: str,
    actor: str,
    now: datetime,
    owner: str = "",
    description: str = "",
    must_be_new: bool = False,
) -> Dependency:
    """The dependency of that name with its circuit, made if it is new; an owner or description given is set."""
    _demand_name(slug, "slug")
    row, made = Dependency.objects.get_or_create(environment=environment, slug=slug, defaults={"created_at": now})
    if must_be_new and not made:
        raise taken("dependency", slug, "slug")
    Circuit.objects.get_or_create(dependency=row, defaults={"environment": environment})
    changed = _set(row, {"owner": owner, "description": description}, {"owner": 100, "description": 500})
    if made or changed:
        _told(environment, "ensure_dependency", slug, actor, {"new": made, **changed})
    return row


@audit.refusals("ensure_tool")
@transaction.atomic
def ensure_tool(
    *,
    environment: Environment,
    name: str,
    dependencies: Iterable[str],
    actor: str,
    now: datetime,
    side_effect: str | None = None,
    costly: bool | None = None,
    operation: str = "",
    owner: str = "",
    approved_by: str = "",
    must_be_new: bool = False,
) -> Tool:
    """The tool of that name behind these dependencies, which must exist; a class given is thereby confirmed.

    A milder class than the confirmed one needs `approved_by`, as a policy that loosens does.
    """
    _demand_name(name, "name")
    behind = [_dependency(environment, slug) for slug in dependencies]
    if not behind:
        raise Refused("bad_field", "a tool stands behind no dependency", "name at least one", "dependencies")
    row, made = Tool.objects.get_or_create(environment=environment, name=name, defaults={"created_at": now})
    if must_be_new and not made:
        raise taken("tool", name, "name")
    changed = _set(row, {"operation": operation, "owner": owner}, {"operation": 200, "owner": 100})
    if side_effect is not None:
        loosening.demand_class(row, known_class(side_effect), actor=actor, approved_by=approved_by)
    changed |= _classify(row, side_effect, costly)
    if {each.pk for each in behind} != set(row.dependencies.values_list("pk", flat=True)):
        row.dependencies.set(behind)
        changed["dependencies"] = sorted(each.slug for each in behind)
    if made or changed:
        policies.sweep_soon(environment_id=environment.pk, now=now)
        _told(environment, "ensure_tool", name, actor, {"new": made, **changed, **_approval(approved_by)})
    return row


def taken(noun: str, name: str, field: str) -> Refused:
    """The refusal to make a second one of that name."""
    return Refused("exists", f"there is a {noun} {name[:60]!r} already", "edit that one, or choose another name", field)


def find_dependency(*, environment: Environment, slug: str) -> Dependency:
    """The dependency of that name, or a refusal that says what was perhaps meant."""
    return _dependency(environment, slug)


def _dependency(environment: Environment, slug: str) -> Dependency:
    row = Dependency.objects.filter(environment=environment, slug=slug).first()
    if row is not None:
        return row
    known = Dependency.objects.filter(environment=environment).values_list("slug", flat=True)
    near = difflib.get_close_matches(slug[:LONGEST_NAME], list(known), n=1)
    mend = f"did you mean {near[0]}?" if near else "make the dependency first"
    raise Refused("unknown_dependency", f"{environment.slug} has no dependency {slug[:60]!r}", mend, "dependencies")


def _demand_name(name: str, field: str) -> None:
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        mend = f"use 1 to {LONGEST_NAME} printable characters, no blank at either end"
        raise Refused("bad_field", "that is no name", mend, field)


def _set(row: Dependency | Tool, values: dict[str, str], longest: dict[str, int]) -> dict[str, Any]:
    changed = {name: value for name, value in values.items() if value and getattr(row, name) != value}
    for name, value in changed.items():
        if len(value) > longest[name]:
            raise Refused("bad_field", f"the {name} is too long", f"use up to {longest[name]} characters", name)
        setattr(row, name, value)
    if changed:
        row.save(update_fields=list(changed))
    return changed


def known_class(word: str) -> SideEffectClass:
    """The class of that name, or a refusal."""
    if word not in set(SideEffectClass):
        raise Refused("bad_field", "there is no such class", f"use one of {', '.join(SideEffectClass)}", "side_effect")
    return SideEffectClass(word)


def _approval(approved_by: str) -> dict[str, str]:
    return {"approved_by": approved_by} if approved_by else {}


def _classify(row: Tool, side_effect: str | None, costly: bool | None) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    if side_effect is not None:
        wanted |= {"side_effect": side_effect, "class_confirmed": side_effect != SideEffectClass.UNKNOWN}
    if costly is not None:
        wanted["costly"] = costly
    changed = {name: value for name, value in wanted.items() if getattr(row, name) != value}
    for name, value in changed.items():
        setattr(row, name, value)
    if changed:
        row.save(update_fields=list(changed))
    return changed


def _told(environment: Environment, action: str, target: str, actor: str, detail: dict[str, Any]) -> None:
    audit.record(actor=actor, action=action, target=target, accepted=True, environment_id=environment.pk, detail=detail)
    versions.bump_config(environment.pk)
    publish.config_changed(environment.pk)
