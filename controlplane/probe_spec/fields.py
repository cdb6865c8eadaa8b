"""The fields that probes are described by: each with its reader, its words, and how a form asks for it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn
from urllib.parse import urlsplit

REQUIRED = dataclasses.MISSING

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]{0,4000}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]{0,251}[A-Za-z0-9.])?")
_RESERVED = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "expect", "upgrade"}
)
_SECRET_NAMES = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token"})


class BadSpec(ValueError):
    """One field of a probe cannot be used."""

    def __init__(self, field: str, message: str, mend: str) -> None:
        super().__init__(f"{field}: {message}; {mend}")
        self.field, self.message, self.mend = field, message, mend


@dataclass(frozen=True, slots=True)
class Words:
    """How a form asks for one field."""

    label: str
    help: str = ""
    input: str = "line"
    """line, text, number, choice, flag, list, headers, header_condition, body_condition, json."""
    choices: tuple[tuple[str, str], ...] = ()
    example: str = ""


def said(
    read: Callable[[Any, str], Any],
    default: Any = REQUIRED,
    *,
    label: str,
    help: str = "",
    input: str = "line",
    choices: tuple[tuple[str, str], ...] = (),
    example: str = "",
    plain: Callable[[Any], Any] | None = None,
) -> Any:
    """A field of a spec: `read` makes its value of what was given, `plain` the inverse."""
    metadata = {"read": read, "words": Words(label, help, input, choices, example), "plain": plain}
    if isinstance(default, dict | list):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def refuse(where: str, message: str, mend: str) -> NoReturn:
    """This field cannot be used."""
    raise BadSpec(where, message, mend)


def text(least: int = 0, longest: int = 500) -> Callable[[Any, str], str]:
    """A reader of text."""
    return lambda value, where: read_text(value, where, longest, least)


def read_text(value: Any, where: str, longest: int, least: int = 0) -> str:
    """Text of these lengths."""
    if not isinstance(value, str) or not least <= len(value) <= longest or "\x00" in value:
        refuse(where, "this text cannot be used", f"give {least} to {longest} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        refuse(where, "this text cannot be used", "leave out what is no character")
    return value


def number(low: float, high: float) -> Callable[[Any, str], Any]:
    """A reader of numbers within these bounds."""
    return lambda value, where: read_number(value, where, low, high)


def read_number(value: Any, where: str, low: float, high: float) -> Any:
    """A number within these bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        refuse(where, "this number cannot be used", f"give a number from {low:g} to {high:g}")
    return value


def whole(low: int, high: int) -> Callable[[Any, str], int]:
    """A reader of whole numbers."""

    def read(value: Any, where: str) -> int:
        if isinstance(value, float) and not value.is_integer():
            refuse(where, "this number cannot be used", f"give a whole number from {low} to {high}")
        return int(read_number(value, where, low, high))

    return read


def choice(*known: str, message: str = "no such choice") -> Callable[[Any, str], str]:
    """A reader of one word out of these."""

    def read(value: Any, where: str) -> str:
        if not isinstance(value, str) or value not in known:
            refuse(where, message, f"use one of {', '.join(known)}")
        return value

    return read


