"""Taking away what was named by mistake or is needed no more; what has a history stays, and the refusal says so.

The audit keeps every name. Trips, outages and runs are never lost: what they speak of cannot be removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import Model
from recloser.core.types import Mode, State

from controlplane.delivery import publish, versions
from controlplane.models import Agent, Circuit, Dependency, Environment, Observation, PolicyRevision, Tool
from controlplane.services import audit, policies
from controlplane.services.errors import Refused

SHOWN = 5


@audit.refusals("remove_tool")
@transaction.atomic
def remove_tool(*, tool: Tool, actor: str) -> None:
    """A tool that nobody calls, that never tripped and that no policy falls back on; its own policy goes with it."""
    policies.lock(tool.environment)
    _demand_none(_falling_back_on(tool), "falls back on it", "name another fallback there first")
    if tool.trips.exists():
        raise _kept("tool", "trips")
    if Observation.objects.filter(environment_id=tool.environment_id, tool_id=tool.pk).exists():
        raise _called("tool")
    _remove(tool, actor, tool.environment)
    _tell_agents(tool.environment_id)


@audit.refusals("remove_dependency")
@transaction.atomic
def remove_dependency(*, dependency: Dependency, actor: str) -> None:
    """A dependency without tools whose circuit never moved; its probe and its policy go with it."""
    policies.lock(dependency.environment)
    circuit = Circuit.objects.select_for_update(no_key=True).get(dependency=dependency)
    names = dependency.tools.order_by("name").values_list("name", flat=True)
    _demand_none(names, "stands in front of it", "let them stand before another one first")
    if (circuit.state, circuit.mode) != (State.CLOSED, Mode.AUTO):
        raise Refused("in_use", "its circuit is not closed", "close or release it first")
    if circuit.outages.exists() or circuit.transitions.exists() or dependency.trips.exists():
        raise _kept("dependency", "outages and trips")
    if Observation.objects.filter(environment_id=dependency.environment_id, dependency_id=dependency.pk).exists():
        raise _called("dependency")
    _remove(dependency, actor, dependency.environment)
    _tell_agents(dependency.environment_id)


@audit.refusals("remove_agent")
@transaction.atomic
def remove_agent(*, agent: Agent, actor: str) -> None:
    """An agent that never reported; its revoked keys go with it."""
    Agent.objects.select_for_update().get(pk=agent.pk)
    keys = agent.keys.filter(revoked_at=None).order_by("prefix").values_list("prefix", flat=True)
    _demand_none(keys, "is a key of it that is in force", "revoke them first")
    if agent.runs.exists() or agent.workers.exists():
        raise _kept("agent", "runs and workers", "revoke its keys: nothing more is heard of it then")
    _remove(agent, actor, agent.environment)


@audit.refusals("remove_environment")
@transaction.atomic
def remove_environment(*, environment: Environment, actor: str) -> None:
    """An environment in which nothing is left; its channels and shared policies go with it."""
    Environment.objects.select_for_update().get(pk=environment.pk)
    for rows, noun in ((environment.agents, "agent"), (environment.tools, "tool"),
                       (environment.dependencies, "dependency")):  # fmt: skip
        names = sorted(str(row) for row in rows.all()[:SHOWN])
        _demand_none(names, f"is {'an' if noun == 'agent' else 'a'} {noun} of it", "remove what is in it first")
    if environment.runs.exists() or environment.trips.exists():
        raise _kept("environment", "runs and trips")
    _remove(environment, actor, environment)


def _falling_back_on(tool: Tool) -> list[str]:
    """The layers in force that name it."""
    published = PolicyRevision.objects.filter(
        environment=tool.environment, status=PolicyRevision.Status.PUBLISHED
    ).select_related("environment", "dependency", "tool")
    return [policies.target_of(row) for row in published if _fallback(row.values) == tool.name]


def _fallback(values: dict[str, Any]) -> Any:
    return values.get("fallback_tool", values.get("run", {}).get("fallback_tool"))


def _demand_none(names: Iterable[str], how: str, mend: str) -> None:
    if found := list(names):
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise Refused("in_use", f"{', '.join(found[:SHOWN])}{more} {how}", mend)


def _kept(noun: str, what: str, mend: str = "keep it: what happened stays on record") -> Refused:
    return Refused("in_use", f"this {noun} has {what} on record", mend)


def _called(noun: str) -> Refused:
    return Refused("in_use", f"this {noun} was called within two days", "take it out of its agents, and wait")


def _remove(row: Model, actor: str, environment: Environment) -> None:
    """Recorded before it goes, for then it has no number any more; an environment's own entry belongs to none."""
    noun = type(row).__name__.lower()
    here = None if row == environment else environment.pk
    audit.record(actor=actor, action=f"remove_{noun}", target=str(row), accepted=True, environment_id=here)
    row.delete()


def _tell_agents(environment_id: int) -> None:
    versions.bump_config(environment_id)
    publish.config_changed(environment_id)
