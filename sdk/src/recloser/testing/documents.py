"""Config documents as a control plane would send them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recloser.core.policy import CircuitPolicy, RunPolicy, resolve_run, to_wire
from recloser.core.types import SideEffectClass

KEY = "rcl_test_0123456789abcdef"
NOW = 1_790_000_000.0


def config_document(
    *,
    version: int = 7,
    epoch: str = "e1",
    environment: str = "prod",
    agent: str = "research",
    tools: Mapping[str, Mapping[str, Any]] | None = None,
    circuit: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A config document. `tools` by name: `dependencies`, `side_effect`, `confirmed`, and `run` overrides."""
    read_only = resolve_run([], side_effect_class=SideEffectClass.READ_ONLY).policy
    runs = [{**to_wire(read_only), **(run or {})}, {**to_wire(resolve_run([]).policy), **(run or {})}]
    entries: dict[str, Any] = {}
    dependencies: dict[str, Any] = {}
    for name, given in (tools or {}).items():
        side_effect = SideEffectClass(given.get("side_effect", "read_only"))
        runs.append(
            {**to_wire(resolve_run([], side_effect_class=side_effect).policy), **(run or {}), **given.get("run", {})}
        )
        behind = list(given.get("dependencies", [name]))
        dependencies |= {one: {"policy": 0} for one in behind}
        entries[name] = {
            "policy": len(runs) - 1,
            "dependencies": behind,
            "side_effect": side_effect.value,
            "confirmed": given.get("confirmed", True),
            "operation": given.get("operation"),
        }
    return {
        "format": 1,
        "epoch": epoch,
        "version": version,
        "environment": environment,
        "agent": agent,
        "now": NOW,
        "complete": True,
        "circuit_policies": [{**to_wire(CircuitPolicy()), **(circuit or {})}],
        "run_policies": runs,
        "dependencies": dependencies,
        "tools": entries,
        "default_circuit_policy": 0,
        "default_run_policy": 1,
    }


def run_policy(**changes: Any) -> dict[str, Any]:
    """A run policy on the wire: the built-in one with these fields changed."""
    return {**to_wire(RunPolicy()), **changes}
