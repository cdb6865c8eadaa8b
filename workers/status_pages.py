"""What a vendor's status page says: Statuspage JSON, or the newest entry of an RSS or Atom feed; all hostile."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any
from urllib.parse import urlsplit
from xml.parsers import expat

LONGEST_SAID, LONGEST_LINK, LONGEST_TEXT = 300, 500, 4_000
DEEPEST, MOST_ENTRIES = 40, 500

LEVELS = {
    **{"none": "operational", "operational": "operational"},
    **{"minor": "degraded", "degraded_performance": "degraded", "partial_outage": "degraded"},
    **{"major": "outage", "critical": "outage", "major_outage": "outage"},
    **{"maintenance": "maintenance", "under_maintenance": "maintenance"},
}
UNRATED = "unrated"
ENTRIES, TITLES, TIMES = ("item", "entry"), ("title",), ("pubdate", "updated", "published", "date")


class Unreadable(Exception):
    """It is no status page that we understand; the words are ours, none of the page's."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the vendor says, cut to lengths that can be stored."""

    level: str
    said: str
    said_at: datetime | None
    link: str


def read(body: bytes, *, component: str = "") -> Said:
    """One answer, whichever of the three forms it has."""
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"{":
        return _of_json(body, component)
    if start == b"<":
        return _of_feed(body, component)
    raise Unreadable("it is neither Statuspage JSON nor a feed")


def _of_json(body: bytes, component: str) -> Said:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise Unreadable("it is no valid JSON") from None
    page, status = _object(told.get("page")), _object(told.get("status"))
    incident = next(iter(_objects(told.get("incidents"))), {})
    link = _link(incident.get("shortlink")) or _link(page.get("url"))
    if component:
        one = _component(told, component)
        text = f"{one.get('name')}: {_words(one.get('status'))}"
        return _said(one.get("status"), text, incident, one.get("updated_at"), link)
    if not status:
        raise Unreadable("it has no `status`: use the address that ends in /api/v2/summary.json")
    return _said(status.get("indicator"), str(status.get("description", "")), incident, page.get("updated_at"), link)


def _said(level: Any, text: str, incident: dict[str, Any], at: Any, link: str) -> Said:
    named = f"{text} ({incident['name']})" if isinstance(incident.get("name"), str) else text
    return Said(LEVELS.get(str(level), UNRATED), _plain(named)[:LONGEST_SAID], _instant(at), link)


def _component(told: dict[str, Any], name: str) -> dict[str, Any]:
    wanted = name.strip().casefold()
    for each in _objects(told.get("components")):
        if str(each.get("name", "")).strip().casefold() == wanted:
            return each
    raise Unreadable("it names no such component")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


class _Feed:
    """Collects entries while expat reads; a document type, and with it every entity, is refused."""

    def __init__(self) -> None:
        self.entries: list[dict[str, str]] = []
        self._path: list[str] = []
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text

    def read(self, body: bytes) -> list[dict[str, str]]:
        try:
            self._parser.Parse(body, True)
        except (expat.ExpatError, ValueError):
            raise Unreadable("it is no valid XML") from None
        if self._root not in ("rss", "feed", "rdf"):
            raise Unreadable("it is XML, but no RSS or Atom feed")
        return self.entries

    _root = ""

    def _refuse(self, *_: object) -> None:
        raise Unreadable("it declares a document type, which no feed needs")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2].casefold()
        self._root = self._root or local
        self._path.append(local)
        if len(self._path) > DEEPEST or len(self.entries) > MOST_ENTRIES:
            raise Unreadable("it is nested too deep, or too long")
        if local in ENTRIES:
            self.entries.append({})
        elif local == "link" and self._entry is not None and "href" in attributes:
            self._entry.setdefault("link", attributes["href"])

    def _end(self, name: str) -> None:
        self._path.pop()

    def _text(self, text: str) -> None:
        if self._entry is not None:
            field = self._path[-1]
            self._entry[field] = (self._entry.get(field, "") + text)[:LONGEST_TEXT]

    @property
    def _entry(self) -> dict[str, str] | None:
        inside = len(self._path) > 1 and self._path[-2] in ENTRIES
        return self.entries[-1] if inside else None


def _of_feed(body: bytes, component: str) -> Said:
    wanted = component.strip().casefold()
    entries = [each for each in _Feed().read(body) if wanted in f"{' '.join(each.values())}".casefold()]
    if not entries:
        return Said(UNRATED, "the feed reports nothing", None, "")
    newest = max(entries, key=lambda each: _at(each) or datetime.min.replace(tzinfo=UTC))
    said = _plain(newest.get("title", "")) or "an entry without a title"
    return Said(UNRATED, said[:LONGEST_SAID], _at(newest), _link(newest.get("link")))


def _at(entry: dict[str, str]) -> datetime | None:
    return next((at for name in TIMES if (at := _instant(entry.get(name)))), None)


def _instant(value: Any) -> datetime | None:
    """ISO or e-mail form; None for anything else."""
    text = str(value or "").strip()[:64]
    for form in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            at = form(text)
            return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def _plain(text: str) -> str:
    """One line without mark-up or control characters."""
    bare = re.sub(r"<[^<>]*>", " ", unescape(text[:LONGEST_TEXT]))
    return " ".join("".join(each if each.isprintable() else " " for each in bare).split())


def _words(value: Any) -> str:
    return str(value).replace("_", " ")


def _link(value: Any) -> str:
    """A web address that a page may link to; empty for every other scheme."""
    text = str(value or "").strip()
    try:
        good = urlsplit(text).scheme in ("http", "https") and text.isprintable() and " " not in text
    except ValueError:
        return ""
    return text if good and len(text) <= LONGEST_LINK else ""
