"""Which fields of a layer protect less than its class: anyone may tighten a class, nobody loosens it alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recloser.core.resolve import HARMLESS, STRICTNESS, Layer, preset, resolve_circuit, resolve_run
from recloser.core.schema import CIRCUIT_FIELDS, RUN_FIELDS, Field, Level, Looser
from recloser.core.types import SideEffectClass


def loosened(side_effect_class: SideEffectClass, layer: Layer, *, costly: bool = False) -> list[Field]:
    """The fields by which a layer makes calls of this class less guarded than its preset does.

    A tool's fields count, and of the circuit's those that a class sets; a harmless class has nothing to guard.
    """
    if side_effect_class in HARMLESS:
        return []
    known: dict[str, Any] = {"side_effect_class": side_effect_class, "costly": costly}
    rows = (row for row in RUN_FIELDS.values() if row.level is Level.TOOL)
    run = _looser(rows, resolve_run([layer], **known).policy, resolve_run([], **known).policy)
    guarded = (CIRCUIT_FIELDS[name] for name in preset(side_effect_class, costly=costly).circuit)
    circuit = _looser(guarded, resolve_circuit([layer], **known).policy, resolve_circuit([], **known).policy)
    return [*run, *circuit]


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
