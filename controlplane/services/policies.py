"""Publishing policies: validated by the core, kept as immutable revisions, in force at once; circuits keep state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet
from recloser.core.policy import CircuitPolicy, FieldError, Level, RunPolicy, contradictions, validate
from recloser.core.types import SideEffectClass, State

from controlplane.delivery import publish as delivery
from controlplane.delivery import resolve, versions
from controlplane.models import Circuit, Dependency, Environment, PolicyRevision, Tool
from controlplane.services import audit, loosening
from controlplane.services.errors import Refused

LEVELS = PolicyRevision.Level


def layer_named(given: Mapping[str, Any]) -> str:
    """As the record names a layer."""
    owner = given.get("dependency") or given.get("tool") or given.get("side_effect") or given["environment"].slug
    return f"{given['level']} {owner}"


@audit.refusals("publish_policy", target=layer_named)
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
    demand_place(environment, **place)
    lock(environment)
    demand_sound(environment, place, values, reason)
    loosening.demand_approval(environment, place, values, actor=actor, approved_by=approved_by)
    approver = approved_by.strip() if loosening.is_approved(actor, approved_by) else ""
    revision = new_revision(environment, place, values, reason, actor, now)
    revision.approved_by = approver
    put_in_force(revision, now=now)
    detail = {"number": revision.number, "values": dict(values)} | ({"approved_by": approver} if approver else {})
    record("publish_policy", revision, actor, reason=revision.reason, detail=detail)
    tell_agents(environment.pk)
    return revision


@audit.refusals("roll_back_policy", target=lambda given: target_of(given["revision"]))
@transaction.atomic
def roll_back(*, revision: PolicyRevision, reason: str, actor: str, now: datetime) -> PolicyRevision:
    """Put an earlier revision's values in force again, as a new revision; what needs a second person is refused.

    Where they are in force already nothing is done.
    """
    lock(revision.environment)
    if (now_set := in_force(revision)) and now_set.content_hash == revision.content_hash:
        return now_set
    return publish(
        environment=revision.environment, **place_of(revision), values=revision.values, reason=reason, actor=actor,
        now=now,
    )  # fmt: skip


def lock(environment: Environment) -> None:
    """Layers of one environment change one after the other."""
    Environment.objects.select_for_update(no_key=True).get(pk=environment.pk)


def place_of(revision: PolicyRevision) -> dict[str, Any]:
    """Level and owner, as the services take them."""
    return {name: getattr(revision, name) for name in ("level", "side_effect", "dependency", "tool")}


def in_force(revision: PolicyRevision) -> PolicyRevision | None:
    """What its layer sets now."""
    return _layer(revision).filter(status=PolicyRevision.Status.PUBLISHED).first()


def new_revision(
    environment: Environment, place: Mapping[str, Any], values: Mapping[str, Any], reason: str, actor: str,
    now: datetime,
) -> PolicyRevision:  # fmt: skip
    """The layer's next revision, unsaved, a draft; the environment is locked."""
    revision = PolicyRevision(
        environment=environment, **place, values=dict(values), content_hash=content_hash(values),
        reason=reason.strip(), created_at=now, created_by=actor,
    )  # fmt: skip
    revision.number = next_number(revision)
    return revision


def next_number(revision: PolicyRevision) -> int:
    """One more than the highest of its layer."""
    return (_layer(revision).aggregate(last=Max("number"))["last"] or 0) + 1


def _layer(revision: PolicyRevision) -> QuerySet[PolicyRevision]:
    return PolicyRevision.objects.filter(environment=revision.environment, **place_of(revision))


def demand_sound(environment: Environment, place: Mapping[str, Any], values: Mapping[str, Any], reason: str) -> None:
    """Refuse what nobody could put in force, whoever approves it."""
    demand_reason(reason)
    _demand_valid(place["level"], values)
    loosening.demand_wording(place["level"], values)
    loosening.demand_fallback(environment, place, values)
    _demand_sense(environment, place, values)


def put_in_force(revision: PolicyRevision, *, now: datetime) -> None:
    """Publish it in place of the layer's former one; the environment is locked, and the values are sound."""
    _layer(revision).filter(status=PolicyRevision.Status.PUBLISHED).update(
        status=PolicyRevision.Status.SUPERSEDED, superseded_at=now
    )
    revision.status, revision.published_at = PolicyRevision.Status.PUBLISHED, now
    revision.save()
    sweep_soon(environment_id=revision.environment_id, now=now)


def tell_agents(environment_id: int) -> None:
    """A new config document; the version row is locked last."""
    versions.bump_config(environment_id)
    delivery.config_changed(environment_id)


def target_of(revision: PolicyRevision) -> str:
    """As the record names its layer."""
    return layer_named({"environment": revision.environment, **place_of(revision)})


def record(
    action: str, revision: PolicyRevision, actor: str, *, reason: str, detail: Mapping[str, Any] | None = None
) -> None:
    """One entry about a revision."""
    audit.record(
        actor=actor, action=action, target=target_of(revision), accepted=True,
        environment_id=revision.environment_id, reason=reason, detail=detail or {"number": revision.number},
    )  # fmt: skip


def content_hash(values: Mapping[str, Any]) -> str:
    """What an approval is bound to: sha256 of the values' canonical JSON."""
    canonical = json.dumps(dict(values), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def demand_place(
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


def demand_reason(reason: str) -> None:
    """Whoever looks at it later learns why."""
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


def _demand_sense(environment: Environment, place: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """No policy that changes with this layer contradicts itself once all layers are taken together."""
    for owner, policy in _changed(environment, place, with_layer(environment, place, values)):
        for error in contradictions(policy):
            raise Refused("bad_field", f"{owner}: {error.field}: {error.message}", error.mend, error.field)


def with_layer(environment: Environment, place: Mapping[str, Any], values: Mapping[str, Any]) -> resolve.Published:
    """The environment's layers as they would be with these values in this place."""
    published = PolicyRevision.objects.filter(environment=environment, status=PolicyRevision.Status.PUBLISHED)
    return resolve.Published([*published, PolicyRevision(environment=environment, **place, values=dict(values))])


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
