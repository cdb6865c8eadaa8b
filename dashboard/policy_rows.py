"""A resolved policy as rows: each value in words, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recloser.core.policy import CIRCUIT_FIELDS, RUN_FIELDS, CircuitPolicy, Field, Resolved, RunPolicy

from dashboard.policy_form import shown


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One value in force."""

    name: str
    help: str
    value: str
    origin: str


def of_circuit(resolved: Resolved[CircuitPolicy]) -> list[PolicyRow]:
    """Every field of a circuit's policy."""
    return _rows(resolved, CIRCUIT_FIELDS)


def of_run(resolved: Resolved[RunPolicy]) -> list[PolicyRow]:
    """Every field of a tool's policy."""
    return _rows(resolved, RUN_FIELDS)


def _rows(resolved: Resolved[Any], fields: Mapping[str, Field]) -> list[PolicyRow]:
    return [
        PolicyRow(
            name.replace("_", " "), row.help, shown(row, getattr(resolved.policy, name)), resolved.origins[name].value
        )
        for name, row in fields.items()
    ]
