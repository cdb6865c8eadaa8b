"""The `recloser` command. A subcommand is one function that adds its parser and names what runs it."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recloser import conformance, conformance_wire
from recloser.cli_classify import add_classify
from recloser.cli_explain import add_explain
from recloser.cli_replay import add_replay
from recloser.cli_status import add_check, add_status
from recloser.errors import RecloserError, Refused

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
    parser = subparsers.add_parser("conformance", help="play a file of cases through the decision core, or a server")
    parser.add_argument("file", type=Path, metavar="FILE.json")
    parser.add_argument("--url", help="play them against this control plane, started with RECLOSER_TEST_CLOCK=1")
    parser.add_argument("--key", help="an agent key of it (default: RECLOSER_KEY)")
    parser.set_defaults(run=_conformance)


def _conformance(args: argparse.Namespace) -> int:
    try:
        report = conformance.run_file(args.file, _stage(args))
    except (conformance.BadFile, RecloserError) as error:
        print(f"recloser conformance: {error}{_mend(error)}", file=sys.stderr)
        return 2
    for line in report.lines():
        print(line)
    return 1 if report.failed else 0


def _stage(args: argparse.Namespace) -> conformance.Stage | None:
    if args.url is None:
        return None
    logging.getLogger("recloser").setLevel(logging.ERROR)  # the runs of a case lose their tools on purpose
    return conformance_wire.stage(args.url, args.key or os.environ.get("RECLOSER_KEY", ""))


def _mend(error: Exception) -> str:
    if isinstance(error, Refused) and error.status == 404:
        return " (start the server with RECLOSER_TEST_CLOCK=1, on a test database)"
    return ""


SUBCOMMANDS: list[Add] = [add_status, add_check, add_explain, add_classify, add_replay, _add_conformance]
"""Further commands add themselves here."""


if __name__ == "__main__":
    raise SystemExit(main())
