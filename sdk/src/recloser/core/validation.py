"""Mappings from outside (a file, a form, the wire) to typed values: every error names its field and the mend."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from recloser.core.outcomes import LONGEST_WAIT_S, Rule
from recloser.core.schema import (
    CIRCUIT_FIELDS,
    RUN_FIELDS,
    CircuitPolicy,
    Field,
    Kind,
    Level,
    RunPolicy,
    fields_for,
)
from recloser.core.texts import BadTemplate, demand_template
from recloser.core.types import Action, DegradedBehaviour, Delivery, Outcome

AnyPolicy = CircuitPolicy | RunPolicy
P = TypeVar("P", CircuitPolicy, RunPolicy)


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field, and how to mend it."""

    field: str
    message: str
    mend: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}; {self.mend}"


class PolicyError(ValueError):
    """A policy that does not validate; it is never applied."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(str(error) for error in self.errors))


class _Unfit(Exception):
    """One value that does not fit its field: message and mend."""


def validate(mapping: Mapping[str, Any], level: Level | str) -> list[FieldError]:
    """Every error in a layer's own values: unknown names, wrong types, values out of bounds, contradictions."""
    known = fields_for(level)
    errors = [_unknown(name, known, level) for name in mapping if name not in known]
    values: dict[str, Any] = {}
    for name in mapping:
        if name in known:
            _collect(known[name], mapping[name], values, errors)
    errors += _no_templates(known, values)
    return errors + [error for error in _contradictions(values) if error.field in mapping]


def _no_templates(known: Mapping[str, Field], values: Mapping[str, Any]) -> Iterable[FieldError]:
    """Asked of what is written now; a text that is in force already is read all the same."""
    for name, value in values.items():
        if known[name].template:
            try:
                demand_template(value)
            except BadTemplate as bad:
                yield FieldError(name, bad.message, bad.mend)


def parse(field: Field, value: Any) -> Any:
    """The typed value of one field, or PolicyError."""
    values: dict[str, Any] = {}
    errors: list[FieldError] = []
    _collect(field, value, values, errors)
    if errors:
        raise PolicyError(errors)
    return values[field.name]


def _collect(field: Field, value: Any, values: dict[str, Any], errors: list[FieldError]) -> None:
    try:
        values[field.name] = None if value is None and field.nullable else _READERS[field.kind](field, value)
    except _Unfit as unfit:
        errors.append(FieldError(field.name, *unfit.args))


def _unknown(name: object, known: Mapping[str, Field], level: Level | str) -> FieldError:
    near = difflib.get_close_matches(str(name)[:100], known, n=1)
    mend = f"did you mean {near[0]}?" if near else f"use one of the {len(known)} fields of this level"
    if not near and name in RUN_FIELDS:
        mend = f"set it for a tool or the environment, not at level {Level(level)}"
    elif not near and name in CIRCUIT_FIELDS:
        mend = "set it for the dependency, not for a tool"
    return FieldError(str(name)[:100], "there is no such field here", mend)


