"""What callers hand in, read with care: nothing of it makes us raise, and what cannot be used counts as nothing."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from recloser.core.budget import Spend
from recloser.core.effects import HINTS, stated
from recloser.wire import text_of

log = logging.getLogger("recloser")

MOST_SPENT = 10**15
"""More than any run uses of anything: what the wire takes."""


def name_of(tool: Any) -> str | None:
    """The name in one entry of a tools array, of whatever shape; None where there is none."""
    if isinstance(tool, Mapping):
        inner = tool.get("function")
        name = inner.get("name") if isinstance(inner, Mapping) else tool.get("name")
    else:
        try:
            name = getattr(tool, "name", None)
        except Exception:
            name = None
    return name if isinstance(name, str) else None


def hints_of(tool: Any) -> dict[str, bool]:
    """What an entry of a tools array says of itself by MCP's annotations; mostly nothing."""
    try:
        inner = tool.get("function") if isinstance(tool, Mapping) else None
        holder = inner if isinstance(inner, Mapping) and "annotations" in inner else tool
        told = holder.get("annotations") if isinstance(holder, Mapping) else getattr(holder, "annotations", None)
        if told is None:
            return {}
        return stated(told if isinstance(told, Mapping) else {name: getattr(told, name, None) for name in HINTS})
    except Exception:
        return {}


def named(name: Any) -> str:
    """A name, whatever stands in its place."""
    return name if isinstance(name, str) else text_of(name)[:200]


def key_of(id: Any) -> Any:
    """A call's id as something that can be looked up."""
    try:
        hash(id)
    except Exception:
        return text_of(id)[:200]
    return id


def listed(tools: Any) -> list[Any]:
    """An array of tools; what is none is an empty one. An exception of the caller's own generator is its own."""
    try:
        entries = iter(() if tools is None else tools)
    except TypeError:
        log.warning("recloser: the tools are no array but a %s; nothing is shown", type(tools).__name__)
        return []
    return list(entries)


def spend(estimate: int | Mapping[str, float] | Spend | None) -> Spend | None:
    """What is to be set aside for one model call; None where nobody says."""
    if estimate is None:
        return None
    if isinstance(estimate, Spend):
        return Spend(int(amount(estimate.tokens)), amount(estimate.cost))
    if isinstance(estimate, Mapping):
        return Spend(int(amount(estimate.get("tokens", 0))), amount(estimate.get("cost", 0.0)))
    return Spend(int(amount(estimate)))


def amount(value: Any) -> float:
    """A number that can be added up."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    if isinstance(value, float) and not math.isfinite(value):
        return 0.0
    return min(max(0, value), MOST_SPENT)


def least(policy: Any, declared: Any) -> Any:
    """A run may declare less than the policy allows, never more."""
    return min((limit for limit in (policy, declared) if limit is not None), default=None)
