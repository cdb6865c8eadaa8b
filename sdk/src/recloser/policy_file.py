"""A policy in a file, for runs that are played again: the layers that a product owner writes, or a config document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from recloser.config_sync import parse_config
from recloser.core.decision import ToolRules
from recloser.core.hindsight import Hindsight
from recloser.core.policy import Layer, Level, Origin, resolve_run, strictest, validate
from recloser.core.types import SideEffectClass
from recloser.errors import BadDocument


class BadPolicy(Exception):
    """A policy file or a file of classes that cannot be applied: which field, and how to mend it."""

    def __init__(self, message: str, mend: str) -> None:
        super().__init__(message)
        self.mend = mend


def hindsight(policy: Path | None = None, classes: Path | None = None) -> Hindsight:
    """Under the built-in policy, or the one of a file. A tool whose class nobody tells is `unknown`."""
    given = {} if policy is None else _object(policy)
    if "run_policies" in given:
        return _by_document(policy, given)
    known = _classes({} if classes is None else _object(classes), str(classes))
    return _by_layers(given, known, str(policy))


def _by_document(path: Path | None, given: Mapping[str, Any]) -> Hindsight:
    """A config document, as the control plane serves it: the policies that an agent really has."""
    try:
        config = parse_config(given)
    except BadDocument as problem:
        raise BadPolicy(f"{path}: {problem}", "save it as GET /agent/v1/config answers it") from None

    def rules_of(tool: str) -> ToolRules:
        rule = config.tool(tool)
        return ToolRules(rule.policy, tuple(each.name for each in rule.dependencies))

    return Hindsight(config.run_policy, cache(rules_of))


def _by_layers(given: Mapping[str, Any], classes: Mapping[str, SideEffectClass], path: str) -> Hindsight:
    _known_keys(given, ("run", "classes", "tools"), path)
    whole = Layer(Origin.ENVIRONMENT, run=_values(given, "run", Level.ENVIRONMENT, path))
    by_class = _table(given, "classes", path)
    for name in by_class:
        _class(name, f"{path}: classes")
    of_class = {
        name: Layer(Origin.CLASS, run=_values(by_class, name, Level.TOOL, f"{path}: classes")) for name in by_class
    }
    by_tool = _table(given, "tools", path)
    of_tool = {name: Layer(Origin.TOOL, run=_values(by_tool, name, Level.TOOL, f"{path}: tools")) for name in by_tool}

    def rules_of(tool: str) -> ToolRules:
        side_effect = classes.get(tool, SideEffectClass.UNKNOWN)
        layers = [whole, *(layer for layer in (of_class.get(side_effect.value), of_tool.get(tool)) if layer)]
        return ToolRules(resolve_run(layers, side_effect_class=side_effect).policy, (tool,))

    return Hindsight(resolve_run([whole]).policy, cache(rules_of))


def _object(path: Path) -> dict[str, Any]:
    try:
        given = json.loads(path.read_bytes())
    except OSError as problem:
        raise BadPolicy(f"{path}: {problem.strerror or 'cannot be read'}", "give a file of JSON") from None
    except (ValueError, RecursionError):
        raise BadPolicy(f"{path}: is not JSON", "write one object") from None
    if not isinstance(given, dict):
        raise BadPolicy(f"{path}: is no object", "write one such as {}")
    return given


def _known_keys(given: Mapping[str, Any], known: tuple[str, ...], path: str) -> None:
    for name in given:
        if name not in known:
            raise BadPolicy(f"{path}: there is no {str(name)[:60]!r} here", f"use {', '.join(known)}")


def _table(given: Mapping[str, Any], name: str, path: str) -> dict[str, Any]:
    table = given.get(name, {})
    if not isinstance(table, dict):
        raise BadPolicy(f"{path}: {name[:60]} is no object", "write fields and values, such as {}")
    return table


def _values(given: Mapping[str, Any], name: str, level: Level, path: str) -> dict[str, Any]:
    values = _table(given, name, path)
    if errors := validate(values, level):
        raise BadPolicy(f"{path}: {name[:60]}: {errors[0].field}: {errors[0].message}", errors[0].mend)
    return values


def _classes(given: Mapping[str, Any], path: str) -> dict[str, SideEffectClass]:
    """By tool; what `recloser classify --json` prints is taken too, each tool as it is handled until confirmed."""
    listed = given.get("tools")
    rows = listed if isinstance(listed, list) else [{"tool": name, "handled_as": told} for name, told in given.items()]
    found: dict[str, SideEffectClass] = {}
    for row in rows:
        tool, told = (row.get("tool"), row.get("handled_as")) if isinstance(row, dict) else (None, None)
        one = _class(told, f"{path}: {str(tool)[:60]}")
        found[str(tool)] = strictest((one, found.get(str(tool), one)))  # the same name on two servers
    return found


def _class(name: Any, where: str) -> SideEffectClass:
    if name not in list(SideEffectClass):
        raise BadPolicy(f"{where}: there is no class {str(name)[:60]!r}", f"use {', '.join(SideEffectClass)}")
    return SideEffectClass(name)