def _number(field: Field, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unfit(f"{_shown(value)} is not a number", _bounds(field))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not _within(field, number):
        raise _Unfit(f"{_shown(value)} is out of bounds", _bounds(field))
    return number


def _integer(field: Field, value: Any) -> int:
    number = _number(field, value)
    if number != int(number):
        raise _Unfit(f"{_shown(value)} is not a whole number", _bounds(field))
    return int(number)


def _flag(field: Field, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Unfit(f"{_shown(value)} is neither true nor false", "write true or false")
    return value


def _choice(field: Field, value: Any) -> Any:
    if not isinstance(value, str) or str(value) not in field.choices:
        raise _Unfit(f"{_shown(value)} is not one of the choices", f"use {', '.join(field.choices)}")
    return _enum_of(field)(str(value))


def _enum_of(field: Field) -> Callable[[str], Any]:
    return {Delivery: Delivery, Action: Action, DegradedBehaviour: DegradedBehaviour}[type(field.default)]


def _text(field: Field, value: Any) -> str:
    longest = int(field.high or 400)
    if not isinstance(value, str):
        raise _Unfit(f"{_shown(value)} is not text", f"write up to {longest} characters")
    if len(value) > longest:
        raise _Unfit(f"{len(value)} characters are too many", f"write up to {longest}")
    return value


def _names(field: Field, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise _Unfit(f"{_shown(value)} is not a list of names", 'write a list such as ["note"]')
    return tuple(value)


def _shares(field: Field, value: Any) -> tuple[float, ...]:
    mend = "write rising shares between 0 and 1, such as [0.1, 0.5]"
    if not isinstance(value, list | tuple):
        raise _Unfit(f"{_shown(value)} is not a list of shares", mend)
    shares = [share for share in value if isinstance(share, int | float) and not isinstance(share, bool)]
    if len(shares) != len(value) or not all(0 < share <= 1 for share in shares) or sorted(set(shares)) != shares:
        raise _Unfit(f"{_shown(value)} are not rising shares", mend)
    return tuple(float(share) for share in shares)


def _outcomes(field: Field, value: Any) -> tuple[tuple[str, Rule], ...]:
    if not isinstance(value, Mapping):
        raise _Unfit(f"{_shown(value)} is not a map", 'write a map such as {"402": "rate_limited"}')
    return tuple((_outcome_key(key), _outcome_rule(key, rule)) for key, rule in value.items())


def _outcome_key(key: Any) -> str:
    text = str(key)
    status = text.isdigit() and 100 <= int(text[:9]) <= 599
    family = text in ("1xx", "2xx", "3xx", "4xx", "5xx")
    word = text.startswith(("marker:", "error:")) and len(text.partition(":")[2]) > 0
    if not (status or family or word):
        raise _Unfit(f"{_shown(key)} names no answer", "use a status, a family such as 4xx, marker:WORD or error:CLASS")
    return text


def _outcome_rule(key: Any, rule: Any) -> Rule:
    entry = rule if isinstance(rule, Mapping) else {"outcome": rule}
    if set(entry) - {"outcome", "wait_s"} or entry.get("outcome") not in {str(word) for word in Outcome}:
        raise _Unfit(f"{_shown(rule)} at {_shown(key)} is no outcome", f"use one of {', '.join(Outcome)}")
    wait = entry.get("wait_s")
    if wait is not None and (
        isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= LONGEST_WAIT_S
    ):
        raise _Unfit(f"the wait at {_shown(key)} is not possible", f"use 0 to {LONGEST_WAIT_S:g} seconds")
    return Rule(Outcome(entry["outcome"]), None if wait is None else float(wait))


_READERS: Mapping[Kind, Callable[[Field, Any], Any]] = {
    Kind.NUMBER: _number,
    Kind.INTEGER: _integer,
    Kind.FLAG: _flag,
    Kind.CHOICE: _choice,
    Kind.TEXT: _text,
    Kind.NAMES: _names,
    Kind.SHARES: _shares,
    Kind.OUTCOMES: _outcomes,
}


def _within(field: Field, number: float) -> bool:
    return (field.low is None or number >= field.low) and (field.high is None or number <= field.high)


def _bounds(field: Field) -> str:
    off = ", or null to switch it off" if field.nullable else ""
    return f"use {field.low:g} to {field.high:g}{off}" if field.high is not None else "use a number"


def _shown(value: object) -> str:
    """A value as an error may show it: short, and never a whole document."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "that number"
    text = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."


_ORDERED = (
    ("cooldown_s", "cooldown_max_s"),
    ("vantage_quorum", "vantage_points"),
    ("semantic_failures", "semantic_remove_after"),
)
"""Pairs of which the first may not exceed the second."""


def _contradictions(values: Mapping[str, Any]) -> list[FieldError]:
    return [
        FieldError(
            greater, f"{values[greater]} is below {smaller} ({values[smaller]})", f"raise it, or lower {smaller}"
        )
        for smaller, greater in _ORDERED
        if values.get(smaller) is not None and values.get(greater) is not None and values[smaller] > values[greater]
    ]


def contradictions(policy: AnyPolicy) -> list[FieldError]:
    """Errors that only the resolved whole can show, such as a cooldown above its own limit."""
    names = [row.name for row in dataclasses.fields(policy)]
    return _contradictions({name: getattr(policy, name) for name in names})


def to_wire(policy: AnyPolicy) -> dict[str, Any]:
    """A resolved policy as plain JSON values."""
    known = CIRCUIT_FIELDS if isinstance(policy, CircuitPolicy) else RUN_FIELDS
    return {name: plain(row, getattr(policy, name)) for name, row in known.items()}


def from_wire(holder: type[P], mapping: Mapping[str, Any]) -> P:
    """The typed policy; what does not validate raises, what only a newer server knows is left out."""
    known = CIRCUIT_FIELDS if holder is CircuitPolicy else RUN_FIELDS
    values: dict[str, Any] = {}
    errors: list[FieldError] = []
    for name, row in known.items():
        if name in mapping:
            _collect(row, mapping[name], values, errors)
    if errors:
        raise PolicyError(errors)
    return holder(**values)


def plain(row: Field, value: Any) -> Any:
    """One typed value as JSON holds it."""
    if row.kind is Kind.OUTCOMES:
        return {key: {"outcome": str(rule.outcome), "wait_s": rule.wait_s} for key, rule in value}
    if isinstance(value, tuple):
        return list(value)
    return str(value.value) if isinstance(value, Enum) else value
