"""Where each value comes from: built-in default <- environment <- class preset <- dependency <- tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from recloser.core.schema import CIRCUIT_FIELDS, RUN_FIELDS, CircuitPolicy, Field, Level, RunPolicy
from recloser.core.types import SideEffectClass
from recloser.core.validation import FieldError, PolicyError, parse


class Origin(StrEnum):
    """Which layer gave a value, from the weakest to the strongest."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    CLASS = "class"
    DEPENDENCY = "dependency"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer sets itself; `circuit` and `run` hold plain or typed values by field name."""

    origin: Origin
    circuit: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)


P = TypeVar("P", CircuitPolicy, RunPolicy)


@dataclass(frozen=True, slots=True)
class Resolved(Generic[P]):
    """A whole policy and, for each field, the layer its value came from."""

    policy: P
    origins: Mapping[str, Origin]


STRICTNESS = (
    SideEffectClass.READ_ONLY,
    SideEffectClass.IDEMPOTENT_WRITE,
    SideEffectClass.UNKNOWN,
    SideEffectClass.SIDE_EFFECT,
    SideEffectClass.DESTRUCTIVE,
)
"""From the most lenient to the strictest; an unconfirmed class is handled as a possible side effect."""

_TIGHTER = {
    SideEffectClass.READ_ONLY: SideEffectClass.IDEMPOTENT_WRITE,
    SideEffectClass.IDEMPOTENT_WRITE: SideEffectClass.SIDE_EFFECT,
    SideEffectClass.UNKNOWN: SideEffectClass.SIDE_EFFECT,
    SideEffectClass.SIDE_EFFECT: SideEffectClass.DESTRUCTIVE,
    SideEffectClass.DESTRUCTIVE: SideEffectClass.DESTRUCTIVE,
}

_THRESHOLDS: Mapping[SideEffectClass, tuple[int, int]] = {
    SideEffectClass.READ_ONLY: (5, 3),
    SideEffectClass.IDEMPOTENT_WRITE: (4, 3),
    SideEffectClass.SIDE_EFFECT: (2, 2),
    SideEffectClass.DESTRUCTIVE: (1, 2),
    SideEffectClass.UNKNOWN: (3, 3),
}
"""Failures and identical calls, by class."""

HARMLESS = frozenset({SideEffectClass.READ_ONLY, SideEffectClass.IDEMPOTENT_WRITE})
_CONFIRMED_EFFECT = frozenset({SideEffectClass.SIDE_EFFECT, SideEffectClass.DESTRUCTIVE})


def strictest(classes: Iterable[SideEffectClass]) -> SideEffectClass:
    """The class that gives a dependency its preset; `unknown` where no tool is known."""
    return max(classes, key=STRICTNESS.index, default=SideEffectClass.UNKNOWN)


def handled_as(claimed: SideEffectClass, *, confirmed: bool) -> SideEffectClass:
    """The class whose rules hold: what nobody confirmed is never handled more leniently than `unknown`."""
    return claimed if confirmed else strictest((claimed, SideEffectClass.UNKNOWN))


def preset(side_effect_class: SideEffectClass, *, costly: bool = False) -> Layer:
    """What a class sets. `costly` tightens the thresholds by one step; what a call may do stays the class's own."""
    failures, identical = _THRESHOLDS[_TIGHTER[side_effect_class] if costly else side_effect_class]
    run = {
        "consecutive_failures": failures,
        "identical_calls": identical,
        "repeat_at_once": side_effect_class in _CONFIRMED_EFFECT,
        "retry_ambiguous": side_effect_class in HARMLESS,
    }
    return Layer(Origin.CLASS, circuit={"permits": side_effect_class in HARMLESS}, run=run)


def resolve_circuit(
    layers: Iterable[Layer],
    *,
    side_effect_class: SideEffectClass = SideEffectClass.UNKNOWN,
    costly: bool = False,
) -> Resolved[CircuitPolicy]:
    """A dependency's circuit policy; no layer below the dependency has a say."""
    ordered = [layer for layer in _ordered(layers, side_effect_class, costly) if layer.origin is not Origin.TOOL]
    return _resolved(CircuitPolicy, CIRCUIT_FIELDS, [(layer.origin, layer.circuit) for layer in ordered])


def resolve_run(
    layers: Iterable[Layer],
    *,
    side_effect_class: SideEffectClass = SideEffectClass.UNKNOWN,
    costly: bool = False,
) -> Resolved[RunPolicy]:
    """A tool's run policy. The run's own limits resolve no deeper than the environment."""
    ordered = _ordered(layers, side_effect_class, costly)
    return _resolved(RunPolicy, RUN_FIELDS, [(layer.origin, layer.run) for layer in ordered])


def _ordered(layers: Iterable[Layer], side_effect_class: SideEffectClass, costly: bool) -> list[Layer]:
    strength = list(Origin).index
    return sorted([preset(side_effect_class, costly=costly), *layers], key=lambda layer: strength(layer.origin))


def _resolved(
    holder: type[P], known: Mapping[str, Field], layers: list[tuple[Origin, Mapping[str, Any]]]
) -> Resolved[P]:
    values: dict[str, Any] = {}
    origins = dict.fromkeys(known, Origin.DEFAULT)
    for origin, mapping in layers:
        for name, value in mapping.items():
            if _may_set(known, name, origin):
                values[name] = _typed(known[name], value)
                origins[name] = origin
    return Resolved(holder(**values), origins)


def _may_set(known: Mapping[str, Field], name: str, origin: Origin) -> bool:
    if name not in known:
        raise PolicyError([FieldError(name, "there is no such field", "validate a layer before resolving it")])
    return known[name].level is not Level.ENVIRONMENT or origin is Origin.ENVIRONMENT


def _typed(row: Field, value: Any) -> Any:
    plain_rules = isinstance(value, tuple) and bool(value) and isinstance(value[0], tuple)
    return value if plain_rules else parse(row, value)


def replace_layer(layers: Iterable[Layer], new: Layer) -> list[Layer]:
    """The layers with one of them exchanged: what an editor's preview resolves."""
    return [*(layer for layer in layers if layer.origin is not new.origin), new]
