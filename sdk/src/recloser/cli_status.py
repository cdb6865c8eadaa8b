"""`recloser status` and `recloser check`: what this key's agent sees, and whether its line works."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from recloser.cli_line import NO, OK, Found, Line, Trouble, add_common, answered, shown, since
from recloser.config_sync import CircuitView, Documents
from recloser.version import __version__

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_status(subparsers: Subparsers) -> None:
    """`recloser status`."""
    _add(subparsers, "status", "what this key's agent sees: policies, open circuits, the stream", _status)


def add_check(subparsers: Subparsers) -> None:
    """`recloser check`."""
    _add(subparsers, "check", "does my key work, which version, what is open; not 0 when something does not", _check)


def _add(subparsers: Subparsers, name: str, help: str, work: Callable[[Line], Found]) -> None:
    parser = subparsers.add_parser(name, help=help)
    add_common(parser)

    def run(args: argparse.Namespace) -> int:
        def ask() -> Found:
            line = Line(args)
            try:
                return work(line)
            finally:
                line.close()

        return answered(name, args, ask)

    parser.set_defaults(run=run)


def _status(line: Line) -> Found:
    """From the control plane; while it is away from what was saved, saying so."""
    try:
        documents = line.documents()
    except Trouble as trouble:
        if (kept := line.saved()) is None:
            raise
        found = {**_seen(kept[0]), "source": "disk", "age_s": round(kept[1], 1), "stream": None}
        return trouble.status, {**found, "error": trouble.to_json()}, [_away(trouble, kept[1]), *_lines(found)]
    found = {**_seen(documents), "source": "server", "age_s": 0.0, "stream": line.stream_is_live()}
    return OK, found, _lines(found)


def _away(trouble: Trouble, age_s: float) -> str:
    return f"! {shown(trouble, 1000)}\n! what follows was saved {since(age_s)} ago"


def _check(line: Line) -> Found:
    """Everything that must work; the stream alone is no failure of the key, but of the way to it."""
    documents = line.documents()
    live = line.stream_is_live()
    found = {**_seen(documents), "ok": live, "stream": live, "sdk": f"python/{__version__}"}
    lines = [
        f"ok    sdk      recloser {__version__}",
        f"ok    key      agent {shown(found['agent'])} in {shown(found['environment'])}",
        f"ok    config   version {found['config']['version']}, {found['config']['tools']} tools",
        f"ok    circuits version {found['circuits']['version']}, {len(found['not_closed'])} not closed",
        "ok    stream   live"
        if live
        else "FAIL  stream   no event in time: agents poll, and hear of changes later; "
        "look for a proxy that buffers /agent/v1/stream",
    ]
    return OK if live else NO, found, [*lines, *_circuits(found)]


def _seen(documents: Documents) -> dict[str, Any]:
    snapshot, config = documents.snapshot, documents.config
    head = config.document or {}
    now = snapshot.server_now(time.monotonic())
    return {
        "environment": head.get("environment"),
        "agent": head.get("agent"),
        "config": {"version": _version(config.version), "tools": len(snapshot.config.tools)},
        "circuits": {"version": _version(documents.circuits.version)},
        "not_closed": [_circuit(name, view, documents, now) for name, view in sorted(snapshot.circuits.items())],
    }


def _version(version: tuple[str, int] | None) -> str | None:
    return None if version is None else f"{version[0]}-{version[1]}"


def _circuit(name: str, view: CircuitView, documents: Documents, now: float) -> dict[str, Any]:
    signal = view.signal(now)
    tools = documents.snapshot.config.tools.values()
    return {
        "dependency": name,
        "state": view.state.value,
        "mode": view.mode.value,
        "effective": view.effective(now).value,
        "delivery": view.delivery.value,
        "tripped_by": "operator" if signal is None else signal.value,
        "open_for_s": None if view.opened_at is None else round(max(0.0, now - view.opened_at), 1),
        "probed": view.probed,
        "next_probe_in_s": round(max(0.0, view.due_at - now), 1) if view.probed and view.due_at is not None else None,
        "tools": sorted(tool.name for tool in tools if name in (one.name for one in tool.dependencies)),
    }


def _lines(found: Mapping[str, Any]) -> list[str]:
    stream = {True: "live", False: "none (agents poll)", None: "not asked"}[found["stream"]]
    return [
        f"agent     {shown(found['agent'])} in {shown(found['environment'])}",
        f"config    version {found['config']['version']}, {found['config']['tools']} tools",
        f"circuits  version {found['circuits']['version']}",
        f"stream    {stream}",
        *_circuits(found),
    ]


def _circuits(found: Mapping[str, Any]) -> list[str]:
    if not found["not_closed"]:
        return ["every circuit is closed"]
    return [_circuit_line(one) for one in found["not_closed"]]


def _circuit_line(one: Mapping[str, Any]) -> str:
    parts = [f"{shown(one['dependency'])}: {one['effective']} (state {one['state']}, mode {one['mode']})"]
    if one["state"] != "closed" or one["mode"] != "auto":
        parts.append(f"by {one['tripped_by']}")
    if one["open_for_s"] is not None:
        parts.append(f"for {since(one['open_for_s'])}")
    if one["next_probe_in_s"] is not None:
        parts.append(f"next probe in {since(one['next_probe_in_s'])}")
    elif one["effective"] == "open" and not one["probed"]:
        parts.append("no probe is set up")
    if one["tools"]:
        parts.append("tools " + ", ".join(shown(name) for name in one["tools"][:10]))
    return ", ".join(parts)
