"""The break-glass file: an operator's forced modes for this machine, where the control plane cannot be reached.

    {"overrides": [{"tool": "web_search", "mode": "forced_open", "expires_at": "2026-11-30T04:00:00Z",
                    "reason": "search returns other customers' data", "who": "dana"},
                   {"dependency": "mail-api", "mode": "forced_closed", "expires_at": 1796011200}]}

Read whole or not at all: a file with a fault changes nothing, what the last good one said holds until it expires.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from recloser.core.types import Mode
from recloser.outbox import age, new_id
from recloser.wire import MAX_REASON, clean

log = logging.getLogger("recloser")

MAX_BYTES = 1024 * 1024
MAX_ENTRIES = 200
_FIELDS = frozenset({"tool", "dependency", "mode", "expires_at", "reason", "who"})


class BadFile(ValueError):
    """The file cannot be used; the text names the field."""


@dataclass(frozen=True, slots=True)
class Override:
    """One forced mode of one tool or dependency, until a monotonic instant."""

    id: str
    tool: str | None
    dependency: str | None
    mode: Mode
    until: float
    expires_at: float
    reason: str
    who: str
    at: float
    """When this process first saw it."""

    def to_wire(self, now: float) -> dict[str, Any]:
        """As one entry of a batch's `overrides`."""
        return {
            "id": self.id,
            "tool": self.tool,
            "dependency": self.dependency,
            "mode": self.mode.value,
            "reason": self.reason,
            "who": self.who,
            "age_s": age(self.at, now),
            "expires_in_s": round(self.until - now, 3),
        }


@dataclass(frozen=True, slots=True)
class Forced:
    """All overrides of a file, by what they force."""

    tools: Mapping[str, Override]
    dependencies: Mapping[str, Override]

    @classmethod
    def of(cls, overrides: Iterable[Override]) -> Forced:
        """The last entry for a name holds."""
        held = list(overrides)
        return cls(
            {one.tool: one for one in held if one.tool is not None},
            {one.dependency: one for one in held if one.dependency is not None},
        )

    def all(self) -> tuple[Override, ...]:
        """Every override that holds."""
        return (*self.tools.values(), *self.dependencies.values())

    def shifted(self, by_s: float) -> Forced:
        """The same after the process slept: each ends that much earlier on its monotonic clock."""
        return Forced.of(replace(one, until=one.until + by_s, at=one.at + by_s) for one in self.all())


class OverrideFile:
    """Watches one file: `look` reads it again when its mark (time, size, file) has changed."""

    def __init__(self, path: str | None, *, wall: Callable[[], float] = time.time) -> None:
        self.path = Path(path) if path else None
        self.problem: str | None = None
        self._wall = wall
        self._mark: object = None
        self._held: tuple[Override, ...] = ()
        self._looking = threading.Lock()

    def look(self, now: float) -> tuple[Override, ...] | None:
        """The overrides, where they have changed; None where there is nothing new. Raises nothing."""
        if self.path is None or not self._looking.acquire(blocking=False):
            return None
        try:
            mark = _mark(self.path)
            if mark == self._mark:
                return None
            self._mark = mark
            return self._read(now, missing=mark is None)
        finally:
            self._looking.release()

    def after_fork(self) -> None:
        """In a forked child: nobody else is looking."""
        self._looking = threading.Lock()

    def _read(self, now: float, *, missing: bool) -> tuple[Override, ...] | None:
        try:
            found = () if missing or self.path is None else _parsed(self.path, now, self._wall())
        except (OSError, ValueError, RecursionError) as problem:
            said = f"{problem}" if isinstance(problem, BadFile) else f"{type(problem).__name__}: {problem}"[:300]
            self.problem = f"the override file {self.path} is ignored: {said}"
            log.warning("recloser: %s", self.problem)
            return None
        self.problem = None
        known = {_content(one): one for one in self._held}
        self._held = tuple(known.get(_content(one), one) for one in found)
        for one in self._held:
            log.warning("recloser: %s %s is %s by the override file", *_named(one), one.mode.value)
        return self._held


def _mark(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _parsed(path: Path, now: float, wall: float) -> tuple[Override, ...]:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise BadFile("it is larger than 1 MiB")
    try:
        content = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as problem:
        raise BadFile(f"it is not JSON ({problem})"[:200]) from problem
    entries = content.get("overrides") if isinstance(content, dict) else None
    if not isinstance(entries, list) or len(content) != 1:
        raise BadFile('it must be an object with the one field "overrides", a list')
    if len(entries) > MAX_ENTRIES:
        raise BadFile(f"overrides must hold at most {MAX_ENTRIES} entries")
    return tuple(_entry(f"overrides[{n}]", given, now, wall) for n, given in enumerate(entries))


def _entry(field: str, given: Any, now: float, wall: float) -> Override:
    if not isinstance(given, dict):
        raise BadFile(f"{field} must be an object")
    for name in given:
        if name not in _FIELDS:
            raise BadFile(f"{field}.{clean(str(name), 64)} is not known; use {', '.join(sorted(_FIELDS))}")
    if ("tool" in given) == ("dependency" in given):
        raise BadFile(f"{field} must name a tool or a dependency, and not both")
    mode = given.get("mode")
    if mode not in (Mode.FORCED_OPEN.value, Mode.FORCED_CLOSED.value):
        raise BadFile(f"{field}.mode must be forced_open or forced_closed")
    expires_at = _instant(f"{field}.expires_at", given.get("expires_at"))
    return Override(
        id=new_id(),
        tool=_text(field, given, "tool", 200) or None,
        dependency=_text(field, given, "dependency", 200) or None,
        mode=Mode(mode),
        until=now + expires_at - wall,
        expires_at=expires_at,
        reason=_text(field, given, "reason", MAX_REASON),
        who=_text(field, given, "who", 200),
        at=now,
    )


def _text(field: str, given: Mapping[str, Any], name: str, limit: int) -> str:
    value = given.get(name, "")
    nameless = name in ("tool", "dependency") and name in given and not value
    if not isinstance(value, str) or len(value) > limit or nameless:
        raise BadFile(f"{field}.{name} must be a text of at most {limit} characters")
    return value


def _instant(field: str, given: Any) -> float:
    """POSIX seconds, from a number or from a date and time with its zone."""
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return float(given)
    try:
        told = datetime.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        told = None
    if told is None or told.tzinfo is None:
        raise BadFile(f"{field} is required: POSIX seconds, or a date and time with its zone")
    return told.timestamp()


def _content(one: Override) -> tuple[Any, ...]:
    return one.tool, one.dependency, one.mode, one.expires_at, one.reason, one.who


def _named(one: Override) -> tuple[str, str]:
    return ("tool", clean(one.tool)) if one.tool is not None else ("dependency", clean(one.dependency or ""))
