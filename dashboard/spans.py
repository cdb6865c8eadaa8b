"""Which stretch of time a list is about, as its address says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

WITHIN: Mapping[str, tuple[str, timedelta]] = {
    "15m": ("15 minutes", timedelta(minutes=15)),
    "1h": ("1 hour", timedelta(hours=1)),
    "24h": ("24 hours", timedelta(hours=24)),
    "7d": ("7 days", timedelta(days=7)),
}


@dataclass(frozen=True, slots=True)
class Span:
    """From one moment to another, either of them open; and the words of the address that it came from."""

    since: datetime | None
    until: datetime | None
    words: Mapping[str, str]


def read(given: Mapping[str, str], now: datetime) -> Span:
    """`within=1h`, or `from` and `to` in UTC; what cannot be read is left open."""
    within, start, end = given.get("within", ""), _instant(given.get("from", "")), _instant(given.get("to", ""))
    words = {"from": given.get("from", "") if start else "", "to": given.get("to", "") if end else ""}
    if within in WITHIN and start is None:
        start, words["within"] = now - WITHIN[within][1], within
    return Span(start, end, words)


def choices() -> list[tuple[str, str]]:
    """For a form."""
    return [(key, label) for key, (label, _) in WITHIN.items()]


def _instant(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
