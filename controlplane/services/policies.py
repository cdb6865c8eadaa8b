"""Publishing policies: validated by the core, kept as immutable revisions, in force at once; circuits keep state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max
from recloser.core.policy import CircuitPolicy, FieldError, Level, RunPolicy, contradictions, validate
from recloser.core.types import SideEffectClass, State

from controlplane.delivery import publish as delivery
from controlplane.delivery import resolve, versions
from controlplane.models import Circuit, Dependency, Environment, PolicyRevision, Tool
from controlplane.services import audit, loosening
from controlplane.services.errors import Refused

LEVELS = PolicyRevision.Level


def _target(given: Mapping[str, Any]) -> str:
    """As the record names a layer."""
    owner = given.get("dependency") or given.get("tool") or given.get("side_effect") or given["environment"].slug
    return f"{given['level']} {owner}"


@audit.refusals("publish_policy", target=_target)
@transaction.atomic
def publish(
    *,
    environment: Environment,
    level: str,
    values: Mapping[str, Any],
    reason: str,
    actor: str,
    now: datetime,
    dependency: Dependency | None = None,
    tool: Tool | None = None,
    side_effect: str = "",
    approved_by: str = "",
) -> PolicyRevision:
    """Put one layer's values in force, in place of the layer's former ones.

    A dependency sets circuit fields and a tool run fields; an environment and a class set both, under `circuit` and
    `run`. Raises Refused, naming the first field that is wrong; a rejected attempt is on record. What guards a tool
    less than its class does needs `approved_by`, another person than the actor: that they may is the caller's to check.
    """
    place: dict[str, Any] = {"level": level, "side_effect": side_effect, "dependency": dependency, "tool": tool}
    _demand_place(environment, **place)
    _demand_reason(reason)
    _demand_valid(level, values)
    loosening.demand_wording(level, values)
    loosening.demand_fallback(environment, place, values)
    loosening.demand_approval(environment, place, values, actor=actor, approved_by=approved_by)
    approver = approved_by.strip() if loosening.is_approved(actor, approved_by) else ""
    return _publish(environment, place, values, reason.strip(), actor, approver, now)


def _publish(
    environment: Environment,
    place: dict[str, Any],
    values: Mapping[str, Any],
    reason: str,
    actor: str,
    approved_by: str,
    now: datetime,
) -> PolicyRevision:
    Environment.objects.select_for_update(no_key=True).get(pk=environment.pk)
    former = PolicyRevision.objects.filter(environment=environment, **place)
    number = (former.aggregate(last=Max("number"))["last"] or 0) + 1
    former.filter(status=PolicyRevision.Status.PUBLISHED).update(
        status=PolicyRevision.Status.SUPERSEDED, superseded_at=now
    )
    revision = PolicyRevision.objects.create(
        environment=environment,
        **place,
        number=number,
        values=dict(values),
        content_hash=content_hash(values),
        status=PolicyRevision.Status.PUBLISHED,
        reason=reason,
        created_at=now,
        created_by=actor,
        approved_by=approved_by,
        published_at=now,
    )
    _demand_sense(environment, place)
    sweep_soon(environment_id=environment.pk, now=now)
    detail = {"number": number, "values": dict(values)} | ({"approved_by": approved_by} if approved_by else {})
    audit.record(
        actor=actor, action="publish_policy", target=_target({"environment": environment, **place}), accepted=True,
        environment_id=environment.pk, reason=reason, detail=detail,
    )  # fmt: skip
    versions.bump_config(environment.pk)
    delivery.config_changed(environment.pk)
    return revision


def content_hash(values: Mapping[str, Any]) -> str:
    """What an approval is bound to: sha256 of the values' canonical JSON."""
    canonical = json.dumps(dict(values), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _demand_place(
    environment: Environment, *, level: str, side_effect: str, dependency: Dependency | None, tool: Tool | None
) -> None:
    """A level names exactly what it belongs to, and that belongs to this environment."""
    if level not in LEVELS.values:
        raise Refused("bad_field", f"there is no level {level[:40]!r}", f"use one of {', '.join(LEVELS)}", "level")
    given = {LEVELS.CLASS.value: side_effect, LEVELS.DEPENDENCY.value: dependency, LEVELS.TOOL.value: tool}
    for owner, value in given.items():
        field = "side_effect" if owner == LEVELS.CLASS else owner
        if (owner == level) != bool(value):
            verb = "name" if owner == level else "leave out"
            raise Refused("bad_field", f"a policy of level {level} does not fit", f"{verb} the {field}", field)
    if side_effect and side_effect not in set(SideEffectClass):
        raise Refused("bad_field", "there is no such class", f"use one of {', '.join(SideEffectClass)}", "side_effect")
    for field, owner_row in (("dependency", dependency), ("tool", tool)):
        if owner_row is not None and owner_row.environment_id != environment.pk:
            mend = f"choose one of {environment.slug}"
            raise Refused("wrong_environment", f"that {field} belongs to another environment", mend, field)


def _demand_reason(reason: str) -> None:
    if not reason.strip() or len(reason) > 500:
        mend = "say in up to 500 characters why it changes"
        raise Refused("bad_field", "the reason is missing or too long", mend, "reason")


def _demand_valid(level: str, values: Mapping[str, Any]) -> None:
    for where, error in _errors(level, values):
        raise Refused("bad_field", f"{error.field}: {error.message}", error.mend, f"{where}{error.field}")


def _errors(level: str, values: Mapping[str, Any]) -> Iterator[tuple[str, FieldError]]:
    if level == LEVELS.DEPENDENCY:
        yield from (("", error) for error in validate(values, Level.CIRCUIT))
    elif level == LEVELS.TOOL:
        yield from (("", error) for error in validate(values, Level.TOOL))
    else:
        yield from _errors_in_parts(level, values)


def _errors_in_parts(level: str, values: Mapping[str, Any]) -> Iterator[tuple[str, FieldError]]:
    run = Level.ENVIRONMENT if level == LEVELS.ENVIRONMENT else Level.TOOL
    parts: dict[str, Level] = {"circuit": Level.CIRCUIT, "run": run}
    for name, part in values.items():
        if name not in parts:
            yield "", FieldError(str(name)[:100], "there is no such part", "put fields under circuit or run")
        elif not isinstance(part, Mapping):
            yield "", FieldError(name, "this is not a map of fields", 'write a map such as {"min_calls": 10}')
        else:
            yield from ((f"{name}.", error) for error in validate(part, parts[name]))


def _demand_sense(environment: Environment, place: Mapping[str, Any]) -> None:
    """No policy that changes with this layer contradicts itself once all layers are taken together."""
    layers = resolve.published(environment.pk)
    for owner, policy in _changed(environment, place, layers):
        for error in contradictions(policy):
            raise Refused("bad_field", f"{owner}: {error.field}: {error.message}", error.mend, error.field)


def _changed(
    environment: Environment, place: Mapping[str, Any], layers: resolve.Published
) -> Iterator[tuple[str, CircuitPolicy | RunPolicy]]:
    dependencies = Dependency.objects.filter(environment=environment).prefetch_related("tools")
    tools = Tool.objects.filter(environment=environment)
    if place["level"] != LEVELS.TOOL:
        chosen = dependencies.filter(pk=place["dependency"].pk) if place["dependency"] else dependencies
        for row in chosen:
            yield row.slug, layers.circuit(row.pk, resolve.character_of(row.tools.all())).policy
    if place["level"] != LEVELS.DEPENDENCY:
        for tool in tools.filter(pk=place["tool"].pk) if place["tool"] else tools:
            yield tool.name, layers.run(tool.pk, resolve.character_of([tool])).policy


def sweep_soon(*, environment_id: int, now: datetime) -> None:
    """Deadlines stay; what the new values say of lockout and settling is looked at by the next sweep."""
    moving = Circuit.objects.filter(environment=environment_id).exclude(state=State.CLOSED.value, suspected_at=None)
    ids = list(moving.select_for_update(no_key=True).order_by("id").values_list("id", flat=True))
    Circuit.objects.filter(id__in=ids).update(sweep_at=now)
