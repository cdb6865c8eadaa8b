"""`recloser classify TOOLS.jsonl`: the class of each tool of a listing, and how far names can be trusted."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recloser.cli_line import OK, UNUSABLE, Found, Trouble, answered, shown
from recloser.listing import BadListing, Listed, Score, read, score_of

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_classify(subparsers: Subparsers) -> None:
    """`recloser classify`."""
    parser = subparsers.add_parser("classify", help="the class of each tool of a listing, by hints and names")
    parser.add_argument("file", type=Path, metavar="TOOLS.jsonl", help="one object a line: server, tool, annotations")
    parser.add_argument(
        "--trust", action="append", default=[], metavar="SERVER", help="believe this server's hints (may be repeated)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=lambda args: answered("classify", args, lambda: _classify(args)))


def _classify(args: argparse.Namespace) -> Found:
    try:
        listed = read(args.file)
    except BadListing as problem:
        raise Trouble(UNUSABLE, str(problem), "correct the file and run it again") from None
    if not listed:
        mend = 'give a file with one object a line: {"server": "github", "tool": "get_me"}'
        raise Trouble(UNUSABLE, f"{args.file}: it lists no tool", mend)
    _demand_servers(args.trust, listed)
    tools = [_told(each, each.server in args.trust) for each in listed]
    score = score_of(listed)
    found = {
        "tools": tools,
        "classes": dict(Counter(each["class"] for each in tools)),
        "score": score.to_json(),
    }
    return OK, found, [*map(_line, tools), *_summary(score)]


def _demand_servers(trusted: Sequence[str], listed: Sequence[Listed]) -> None:
    known = {each.server for each in listed}
    for name in trusted:
        if name not in known:
            raise Trouble(UNUSABLE, f"the file lists no server {shown(name)!r}", "spell it as the file does")


def _told(each: Listed, trusted: bool) -> dict[str, Any]:
    claim = each.claim(trusted=trusted)
    return {
        "line": each.line,
        "server": each.server,
        "tool": each.tool,
        "class": claim.side_effect.value,
        "handled_as": claim.handled(trusted=trusted).value,
        "basis": claim.basis.value,
        "because": claim.because,
        "listed": each.listed,
    }


def _line(told: Mapping[str, Any]) -> str:
    name = shown(f"{told['server']}/{told['tool']}" if told["server"] else told["tool"])
    twice = f"; listed {told['listed']} times" if told["listed"] > 1 else ""
    return f"{told['class']:17} {name:60} {shown(told['because'], 200)}{twice}"


def _summary(score: Score) -> list[str]:
    """Where hints were published: what the names alone would have said."""
    if not score.writes and not score.reads:
        return ["", "no tool has hints, so the names cannot be scored"]
    return [
        "",
        f"by name alone, hints hidden: {score.writes_caught} of {score.writes} writes caught, "
        f"{score.reads_over_classified} of {score.reads} reads over-classified",
        "a class is a proposal: until an operator confirms it, a tool is handled as unknown or stricter",
    ]
