"""`recloser explain TOOL`: the policy that holds for a tool, each value with where it comes from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from recloser.cli_line import NO, OK, UNUSABLE, Found, Line, Trouble, add_common, answered, shown, since
from recloser.config_sync import Documents
from recloser.core.effects import in_words, stated
from recloser.core.policy import handled_as, to_wire

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

LONGEST_NAME = 200


def add_explain(subparsers: Subparsers) -> None:
    """`recloser explain`."""
    parser = subparsers.add_parser("explain", help="the policy that holds for a tool, and where each value comes from")
    parser.add_argument("tool", metavar="TOOL")
    parser.add_argument("--all", action="store_true", help="the built-in defaults, too")
    add_common(parser)
    parser.set_defaults(run=lambda args: answered("explain", args, lambda: _explain(args)))


def _explain(args: argparse.Namespace) -> Found:
    if not 0 < len(args.tool) <= LONGEST_NAME:
        raise Trouble(UNUSABLE, "that is no tool's name", f"give one of 1 to {LONGEST_NAME} characters")
    line = Line(args)
    try:
        return _asked(line, args)
    finally:
        line.close()


def _asked(line: Line, args: argparse.Namespace) -> Found:
    """From the control plane; while it is away from what was saved, which does not hold origins."""
    try:
        found = {**line.get(f"/explain?tool={quote(args.tool, safe='', errors='replace')}"), "source": "server"}
        lines = _lines(found, everything=args.all)
    except Trouble as trouble:
        if (kept := line.saved()) is None:
            raise
        found = {**_from_saved(kept[0], args.tool), "source": "disk", "age_s": round(kept[1], 1)}
        warning = f"! {shown(trouble, 1000)}\n! saved {since(kept[1])} ago; where values come from is not saved"
        return trouble.status, {**found, "error": trouble.to_json()}, [warning, *_lines(found, everything=True)]
    except (LookupError, TypeError, AttributeError, ValueError):
        raise Trouble(UNUSABLE, "the answer cannot be read", "upgrade recloser here") from None
    return OK if found["known"] else NO, found, lines


def _from_saved(documents: Documents, name: str) -> dict[str, Any]:
    """The same shape from the saved config; `from` is None, for a resolved document does not say it."""
    config = documents.snapshot.config
    rule, head = config.tool(name), documents.config.document or {}
    return {
        "environment": head.get("environment"),
        "agent": head.get("agent"),
        "config": list(config.version) if config.version else None,
        "tool": name,
        "known": name in config.tools,
        "near": None,
        "side_effect": rule.side_effect.value,
        "confirmed": rule.confirmed,
        "handled_as": handled_as(rule.side_effect, confirmed=rule.confirmed).value,
        "costly": None,
        "operation": rule.operation,
        "run": _values(rule.policy),
        "dependencies": [
            {"name": one.name, "policy": _values(one.policy), "circuit": _told(documents, one.name)}
            for one in rule.dependencies
        ],
    }


def _values(policy: Any) -> dict[str, Any]:
    return {name: {"value": value, "from": None} for name, value in to_wire(policy).items()}


def _told(documents: Documents, dependency: str) -> dict[str, Any] | None:
    view = documents.snapshot.circuits.get(dependency)
    return None if view is None else {"state": view.state.value, "mode": view.mode.value}


def _lines(found: Mapping[str, Any], *, everything: bool) -> list[str]:
    confirmed = "confirmed" if found["confirmed"] else "not confirmed"
    kind = f"class {found['side_effect']}, {confirmed}, handled as {found['handled_as']}"
    lines = [f"{shown(found['tool'])} in {shown(found['environment'])}: {kind}"]
    if not found["known"]:
        near = f" Did you mean {shown(found['near'])}?" if found["near"] else ""
        lines.append(f"! The control plane knows no such tool; this is what would hold for it.{near}")
    lines += _claims(found)
    lines += ["in a run", *_fields(found["run"], everything)]
    for each in found["dependencies"]:
        lines.append(f"behind it: {shown(each['name'])}, {_standing(each['circuit'])}")
        lines += _fields(each["policy"], everything)
    return lines


def _claims(found: Mapping[str, Any]) -> list[str]:
    """What may become its class, and what it says of itself; an older control plane tells neither."""
    lines = []
    if (proposal := found.get("proposal")) is not None:
        of = "hints" if proposal["by"] == "hints" else "name"
        suggests = (
            f"suggest {shown(proposal['side_effect'])}" if of == "hints" else f"suggests {proposal['side_effect']}"
        )
        lines.append(f"its {of} {suggests} ({shown(proposal['because'])}); a person confirms a class, or another")
    for told in found.get("hints") or ():
        said = in_words(stated(told))
        lines.append(f"as {shown(told['agent'])} tells it, it says: {said} (a claim)")
    return lines


def _standing(circuit: Mapping[str, Any] | None) -> str:
    return "closed" if circuit is None else f"state {shown(circuit['state'])}, mode {shown(circuit['mode'])}"


def _fields(values: Mapping[str, Any], everything: bool) -> list[str]:
    rows = {name: one for name, one in values.items() if everything or one["from"] != "default"}
    lines = [_field(name, one) for name, one in rows.items()]
    if left := len(values) - len(rows):
        lines.append(f"  ({left} more are built-in defaults; --all shows them)")
    return lines


def _field(name: str, one: Mapping[str, Any]) -> str:
    return f"  {shown(name):34} {shown(json.dumps(one['value']), 200):24} {shown(one['from'] or '')}".rstrip()
