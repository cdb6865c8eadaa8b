"""`manage.py replay_outages FILE`: real outage histories against a policy, with synthetic calls and probes."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from recloser.core.outages import ASSUMPTIONS, BadHistory, Figures, replayed
from recloser.core.policy import validate
from recloser.core.schema import CircuitPolicy

COLUMNS = ("outages", "missed", "p50", "p90", "too early", "probes", "lockouts")


class Command(BaseCommand):
    """Needs no database. A line of FILE is one dependency: `dependency`, `source`, `checks`."""

    help = "Replay outage histories (one JSON object a line) and print what the policy would have done."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The file, and what may differ."""
        parser.add_argument("file", type=Path, help="histories, one JSON object a line")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
        parser.add_argument("--degraded", action="store_true", help="take a degraded check for an outage too")
        parser.add_argument("--seed", type=int, default=0, help="of the jitter of waits (default 0)")
        parser.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="another value of a circuit policy field"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the figures by source and of all together, after what they assume."""
        policy = _policy(options["set"])
        by_source: dict[str, Figures] = {}
        for where, history in _histories(options["file"]):
            try:
                draw = partial(Random(options["seed"]).uniform, -1.0, 1.0)  # noqa: S311 shifts waits, keeps no secret
                figures = replayed(history, policy, degraded_counts=options["degraded"], jitter=draw)
            except BadHistory as error:
                raise CommandError(f"{where}: {error}") from None
            by_source.setdefault(str(history.get("source", "unnamed"))[:60], Figures()).add(figures)
        total = Figures()
        for figures in by_source.values():
            total.add(figures)
        self.stdout.write(_as_json(total, by_source) if options["json"] else _as_table(total, by_source))


def _policy(settings: list[str]) -> CircuitPolicy:
    values = dict(map(_setting, settings))
    if problems := validate(values, "circuit"):
        raise CommandError(f"--set {problems[0].field}: {problems[0].message}")
    return replace(CircuitPolicy(), **values)


def _setting(given: str) -> tuple[str, Any]:
    name, _, value = given.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        raise CommandError(f"--set {given}: give NAME=VALUE, the value as JSON, as in cooldown_max_s=45") from None


def _histories(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{path.name}, line {number}", _history(line, f"{path.name}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path.name} cannot be read: {error}") from None


def _history(line: str, where: str) -> Mapping[str, Any]:
    try:
        history = json.loads(line)
    except ValueError as error:
        raise CommandError(f"{where}: not JSON ({error}); give one object a line") from None
    if not isinstance(history, dict):
        raise CommandError(f'{where}: give an object with "checks"')
    return history


def _as_json(total: Figures, by_source: Mapping[str, Figures]) -> str:
    sources = {name: figures.to_dict() for name, figures in by_source.items()}
    return json.dumps({**total.to_dict(), "assumptions": ASSUMPTIONS, "by_source": sources}, indent=2)


def _as_table(total: Figures, by_source: Mapping[str, Figures]) -> str:
    width = max(map(len, [*by_source, "source"]))
    lines = ["Assumed: " + "; ".join(ASSUMPTIONS) + ".", "Waits from recovery to closed, in seconds.", ""]
    lines.append(_line("source", COLUMNS, width))
    lines += [_line(name, _cells(figures), width) for name, figures in by_source.items()]
    return "\n".join([*lines, _line("all", _cells(total), width)])


def _line(name: str, cells: tuple[str, ...], width: int) -> str:
    return f"{name:<{width}}" + "".join(f"{cell:>11}" for cell in cells)


def _cells(figures: Figures) -> tuple[str, ...]:
    told = figures.to_dict()
    waits, share = told["open_after_recovery_s"], told["closed_too_early_share"]
    shown = (told["episodes"], told["episodes_missed"], waits["p50"], waits["p90"], share, *_counts(told))
    return tuple("-" if value is None else str(value) for value in shown)


def _counts(told: Mapping[str, Any]) -> tuple[int, int]:
    return told["probes"], told["lockouts"]
