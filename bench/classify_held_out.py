"""How well names alone tell writes from reads on servers that the word lists were not written from.

`python -m bench.classify_held_out TOOLS.jsonl`: each annotated server is held out in turn. While it is judged, every
word of the lists that no other server of the listing uses is struck out, as if the lists had been written from the
others only.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from recloser.core import effects, words
from recloser.core.types import SideEffectClass
from recloser.listing import Listed, Score, read, score_of

LISTS = [value for name, value in vars(words).items() if name.isupper()]
KNOWN: frozenset[str] = frozenset().union(*LISTS) - words.JOINS


def held_out(listed: list[Listed]) -> tuple[Score, Score]:
    """The score with the whole lists, and the score of every server with what the others witness."""
    used: dict[str, set[str]] = defaultdict(set)
    for each in listed:
        used[each.server].update(effects.tokens_of(each.tool))
    known = {
        server: KNOWN & frozenset().union(*(seen for other, seen in used.items() if other != server)) for server in used
    }
    blind = score_of(listed, lambda each: effects.of_name(_blinded(each, known[each.server]), server=each.server))
    return score_of(listed), blind


def _blinded(each: Listed, known: frozenset[str]) -> str:
    tokens = effects.tokens_of(each.tool)
    return "_".join(token if token in known or token not in KNOWN else "xyzzy" for token in tokens)


def main(path: str) -> None:
    """Print both."""
    listed = read(Path(path))
    for title, found in zip(("whole lists", "held out by server"), held_out(listed), strict=True):
        print(
            f"{title}: writes caught {found.writes_caught} of {found.writes}, "
            f"reads over-classified {found.reads_over_classified} of {found.reads}"
        )
    unknown = sum(effects.of_name(each.tool).side_effect is SideEffectClass.UNKNOWN for each in listed)
    print(f"left to the operator (unknown): {unknown} of {len(listed)}")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        print("name a listing: python -m bench.classify_held_out TOOLS.jsonl")
