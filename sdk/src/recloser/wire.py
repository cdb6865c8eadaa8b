"""What the wire takes, in one place: every text, number and list of a body is made to fit by the name of its field.

Names come from models, tools and policies, so nothing of them is trusted: one entry that the control plane refused
would hold up all that waits behind it. The limits are those of docs/protocol.md.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

MAX_NAME = 200
MAX_WORD = 64
MAX_VERSION = 40
MAX_REASON = 500
MAX_PROSE = 20_000
MAX_LIST = 500
MAX_FACTS = 20
MAX_COUNT = 2**31 - 1
MAX_WHOLE = 2**53
MAX_STATUS = 999
MAX_AGE_S = 366 * 86_400.0
MAX_WAIT_S = 1e9
MAX_NUMBER = 1e15
NAMELESS = "(nameless)"
"""Stands for a name without a letter: the wire has no empty names."""
RUN_IDS = "8047dcf8-45ef-5d0d-a432-5b1b0a852340"
"""The namespace of run ids that are no UUIDs; never changes."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Fit = Callable[[Any], Any]


def clean(text: str, limit: int = MAX_NAME) -> str:
    """A text as the wire takes it: printable, UTF-8, of limited length."""
    text = text[:limit].encode("utf-8", "replace").decode("utf-8")
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def text_of(value: Any) -> str:
    """Any object as text, even where it will not be printed."""
    if type(value) is str:
        return value
    try:
        return str(value)
    except Exception:
        return f"({type(value).__name__})"


def wire_id(id: str) -> str:
    """A run's id as a UUID: itself, else the UUID of version 5 that stands for this id everywhere."""
    if _UUID.fullmatch(id):
        return id
    import uuid

    try:
        return str(uuid.UUID(id))
    except ValueError:
        return str(uuid.uuid5(uuid.UUID(RUN_IDS), id.encode("utf-8", "backslashreplace").decode()))


def fitted(value: Any) -> Any:
    """A body, or any part of one, of which nothing is refused for its length, its characters or its size."""
    if isinstance(value, Mapping):
        return {key: _FIELDS.get(key, fitted)(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [fitted(one) for one in value]
    if value is None or isinstance(value, bool):
        return value
    return _number(value) if isinstance(value, int | float) else _text(MAX_NAME, value)


def _number(value: Any, least: float = -MAX_NUMBER, most: float = MAX_NUMBER) -> Any:
    """Between the two; what is no number is the least of what may be, or nothing."""
    if not isinstance(value, int | float) or (isinstance(value, float) and math.isnan(value)):
        return max(0, least)
    return min(max(value, least), most)


def _whole(most: int, value: Any) -> int | None:
    return None if value is None else int(_number(value, 0, most))


def _part(most: float, value: Any) -> float | None:
    return None if value is None else _number(value, 0.0, most)


def _text(limit: int, value: Any) -> str | None:
    return None if value is None else clean(text_of(value), limit)


def _name(value: Any) -> str | None:
    return None if value is None else clean(text_of(value)) or NAMELESS


def _prose(value: Any) -> str | None:
    """Its lines stay lines."""
    if value is None:
        return None
    return "\n".join(clean(line, MAX_PROSE) for line in text_of(value)[:MAX_PROSE].split("\n"))


def _id(value: Any) -> str | None:
    return None if value is None else wire_id(text_of(value))


def _status(value: Any) -> Any:
    """A run's is a word, a call's a number."""
    return _text(MAX_WORD, value) if isinstance(value, str) else _whole(MAX_STATUS, value)


def _names(values: Any) -> list[Any]:
    return [_name(value) for value in values[:MAX_LIST]]


def _entries(values: Any) -> list[Any]:
    return [fitted(value) for value in values[:MAX_LIST]]


def _counts(values: Mapping[str, Any]) -> dict[str, Any]:
    return {outcome: _whole(MAX_COUNT, n) for outcome, n in values.items()}


def _facts(values: Mapping[str, Any]) -> dict[str, Any]:
    return {clean(key) or NAMELESS: fitted(value) for key, value in list(values.items())[:MAX_FACTS]}


def _each(fit: Fit, *names: str) -> dict[str, Fit]:
    return dict.fromkeys(names, fit)


_FIELDS: Mapping[str, Fit] = {
    **_each(_name, "tool", "dependency", "replaced_by", "instance", "agent", "environment"),
    **_each(functools.partial(_text, MAX_WORD), "error", "cause", "policy", "args", "result"),
    **_each(functools.partial(_text, MAX_NAME), "end_cause", "operation", "task_kind"),
    **_each(functools.partial(_text, MAX_REASON), "reason"),
    **_each(_prose, "disclosure"),
    **_each(_id, "id", "run", "parent"),
    **_each(_status, "status"),
    **_each(_names, "tools"),
    **_each(_entries, "missing", "step_log"),
    **_each(_counts, "counts"),
    **_each(_facts, "evidence", "threshold"),
    **_each(
        functools.partial(_whole, MAX_COUNT),
        "attempts", "call", "pid", "refused", "revision", "slow", "slow_failures", "step", "step_limit", "steps",
        "streak",
    ),
    **_each(functools.partial(_whole, MAX_WHOLE), "generation", "tokens"),
    **_each(functools.partial(_part, MAX_AGE_S), "age_s", "ended_age_s", "span_s", "stale_s", "started_age_s"),
    **_each(functools.partial(_part, MAX_WAIT_S), "retry_after_s"),
    **_each(functools.partial(_part, MAX_NUMBER), "cost", "max", "model_seconds", "ms", "sum", "tool_seconds"),
}  # fmt: skip
"""One name means the same wherever it stands."""
