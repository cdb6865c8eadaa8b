"""What the model of a run was told about missing tools, in the SDK's own words."""

from __future__ import annotations

from typing import Any

from recloser.core.run import RunDecision
from recloser.core.types import Action, Scope, Signal
from recloser.notices import Loss
from recloser.notices import notice as words

from controlplane.delivery.resolve import Published, character_of
from controlplane.models import Run, Tool
from controlplane.selectors import runs


def notice(run: Run, published: Published) -> str | None:
    """The notice for what this run lacked, by the policy in force now; agents send what was missing, not the text."""
    lacked = runs.own_lacks(run)
    if not lacked:
        return None
    names = [str(one.get("tool")) for one in lacked]
    known = {tool.name: tool for tool in Tool.objects.filter(environment=run.environment_id, name__in=names)}
    return words([_loss(one, known.get(str(one.get("tool"))), published) for one in lacked])


def preview(tool: Tool, published: Published) -> str | None:
    """The notice of a run that lost this one tool to failures, at its fourth step."""
    behind = min((each.slug for each in tool.dependencies.all()), default=None)
    lost = {"tool": tool.name, "cause": Signal.CONSECUTIVE_FAILURES.value, "step": 4, "dependency": behind}
    return words([_loss(lost, tool, published)])


def _loss(one: dict[str, Any], tool: Tool | None, published: Published) -> Loss:
    name = str(one.get("tool"))
    resolved = published.run(tool.pk, character_of([tool])) if tool else published.run(None)
    replaced = one.get("replaced_by") or resolved.policy.fallback_tool
    behind = str(one.get("dependency") or name)
    return Loss(name, _decision(name, one), resolved.policy, str(replaced) if replaced else None, behind)


def _decision(name: str, one: dict[str, Any]) -> RunDecision:
    cause = one.get("cause")
    signal = Signal(cause) if cause in set(Signal) else None
    step = one.get("step") if isinstance(one.get("step"), int) else None
    return RunDecision(Action.REMOVE_TOOL, signal, 0.0, 0.0, name, step, scope=Scope.RUN)
