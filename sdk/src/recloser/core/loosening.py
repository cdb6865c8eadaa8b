"""What nobody changes alone: what protects less than its class, and, where it is guarded, what models are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recloser.core.resolve import HARMLESS, STRICTNESS, Layer, preset, resolve_circuit, resolve_run
from recloser.core.schema import CIRCUIT_FIELDS, RUN_FIELDS, CircuitPolicy, Field, Level, Looser, RunPolicy
from recloser.core.types import SideEffectClass

TOLD = frozenset(row.name for row in RUN_FIELDS.values() if row.shown_to_model) | {"degraded_behaviour", "outcomes"}
"""Run fields that a protected environment guards: a text that a model sees (the behaviour gives one too), a fallback's
target, the map from answers to outcomes."""

_UNSET = object()


def altered(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Field]:
    """The guarded run fields that a layer sets otherwise than it did; what it no longer sets is altered too."""
    guarded = (row for name, row in RUN_FIELDS.items() if name in TOLD)
    return [row for row in guarded if before.get(row.name, _UNSET) != after.get(row.name, _UNSET)]


def loosened(side_effect_class: SideEffectClass, layer: Layer, *, costly: bool = False) -> list[Field]:
    """The fields by which a layer makes calls of this class less guarded than its preset does.

    A tool's fields count, and of the circuit's those that a class sets; a harmless class has nothing to guard.
    """
    known: dict[str, Any] = {"side_effect_class": side_effect_class, "costly": costly}

    def guard(layers: list[Layer]) -> Guard:
        return Guard(resolve_run(layers, **known).policy, (resolve_circuit(layers, **known).policy,))

    return eased(side_effect_class, guard([]), guard([layer]))


@dataclass(frozen=True, slots=True)
class Guard:
    """What protects the calls of one tool: its run policy, and that of each circuit behind it."""

    run: RunPolicy
    circuits: tuple[CircuitPolicy, ...]


def eased(side_effect_class: SideEffectClass, before: Guard, after: Guard) -> list[Field]:
    """The fields by which calls of this class are guarded less after than before.

    A circuit eases where it is looser than each that stood behind the tool before; where none did, than the class.
    """
    rows = watched(side_effect_class)
    run_rows, circuit_rows = ([row for row in rows if row.policy == policy] for policy in ("run", "circuit"))
    stood = before.circuits or (resolve_circuit([], side_effect_class=side_effect_class).policy,)
    return [*_looser(run_rows, after.run, before.run), *_looser_circuits(circuit_rows, after.circuits, stood)]


def is_vouched(side_effect_class: SideEffectClass, *, confirmed: bool) -> bool:
    """Whether a person answers for a class that is guarded: no agent then says what stands behind the tool."""
    return confirmed and side_effect_class not in HARMLESS


def watched(side_effect_class: SideEffectClass, *, costly: bool = False) -> list[Field]:
    """The fields that could loosen this class."""
    if side_effect_class in HARMLESS:
        return []
    run = (row for row in RUN_FIELDS.values() if row.level is Level.TOOL)
    circuit = (CIRCUIT_FIELDS[name] for name in preset(side_effect_class, costly=costly).circuit)
    return [row for row in (*run, *circuit) if row.looser is not Looser.NEITHER]


def is_downward(before: SideEffectClass, after: SideEffectClass) -> bool:
    """Whether another class is handled more leniently than the present one."""
    return STRICTNESS.index(after) < STRICTNESS.index(before)


def _looser(rows: Iterable[Field], new: Any, old: Any) -> list[Field]:
    return [row for row in rows if _is_looser(row, getattr(new, row.name), getattr(old, row.name))]


def _looser_circuits(rows: Iterable[Field], new: Iterable[CircuitPolicy], old: Iterable[CircuitPolicy]) -> list[Field]:
    def worse(one: CircuitPolicy, row: Field) -> bool:
        return all(_is_looser(row, getattr(one, row.name), getattr(each, row.name)) for each in old)

    return [row for row in rows if any(worse(one, row) for one in new)]


def _is_looser(row: Field, new: Any, old: Any) -> bool:
    """None switches a limit off, and so protects least."""
    if new == old or row.looser is Looser.NEITHER or old is None:
        return False
    if new is None:
        return True
    if row.looser in (Looser.WHEN_TRUE, Looser.WHEN_FALSE):
        return bool(new) is (row.looser is Looser.WHEN_TRUE)
    rank = row.choices.index if row.choices else float
    return rank(new) > rank(old) if row.looser is Looser.UP else rank(new) < rank(old)
