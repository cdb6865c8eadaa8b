"""The typed conditions that kinds of probes share, and the one place where an answer is held against them.

What follows from a condition that failed is the core's to say (`recloser.core.probe`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controlplane.probe_spec.fields import headers, names, number, read_text, refuse, said

CONTAINS, JSON_EQUALS = "contains", "json_equals"

Ranges = tuple[tuple[int, int], ...]

_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d{1,6})\]")


@dataclass(slots=True)
class Seen:
    """What an answer showed; None where this kind of answer has none of it."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """By their names in lower case."""
    body: str | None = None
    cut: bool = False
    listed: frozenset[str] | None = None
    certificate_days: float | None = None
    took_ms: float = 0.0


class Met(NamedTuple):
    """One condition: what it wanted, what it saw, whether it holds. Never a word of the other side's."""

    name: str
    expected: str
    seen: Any
    held: bool


@dataclass(frozen=True, slots=True)
class HeaderCondition:
    """A header of the answer that must be there, and hold this text."""

    name: str
    contains: str = ""


@dataclass(frozen=True, slots=True)
class BodyCondition:
    """What the answer's body must show: some text, or a value at a JSON path such as `$.results[0].ok`."""

    kind: str
    value: Any
    path: str = ""

    def holds(self, body: str) -> bool:
        """Whether it does."""
        if self.kind == CONTAINS:
            return self.value in body
        try:
            return same_json(at_path(json.loads(body), self.path), self.value)
        except (ValueError, LookupError, TypeError, RecursionError):
            return False


def judged(spec: Any, seen: Seen) -> Iterator[Met]:
    """Each condition that this spec has, held against the answer."""
    for name, judge in _JUDGES.items():
        wanted = getattr(spec, name, None)
        if wanted is not None and wanted != ():
            yield judge(wanted, seen)


def _status(wanted: Ranges, seen: Seen) -> Met:
    held = seen.status is not None and any(low <= seen.status <= high for low, high in wanted)
    return Met("status", status_text(wanted), seen.status, held)


def _header(wanted: HeaderCondition, seen: Seen) -> Met:
    value = seen.headers.get(wanted.name.casefold())
    held = value is not None and wanted.contains in value
    expected = f"{wanted.name} holds {wanted.contains!r}" if wanted.contains else f"{wanted.name} is there"
    return Met("header", expected, "it is there" if held else "no such header" if value is None else "another", held)


def _listed(wanted: tuple[str, ...], seen: Seen) -> Met:
    listed = seen.listed or frozenset()
    missing = [each for each in wanted if each not in listed]
    told = f"{len(listed)} listed" + (f", missing {', '.join(missing)[:100]}" if missing else "")
    return Met("listed", ", ".join(wanted)[:200], told, not missing)


def _body(wanted: BodyCondition, seen: Seen) -> Met:
    body = seen.body or ""
    told = f"{len(body)} characters read" + (", cut there" if seen.cut else "")
    expected = f"contains {wanted.value!r}" if wanted.kind == CONTAINS else f"{wanted.path} is {wanted.value!r}"
    return Met("body", expected, told, seen.body is not None and wanted.holds(body))


def _certificate(wanted: float, seen: Seen) -> Met:
    days = seen.certificate_days
    told = "no certificate" if days is None else f"{days:.0f} days left"
    return Met("certificate", f"at least {wanted:g} days left", told, days is not None and days >= wanted)


def _latency(wanted: float, seen: Seen) -> Met:
    return Met("latency", f"at most {wanted:g} ms", f"{seen.took_ms:g} ms", seen.took_ms <= wanted)


_JUDGES: Mapping[str, Callable[[Any, Seen], Met]] = {
    "expected_status": _status,
    "header_condition": _header,
    "expected": _listed,
    "body_condition": _body,
    "certificate_days": _certificate,
    "latency_ms": _latency,
}
"""By the field of a spec that holds it; what fails first gives the verdict its cause."""


def status_field() -> Any:
    """Statuses that are as they should be."""
    return said(
        _read_status,
        ((200, 299),),
        label="Expected status",
        help="200, or 200-299, 404",
        plain=status_text,
    )


def header_field() -> Any:
    """A header that must be there."""
    return said(
        _read_header,
        None,
        label="A header must hold",
        input="header_condition",
        help="Name: text, such as Content-Type: application/json. The text may be a part of the value.",
    )


def body_field(label: str = "The body must hold") -> Any:
    """What a body must show."""
    return said(_read_body, None, label=label, input="body_condition")


def certificate_field() -> Any:
    """Days that a certificate must still be good for."""
    return said(
        number(0, 3650),
        None,
        label="Certificate good for (days)",
        input="number",
        help="Empty: any that is valid now. One that is not valid fails in any case.",
    )


def listed_field(label: str, help: str, example: str = "") -> Any:
    """What must be among the things that an answer lists."""
    return said(names(), (), label=label, help=help, input="list", example=example)


def status_text(ranges: Ranges) -> str:
    """`200-299, 404`: the inverse of what is read."""
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def at_path(value: Any, path: str) -> Any:
    """What stands at `$.a.b[0]`; raise LookupError or TypeError where there is nothing."""
    for name, index in _STEP.findall(path):
        value = value[name] if name else value[int(index)]
    return value


def same_json(one: Any, other: Any) -> bool:
    """Equality as JSON means it: true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def is_path(path: Any) -> bool:
    """Whether this is a JSON path as we know them."""
    return isinstance(path, str) and len(path) <= 300 and path.startswith("$") and _STEP.sub("", path[1:]) == ""


def _read_status(value: Any, where: str) -> Ranges:
    parts = [part.strip() for part in str(value).split(",")]
    found = [re.fullmatch(r"([1-5]\d\d)(?:\s*-\s*([1-5]\d\d))?", part) for part in parts]
    ranges = [(int(each[1]), int(each[2] or each[1])) for each in found if each]
    if len(ranges) != len(parts) or len(ranges) > 20 or any(low > high for low, high in ranges):
        refuse(where, "these are not HTTP statuses", "write 200, or 200-299, 404")
    return tuple(ranges)


def _read_header(value: Any, where: str) -> HeaderCondition | None:
    if not isinstance(value, Mapping) or not set(value) <= {"name", "contains"} or "name" not in value:
        refuse(where, "this is no condition", "give name, and contains for a part of the value")
    [(name, contains)] = headers({value["name"]: value.get("contains") or ""}, where).items()
    return HeaderCondition(name, contains)


def _read_body(value: Any, where: str) -> BodyCondition | None:
    mend = f"give kind ({CONTAINS} or {JSON_EQUALS}), value, and for JSON a path such as $.results[0].ok"
    if not isinstance(value, Mapping) or not set(value) <= {"kind", "value", "path"}:
        refuse(where, "this is no condition", mend)
    kind, path = value.get("kind"), value.get("path") or ""
    if kind == CONTAINS and not path:
        return BodyCondition(CONTAINS, read_text(value.get("value"), where, 500, least=1))
    if kind == JSON_EQUALS and "value" in value and is_path(path):
        return BodyCondition(JSON_EQUALS, _scalar(value["value"], where), path)
    refuse(where, "this is no condition", mend)


def _scalar(value: Any, where: str) -> Any:
    if isinstance(value, str):
        return read_text(value, where, 500)
    if value is None or isinstance(value, bool | int | float):
        return value
    refuse(where, "only a single value can be compared", "use text, a number, true, false or null")