def flag(value: Any, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        refuse(where, "it is neither true nor false", "send true or false")
    return value


def host(value: Any, where: str) -> str:
    """A host name or an address, without scheme and port."""
    bare = read_text(value, where, 255, 1).strip().removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(bare) and not bare.startswith("::"):
        refuse(where, "this is no host name", "write it alone, such as db.example.com, without scheme, port or path")
    return bare


def names(longest: int = 200, most: int = 50) -> Callable[[Any, str], tuple[str, ...]]:
    """A reader of a list of texts."""

    def read(value: Any, where: str) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or len(value) > most:
            refuse(where, "this is no list of texts", f"give at most {most}")
        return tuple(read_text(each, where, longest, 1) for each in value)

    return read


def web_address(value: Any, where: str, longest: int = 2000) -> str:
    """An address that a request can be sent to, of a probe or a webhook; raise BadSpec for any other."""
    given = read_text(value, where, longest)
    try:
        parts = urlsplit(given)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or any(ord(each) <= 32 or ord(each) == 127 for each in given):
        refuse(where, "this is not a web address", "write http:// or https://, a host and a path")
    if "@" in parts.netloc:
        refuse(where, "it holds a user name or password", "leave them out: a probe has secret headers for them")
    return given


def web_target(url: str) -> tuple[str, int]:
    """Host and port of a web address."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def headers(value: Any, where: str) -> dict[str, str]:
    """Names and values that can be sent."""
    if not isinstance(value, Mapping) or len(value) > 30:
        refuse(where, "these are not headers", "give at most 30 names with their values")
    for name, content in value.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name) or name.casefold() in _RESERVED:
            refuse(where, "a header with this name cannot be sent", "use another; Host is the address's own")
        if not isinstance(content, str) or not _HEADER_VALUE.fullmatch(content):
            refuse(where, f"the value of {name} cannot be sent", "use printable ASCII on one line")
    return dict(value)


def plain_headers(value: Any, where: str) -> dict[str, str]:
    """Headers that everyone may see."""
    found = headers(value, where)
    for name in found:
        if name.casefold() in _SECRET_NAMES:
            refuse(where, f"{name} holds a secret", "give it as a secret header, which is stored encrypted")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What one kind of probe asks and expects. A kind is a subclass of this and a file in `workers.probers`."""

    KIND: ClassVar[str]
    LABEL: ClassVar[str]
    EXERCISES: ClassVar[str]
    """What a good answer proves, for the editor."""
    SECRETS: ClassVar[tuple[str, ...] | None] = ()
    """The secret values that it takes by name; None: headers of whatever name."""
    AT: ClassVar[str] = "host"
    """The field that names where it goes."""

    latency_ms: float | None = said(
        number(1, 60_000),
        None,
        label="No slower than (ms)",
        input="number",
        help="Empty: any speed is good.",
    )
    time_limit_s: float = said(number(0.1, 30), 5.0, label="Time limit (s)", input="number")

    def check(self) -> None:
        """Raise BadSpec where two fields do not go together."""

    @property
    def target(self) -> tuple[str, int]:
        """The host and port that it connects to."""
        raise NotImplementedError

    @property
    def origin(self) -> str:
        """For whom its secrets were written."""
        where, port = self.target
        return f"{self.KIND}:{where.casefold()}:{port}"

    @property
    def shown_address(self) -> str:
        """Where it goes, as may be shown to everyone."""
        where, port = self.target
        return f"[{where}]:{port}" if ":" in where else f"{where}:{port}"

    @property
    def cost_usd(self) -> float:
        """What asking once costs; 0 but for those that buy something."""
        return 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `read` takes them."""
        return to_plain(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSpec(Spec):
    """A probe of something that has a web address, `url`; its secrets are headers."""

    SECRETS: ClassVar[tuple[str, ...] | None] = None
    AT: ClassVar[str] = "url"

    url: str

    @property
    def target(self) -> tuple[str, int]:
        """The address's own."""
        return web_target(self.url)

    @property
    def origin(self) -> str:
        """With the scheme: what was written for https is not sent in the clear."""
        where, port = self.target
        return f"{self.url.split(':', 1)[0].casefold()}:{where}:{port}"

    @property
    def shown_address(self) -> str:
        """Without query and fragment."""
        return self.url.partition("?")[0].partition("#")[0]


def to_plain(described: Any) -> dict[str, Any]:
    """Plain values of something whose fields were made by `said`, as `read_as` takes them."""
    return {each.name: _plain(each, getattr(described, each.name)) for each in fields_of(type(described))}


def _plain(field: dataclasses.Field[Any], value: Any) -> Any:
    if value is not None and (plain := field.metadata["plain"]):
        return plain(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return list(value) if isinstance(value, tuple) else value


def fields_of(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    """Its own first, then those that every kind has."""
    shared = {each.name for each in dataclasses.fields(Spec)}
    return sorted(dataclasses.fields(kind), key=lambda each: (each.name in shared, each.name != "url"))


def optional(field: dataclasses.Field[Any]) -> bool:
    """Whether it may be left out."""
    return field.default is not REQUIRED or field.default_factory is not REQUIRED


def read_as(kind: type[Any], given: Mapping[str, Any], within: str = "") -> Any:
    """The probe that these values describe; raise BadSpec at the first that cannot be used."""
    known = {each.name: each for each in fields_of(kind)}
    for name in given:
        if name not in known:
            refuse(within + str(name)[:50], "no such field", f"use one of {', '.join(known)}")
    values = {name: _read(known[name], given[name], within) for name in known if name in given}
    for name, each in known.items():
        if name not in values and not optional(each):
            words: Words = each.metadata["words"]
            refuse(within + name, "it is missing", f"give it{f', such as {words.example}' if words.example else ''}")
    spec = kind(**values)
    spec.check()
    return spec


def _read(field: dataclasses.Field[Any], value: Any, within: str) -> Any:
    if value is None and field.default is None:
        return None
    return field.metadata["read"](value, within + field.name)
