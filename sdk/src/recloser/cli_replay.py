"""`recloser replay`: what a policy would have done to runs that were recorded, and how those runs ended in fact."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from recloser.cli_line import OK, UNUSABLE, Found, Trouble, answered
from recloser.core.hindsight import Hindsight
from recloser.core.types import Signal
from recloser.policy_file import BadPolicy, hindsight
from recloser.recorded import BadRuns, RecordedRun, read
from recloser.tally import Tally, share


def add_replay(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Its parser."""
    parser = subparsers.add_parser("replay", help="play recorded runs: what would this policy have done to them?")
    parser.add_argument("file", type=Path, metavar="RUNS.jsonl", help="one run a line; may be gzipped (.gz)")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="a policy, or a config document, as JSON")
    parser.add_argument("--classes", type=Path, metavar="FILE", help='the class of each tool: {"search": "read_only"}')
    parser.add_argument("--json", action="store_true", help="figures for a program, also by source")
    parser.set_defaults(run=lambda args: answered("replay", args, lambda: _replay(args)))


def _replay(args: argparse.Namespace) -> Found:
    try:
        whole, by_source = replayed(read(args.file), hindsight(args.policy, args.classes))
    except BadRuns as problem:
        raise Trouble(UNUSABLE, f"{args.file}: {problem}", problem.mend) from None
    except BadPolicy as problem:
        raise Trouble(UNUSABLE, str(problem), problem.mend) from None
    if not whole.runs:
        raise Trouble(UNUSABLE, f"{args.file}: it holds no run", "give a file with one recorded run a line")
    figures = {**whole.wire(), "by_source": {name: of.wire() for name, of in sorted(by_source.items())}}
    return OK, figures, list(lines(whole, by_source))


def replayed(runs: Iterable[RecordedRun], by: Hindsight) -> tuple[Tally, dict[str, Tally]]:
    """The figures over all runs, and by where they come from."""
    whole, by_source = Tally(), dict[str, Tally]()
    for each in runs:
        verdict = by.verdict(each.steps)
        whole.add(each, verdict)
        by_source.setdefault(each.source, Tally()).add(each, verdict)
    return whole, by_source


def lines(whole: Tally, by_source: Mapping[str, Tally]) -> Iterator[str]:
    """For people: two tables, and what the words mean."""
    yield from table(SIGNAL_HEAD, signal_rows(whole))
    yield ""
    yield from table(SOURCE_HEAD, source_rows(whole, by_source))
    yield ""
    yield "Stopped: it lost a tool or was ended; a blocked call is no stop. Caught: any trip, a block included."
    yield "Bad loop: it failed after an exact cycle of calls, or five identical calls with an unchanged result."


SIGNAL_HEAD = ("signal", "trips", "runs", "ended ok", "failed", "stopped", "only watched")
SOURCE_HEAD = ("source", "runs", "ended ok", "of these stopped", "share", "bad loops", "of these caught", "share")


def signal_rows(whole: Tally) -> Iterator[tuple[str, ...]]:
    """One row a signal that tripped, or would have."""
    for signal in Signal:
        for watched, found in ((False, whole.signals.get(signal)), (True, whole.watched.get(signal))):
            if found is not None:
                counts = (found.trips, found.runs, found.ended["ok"], found.ended["fail"], found.stopped)
                yield (signal.value, *map(str, counts), "yes" if watched else "")


def source_rows(whole: Tally, by_source: Mapping[str, Tally]) -> Iterator[tuple[str, ...]]:
    """One row a source, and all of them."""
    named: list[tuple[str, Tally]] = [*sorted(by_source.items()), ("all", whole)]
    for name, of in named:
        yield (
            name or "(none)", str(of.runs), str(of.ended["ok"]), str(of.stopped["ok"]),
            _percent(share(of.stopped["ok"], of.ended["ok"])), str(of.bad_loops), str(of.bad_loops_caught),
            _percent(share(of.bad_loops_caught, of.bad_loops)),
        )  # fmt: skip


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """As Markdown, which is legible on a terminal too."""
    cells = [head, *rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(head))]
    for number, row in enumerate(cells):
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
