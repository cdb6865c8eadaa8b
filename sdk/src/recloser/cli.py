"""The `recloser` command. A subcommand is one function that adds its parser and names what runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recloser import conformance

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

Add = Callable[["Subparsers"], None]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; the exit status is its answer."""
    args = _parser().parse_args(argv)
    status: int = args.run(args)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recloser", description="Circuit breakers for the tools of LLM agents.")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in SUBCOMMANDS:
        add(subparsers)
    return parser


def _add_conformance(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("conformance", help="play a file of cases through the decision core")
    parser.add_argument("file", type=Path, metavar="FILE.json")
    parser.set_defaults(run=_conformance)


def _conformance(args: argparse.Namespace) -> int:
    try:
        report = conformance.run_file(args.file)
    except conformance.BadFile as error:
        print(f"recloser conformance: {error}", file=sys.stderr)
        return 2
    for line in report.lines():
        print(line)
    return 1 if report.failed else 0


SUBCOMMANDS: list[Add] = [_add_conformance]
"""Further commands add themselves here."""


if __name__ == "__main__":
    raise SystemExit(main())
