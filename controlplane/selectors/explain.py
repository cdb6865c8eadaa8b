"""Why a tool is handled as it is: every value of its policies with the layer it came from, for the agents' side."""

from __future__ import annotations

import difflib
from typing import Any

from recloser.core.policy import Resolved, handled_as, to_wire
from recloser.core.types import SideEffectClass

from controlplane import clock
from controlplane.delivery import documents, resolve, versions
from controlplane.models import Dependency, Tool
from controlplane.selectors import policies
from controlplane.selectors.tools import HINTS, proposed, told

FORMAT = 1


def explained(*, environment_id: int, name: str) -> dict[str, Any]:
    """One tool as `GET /agent/v1/explain` tells it; of a name that nobody knows, the defaults and a near name."""
    at = versions.of(environment_id)
    rows = Tool.objects.filter(environment_id=environment_id)
    tool = rows.filter(name=name).prefetch_related("dependencies", HINTS).first()
    near = [] if tool else difflib.get_close_matches(name, list(rows.values_list("name", flat=True)), n=1)
    behind = _known(tool) if tool else [_unknown(environment_id, name)]
    return {
        "format": FORMAT,
        "now": clock.seconds(clock.now()),
        "config": [at.epoch, at.config],
        "tool": name,
        "known": tool is not None,
        "near": near[0] if near else None,
        **_character(tool),
        "run": _values(policies.of_tool(tool) if tool else resolve.published(environment_id).run(None)),
        "dependencies": [{**each, **_circuit(environment_id, each["name"])} for each in behind],
    }


def _character(tool: Tool | None) -> dict[str, Any]:
    claimed = SideEffectClass(tool.side_effect) if tool else SideEffectClass.UNKNOWN
    confirmed = bool(tool and tool.class_confirmed)
    return {
        "side_effect": claimed.value,
        "confirmed": confirmed,
        "handled_as": handled_as(claimed, confirmed=confirmed).value,
        "costly": bool(tool and tool.costly),
        "operation": (tool.operation or None) if tool else None,
        **(_suggested(tool) if tool else {"proposal": None, "hints": []}),
    }


def _suggested(tool: Tool) -> dict[str, Any]:
    """What may become its class once a person confirms it, and what it says of itself: claims."""
    found = proposed(tool)
    return {
        "proposal": found
        and {"side_effect": found.side_effect.value, "by": found.basis.value, "because": found.because},
        "hints": [{"agent": each.agent, **each.stated} for each in told(tool)],
    }


def _known(tool: Tool) -> list[dict[str, Any]]:
    return [{"name": row.slug, "policy": _values(policies.of_dependency(row))} for row in tool.dependencies.all()]


def _unknown(environment_id: int, name: str) -> dict[str, Any]:
    """A tool that is not listed stands behind a dependency of its own name."""
    row = Dependency.objects.filter(environment_id=environment_id, slug=name).first()
    found = policies.of_dependency(row) if row else resolve.published(environment_id).circuit(None)
    return {"name": name, "policy": _values(found)}


def _values(resolved: Resolved[Any]) -> dict[str, dict[str, Any]]:
    values = to_wire(resolved.policy)
    return {name: {"value": values[name], "from": str(origin)} for name, origin in resolved.origins.items()}


def _circuit(environment_id: int, slug: str) -> dict[str, Any]:
    """As agents see it; None while it never moved."""
    return {"circuit": documents.circuits(environment_id).entries.get(slug)}
