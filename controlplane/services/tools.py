"""Operators name what agents call. A misspelt name is an error, never a new object."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from recloser.core.types import SideEffectClass

from controlplane.delivery import publish, versions
from controlplane.models import Circuit, Dependency, Environment, Tool
from controlplane.services import audit, loosening, policies
from controlplane.services.errors import Refused

LONGEST_NAME = 200
LONGEST = {"owner": 100, "description": 500, "operation": 200}


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
    changed = _set(row, {"owner": owner, "description": description})
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

    What guards it less than now, or a new one less than its class does, needs `approved_by`, another person.
    """
    _demand_name(name, "name")
    policies.lock(environment)
    asked = {"side_effect": side_effect, "costly": costly, "operation": operation or None, "owner": owner or None}
    given = {field: value for field, value in asked.items() if value is not None}
    new = wanted(environment, given | {"dependencies": dependencies})
    row, made = Tool.objects.get_or_create(environment=environment, name=name, defaults={"created_at": now})
    if must_be_new and not made:
        raise taken("tool", name, "name")
    loosening.demand_tool(row, new, actor=actor, approved_by=approved_by)
    if (changed := change(row, new)) or made:
        policies.sweep_soon(environment_id=environment.pk, now=now)
        _told(environment, "ensure_tool", name, actor, {"new": made, **changed, **approval(approved_by)})
    return row


def taken(noun: str, name: str, field: str) -> Refused:
    """The refusal to make a second one of that name."""
    return Refused("exists", f"there is a {noun} {name[:60]!r} already", "edit that one, or choose another name", field)


def held(tool: Tool) -> Tool:
    """The tool as it stands; it and what guards it stay so until the transaction ends."""
    policies.lock(tool.environment)
    return Tool.objects.select_for_update(no_key=True, of=("self",)).select_related("environment").get(pk=tool.pk)


def wanted(environment: Environment, given: Mapping[str, Any]) -> dict[str, Any]:
    """New values of a tool as they are kept: a class given is thereby confirmed, and dependencies are rows."""
    new = dict(given)
    if "side_effect" in new:
        new["side_effect"] = known_class(new["side_effect"]).value
        new["class_confirmed"] = new["side_effect"] != SideEffectClass.UNKNOWN
    if "dependencies" in new:
        new["dependencies"] = [find_dependency(environment=environment, slug=slug) for slug in new["dependencies"]]
        if not new["dependencies"]:
            raise Refused("bad_field", "a tool stands behind no dependency", "name at least one", "dependencies")
    return new


def change(row: Tool, new: Mapping[str, Any]) -> dict[str, Any]:
    """Save what differs, and say what did: nobody is told yet."""
    plain = {name: value for name, value in new.items() if name != "dependencies" and getattr(row, name) != value}
    _save(row, plain)
    return plain | _stand_behind(row, new.get("dependencies"))


def _stand_behind(row: Tool, behind: Iterable[Dependency] | None) -> dict[str, Any]:
    if behind is None or set(behind) == set(row.dependencies.all()):
        return {}
    row.dependencies.set(behind)
    return {"dependencies": sorted(each.slug for each in behind)}


def find_dependency(*, environment: Environment, slug: str) -> Dependency:
    """The one of that name, or a refusal that says what was perhaps meant."""
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


def _set(row: Dependency, values: dict[str, str]) -> dict[str, Any]:
    changed = {name: value for name, value in values.items() if value and getattr(row, name) != value}
    _save(row, changed)
    return changed


def _save(row: Dependency | Tool, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        longest = LONGEST.get(name)
        if longest is not None and len(value) > longest:
            raise Refused("bad_field", f"the {name} is too long", f"use up to {longest} characters", name)
        setattr(row, name, value)
    if values:
        row.save(update_fields=list(values))


def known_class(word: str) -> SideEffectClass:
    """The class of that name, or a refusal."""
    if word not in set(SideEffectClass):
        raise Refused("bad_field", "there is no such class", f"use one of {', '.join(SideEffectClass)}", "side_effect")
    return SideEffectClass(word)


def approval(approved_by: str) -> dict[str, str]:
    """As the record tells it."""
    return {"approved_by": approved_by} if approved_by else {}


def _told(environment: Environment, action: str, target: str, actor: str, detail: dict[str, Any]) -> None:
    audit.record(actor=actor, action=action, target=target, accepted=True, environment_id=environment.pk, detail=detail)
    versions.bump_config(environment.pk)
    publish.config_changed(environment.pk)
