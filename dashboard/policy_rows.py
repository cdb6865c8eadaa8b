"""A resolved policy as rows: each value in words, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recloser.core.policy import CIRCUIT_FIELDS, CircuitPolicy, Field, Resolved

from dashboard import words


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One value in force."""

    name: str
    help: str
    value: str
    origin: str


def of_circuit(resolved: Resolved[CircuitPolicy]) -> list[PolicyRow]:
    """Every field of a circuit's policy."""
    return [
        PolicyRow(
            name.replace("_", " "), row.help, _shown(row, getattr(resolved.policy, name)), resolved.origins[name].value
        )
        for name, row in CIRCUIT_FIELDS.items()
    ]


def _shown(row: Field, value: Any) -> str:
    if value is None:
        return "off"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(words.percent(each) for each in value) or "none"
    match row.unit:
        case "share":
            return words.percent(value)
        case "s":
            return f"{value:g} s"
        case "ms":
            return f"{value:g} ms"
    return f"{value:g}" if isinstance(value, int | float) else str(value)
