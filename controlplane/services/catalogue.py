"""What operators name by hand: environments, agents, dependencies, tools; made once, edited field by field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, transaction
from django.db.models import CharField

from controlplane import clock
from controlplane.models import Agent, Dependency, Environment, Tool
from controlplane.probe_spec import BadSpec, control
from controlplane.services import audit, egress, loosening, policies, tools
from controlplane.services.errors import Refused

Named = Environment | Agent | Dependency | Tool
N = TypeVar("N", Environment, Agent, Dependency, Tool)

Changes = Mapping[str, Any]
"""Field name to new value; what is not named stays as it is."""


@audit.refusals("create_environment")
def create_environment(*, slug: str, name: str, actor: str, now: datetime, protected: bool = False) -> Environment:
    """A new environment, empty; nothing of another one is seen from it."""
    _demand_slug(slug)
    return _create(Environment(slug=slug, name=name, protected=protected, created_at=now), actor)


@audit.refusals("create_agent")
def create_agent(
    *, environment: Environment, slug: str, name: str, actor: str, now: datetime, owner: str = ""
) -> Agent:
    """A new agent application; it reports once it has a key."""
    _demand_slug(slug)
    return _create(Agent(environment=environment, slug=slug, name=name, owner=owner, created_at=now), actor)


@audit.refusals("create_dependency")
def create_dependency(
    *, environment: Environment, slug: str, actor: str, now: datetime, owner: str = "", description: str = ""
) -> Dependency:
    """A new dependency with its circuit; one that is there already is refused."""
    return tools.ensure_dependency(
        environment=environment,
        slug=slug,
        owner=owner,
        description=description,
        actor=actor,
        now=now,
        must_be_new=True,
    )


@audit.refusals("create_tool")
def create_tool(
    *, environment: Environment, name: str, dependencies: Iterable[str], actor: str, now: datetime, **more: Any
) -> Tool:
    """A new tool behind these dependencies; one that is there already is refused."""
    return tools.ensure_tool(
        environment=environment, name=name, dependencies=dependencies, actor=actor, now=now, must_be_new=True, **more
    )


@audit.refusals("edit_environment")
def edit_environment(*, environment: Environment, changes: Changes, actor: str) -> Environment:
    """Its name, whether a change that loosens needs a second person, and what tells a cut-off prober."""
    if address := control.in_force(changes.get("control_address", ""), ""):
        _demand_control(address)
    return _edit(environment, changes, actor)


@audit.refusals("edit_agent")
def edit_agent(*, agent: Agent, changes: Changes, actor: str) -> Agent:
    """Its name and owner."""
    return _edit(agent, changes, actor)


@audit.refusals("edit_dependency")
def edit_dependency(*, dependency: Dependency, changes: Changes, actor: str) -> Dependency:
    """Its owner and description."""
    return _edit(dependency, changes, actor)


@audit.refusals("edit_tool")
@transaction.atomic
def edit_tool(*, tool: Tool, changes: Changes, actor: str, approved_by: str = "") -> Tool:
    """Its class (given is confirmed), cost, owner, operation and dependencies; agents hear of it at once.

    What guards it less (a class milder than the confirmed one, a place where its policy is looser) needs
    `approved_by`, another person than the actor.
    """
    row = tools.held(tool)
    wanted = tools.wanted(row.environment, changes)
    loosening.demand_tool(row, wanted, actor=actor, approved_by=approved_by)
    if changed := tools.change(row, wanted):
        policies.sweep_soon(environment_id=row.environment_id, now=clock.now())
        _audit(row, "edit_tool", actor, changed | tools.approval(approved_by))
        policies.tell_agents(row.environment_id)
    return row


def _demand_control(address: str) -> None:
    """It must be readable, and one that probes may reach."""
    try:
        spec = control.read_control(address)
    except BadSpec as bad:
        raise Refused("bad_field", bad.message, bad.mend, "control_address") from None
    egress.demand_target(*spec.target, field="control_address")


@transaction.atomic
def _create(row: N, actor: str) -> N:
    values = {field.name: getattr(row, field.name) for field in row._meta.fields if isinstance(field, CharField)}
    _demand_fitting(row, values)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        raise tools.taken(_noun(row), str(row), "slug") from None
    _audit(row, f"create_{_noun(row)}", actor, values)
    return row


@transaction.atomic
def _edit(row: N, changes: Changes, actor: str) -> N:
    if changed := _assign(row, changes):
        _audit(row, f"edit_{_noun(row)}", actor, changed)
    return row


def _assign(row: Named, wanted: Changes) -> dict[str, Any]:
    """Set and save what differs."""
    _demand_fitting(row, wanted)
    changed = {name: value for name, value in wanted.items() if getattr(row, name) != value}
    for name, value in changed.items():
        setattr(row, name, value)
    if changed:
        row.save(update_fields=list(changed))
    return changed


def _demand_fitting(row: Named, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        longest = getattr(row._meta.get_field(name), "max_length", None)
        if longest is not None and len(value) > longest:
            raise Refused("bad_field", f"the {name} is too long", f"use up to {longest} characters", name)
    if not str(values.get("name", "-")).strip():
        raise Refused("bad_field", "the name is missing", "say it as people call it", "name")


def _demand_slug(slug: str) -> None:
    try:
        validate_slug(slug)
    except ValidationError:
        mend = "use letters, digits, - and _"
        raise Refused("bad_field", "that is no short name", mend, "slug") from None


def _noun(row: Named) -> str:
    return type(row).__name__.lower()


def _audit(row: Named, action: str, actor: str, detail: Mapping[str, Any]) -> None:
    environment_id = row.pk if isinstance(row, Environment) else row.environment_id
    audit.record(
        actor=actor, action=action, target=str(row), accepted=True, environment_id=environment_id, detail=detail
    )
