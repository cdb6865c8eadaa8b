"""What nobody changes alone: what protects less than its class, and, where it is guarded, what models are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recloser.core.resolve import HARMLESS, STRICTNESS, Layer, preset, resolve_circuit, resolve_run
from recloser.core.schema import CIRCUIT_FIELDS, RUN_FIELDS, Field, Level, Looser
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
    rows = watched(side_effect_class, costly=costly)
    run_rows, circuit_rows = ([row for row in rows if row.policy == policy] for policy in ("run", "circuit"))
    run = _looser(run_rows, resolve_run([layer], **known).policy, resolve_run([], **known).policy)
    circuit = _looser(circuit_rows, resolve_circuit([layer], **known).policy, resolve_circuit([], **known).policy)
    return [*run, *circuit]


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
