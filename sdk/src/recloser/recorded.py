"""Runs that were recorded, one JSON object a line: read one at a time, so a file of any length fits."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from recloser.conformance import OUTCOMES
from recloser.core.hindsight import Step

LONGEST_LINE = 64 * 1024 * 1024
FINALS = ("ok", "fail", "unknown")


class BadRuns(Exception):
    """A file that holds something else than runs: where, what, and how to mend it."""

    def __init__(self, message: str, mend: str) -> None:
        super().__init__(message)
        self.mend = mend


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One run as somebody wrote it down; how it ended may be unknown."""

    source: str
    final: str
    steps: list[Step]


def read(path: Path) -> Iterator[RecordedRun]:
    """The runs of a file (`.gz`: unpacked on the way), in order. Raises `BadRuns` at the first line that is none."""
    number = 0
    try:
        with _opened(path) as file:
            while line := file.readline(LONGEST_LINE):
                number += 1
                if line.strip():
                    yield _run(line, f"line {number}")
    except (OSError, EOFError, zlib.error) as problem:
        reason = getattr(problem, "strerror", None) or f"line {number + 1} cannot be read"
        raise BadRuns(reason, "give a file of runs, one a line, or its .gz") from None


def _opened(path: Path) -> gzip.GzipFile | BinaryIO:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _run(line: bytes, where: str) -> RecordedRun:
    if len(line) >= LONGEST_LINE:
        raise BadRuns(f"{where} is longer than {LONGEST_LINE >> 20} MiB", "write one run a line")
    try:
        raw = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        raise BadRuns(f"{where} is not JSON", "write one object a line") from None
    if not isinstance(raw, dict):
        raise BadRuns(f"{where} is no object", 'write one such as {"final": "ok", "steps": []}')
    steps = raw.get("steps")
    if not isinstance(steps, list):
        raise BadRuns(f"{where}: steps is no list", "give the run's tool calls in their order")
    source = raw.get("source")
    return RecordedRun(
        source=source[:100] if isinstance(source, str) else "",
        final=_one_of(raw.get("final") or "unknown", FINALS, f"{where}: final"),
        steps=[_step(step, f"{where}: steps[{place}]") for place, step in enumerate(steps)],
    )


def _step(raw: Any, where: str) -> Step:
    if not isinstance(raw, dict):
        raise BadRuns(f"{where} is no object", 'write one such as {"tool": "search", "outcome": "ok"}')
    tool = raw.get("tool")
    if not isinstance(tool, str) or not tool:
        raise BadRuns(f"{where}: tool is missing", "name the tool that was called")
    return Step(
        tool=tool,
        outcome=OUTCOMES[_one_of(raw.get("outcome"), OUTCOMES, f"{where}: outcome")],
        args=_hash(raw, "args_hash", where),
        result=_hash(raw, "result_hash", where),
        duration_s=_amount(raw, "latency_ms", where) / 1000.0,
        tokens=int(_amount(raw, "tokens", where)),
    )


def _one_of(value: Any, known: Mapping[str, Any] | tuple[str, ...], where: str) -> str:
    if not isinstance(value, str) or value not in known:
        shown = json.dumps(value)[:40] if isinstance(value, str | int | float | None) else type(value).__name__
        raise BadRuns(f"{where} is {shown}", f"use one of {', '.join(known)}")
    return value


def _hash(raw: Mapping[str, Any], name: str, where: str) -> str | None:
    value = raw.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRuns(f"{where}: {name} is no text", "write the hash, or null where there is none")
    return value


def _amount(raw: Mapping[str, Any], name: str, where: str) -> float:
    value = raw.get(name)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise BadRuns(f"{where}: {name} is no amount", "write a number from 0, or null where it is not known")
    return float(min(value, 1e15))
