"""A resolved policy as rows: each value in words, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recloser.core.policy import CIRCUIT_FIELDS, RUN_FIELDS, CircuitPolicy, Field, Resolved, RunPolicy

from dashboard.policy_form import shown

KEYS = frozenset(
    {
        "delivery", "degraded_behaviour", "fallback_tool", "consecutive_failures", "short_run_consecutive_failures",
        "dependency_consecutive_failures", "semantic_failures", "semantic_remove_after", "identical_calls",
        "repeat_at_once", "retry_ambiguous", "never_open",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One value in force."""

    name: str
    help: str
    value: str
    origin: str
    key: bool = False
    """Of those that people ask for first."""


def of_circuit(resolved: Resolved[CircuitPolicy]) -> list[PolicyRow]:
    """Every field of a circuit's policy."""
    return _rows(resolved, CIRCUIT_FIELDS)


def of_run(resolved: Resolved[RunPolicy]) -> list[PolicyRow]:
    """Every field of a tool's policy."""
    return _rows(resolved, RUN_FIELDS)


def _rows(resolved: Resolved[Any], fields: Mapping[str, Field]) -> list[PolicyRow]:
    return [
        PolicyRow(
            name.replace("_", " "),
            row.help,
            shown(row, getattr(resolved.policy, name)).replace("_", " "),
            resolved.origins[name].value,
            name in KEYS,
        )
        for name, row in fields.items()
    ]
