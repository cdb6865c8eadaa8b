"""What an HTTP probe asks and what it expects, typed; read from stored JSON or from a form, field by field."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

METHODS = ("GET", "HEAD", "POST", "OPTIONS")
REDIRECTS = ("never", "same_host", "any")
CONTAINS, JSON_EQUALS = "contains", "json_equals"

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]{0,4000}")
_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d{1,6})\]")
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


@dataclass(frozen=True, slots=True)
class HttpSpec:
    """One HTTP request and the conditions on its answer."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    expected_status: tuple[tuple[int, int], ...] = ((200, 299),)
    body_condition: BodyCondition | None = None
    latency_ms: float | None = None
    time_limit_s: float = 5.0
    redirects: str = "never"
    max_redirects: int = 3

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `read` takes them."""
        return asdict(self) | {"expected_status": status_text(self.expected_status)}


def read(given: Mapping[str, Any]) -> HttpSpec:
    """The probe that these values describe; raise BadSpec at the first that cannot be used."""
    for name in given:
        if name not in _READERS:
            raise BadSpec(str(name)[:50], "no such field", f"use one of {', '.join(_READERS)}")
    values = {name: read_field(given[name]) for name, read_field in _READERS.items() if name in given}
    if "url" not in values:
        raise BadSpec("url", "it is missing", "give the whole address, such as https://api.example.com/health")
    spec = HttpSpec(**values)
    if spec.body and spec.method != "POST":
        raise BadSpec("body", f"a {spec.method} request carries none", "choose POST, or leave the body empty")
    return spec


def read_secret_headers(given: Mapping[str, Any]) -> dict[str, str]:
    """Header values that are stored encrypted and shown to nobody."""
    return _headers(given, "secret_headers")


def status_text(ranges: tuple[tuple[int, int], ...]) -> str:
    """`200-299, 404`: the inverse of what `read` understands."""
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def at_path(value: Any, path: str) -> Any:
    """What stands at `$.a.b[0]`; raise LookupError or TypeError where there is nothing."""
    for name, index in _STEP.findall(path):
        value = value[name] if name else value[int(index)]
    return value


def same_json(one: Any, other: Any) -> bool:
    """Equality as JSON means it: true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def web_address(value: Any, where: str, longest: int = 2000) -> str:
    """An address that a request can be sent to, of a probe or a webhook; raise BadSpec for any other."""
    text = _text(value, where, longest)
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or any(ord(each) <= 32 or ord(each) == 127 for each in text):
        raise BadSpec(where, "this is not a web address", "write http:// or https://, a host and a path")
    if "@" in parts.netloc:
        raise BadSpec(where, "it holds a user name or password", "leave them out: a probe has secret headers for them")
    return text


def _url(value: Any) -> str:
    return web_address(value, "url")


def _method(value: Any) -> str:
    if value not in METHODS:
        raise BadSpec("method", "a probe never changes anything", f"use one of {', '.join(METHODS)}")
    return str(value)


def _plain_headers(value: Any) -> dict[str, str]:
    found = _headers(value, "headers")
    for name in found:
        if name.casefold() in _SECRET_NAMES:
            raise BadSpec("headers", f"{name} holds a secret", "give it as a secret header, which is stored encrypted")
    return found


def _headers(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > 30:
        raise BadSpec(where, "these are not headers", "give at most 30 names with their values")
    for name, content in value.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name) or name.casefold() in _RESERVED:
            raise BadSpec(where, "a header with this name cannot be sent", "use another; Host is the address's own")
        if not isinstance(content, str) or not _HEADER_VALUE.fullmatch(content):
            raise BadSpec(where, f"the value of {name} cannot be sent", "use printable ASCII on one line")
    return dict(value)


def _body(value: Any) -> str:
    return _text(value, "body", 20_000)


def _expected_status(value: Any) -> tuple[tuple[int, int], ...]:
    parts = [part.strip() for part in str(value).split(",")]
    found = [re.fullmatch(r"([1-5]\d\d)(?:\s*-\s*([1-5]\d\d))?", part) for part in parts]
    ranges = [(int(each[1]), int(each[2] or each[1])) for each in found if each]
    if len(ranges) != len(parts) or len(ranges) > 20 or any(low > high for low, high in ranges):
        raise BadSpec("expected_status", "these are not HTTP statuses", "write 200, or 200-299, 404")
    return tuple(ranges)


def _body_condition(value: Any) -> BodyCondition | None:
    if value is None:
        return None
    mend = f"give kind ({CONTAINS} or {JSON_EQUALS}), value, and for JSON a path such as $.results[0].ok"
    if not isinstance(value, Mapping) or not set(value) <= {"kind", "value", "path"}:
        raise BadSpec("body_condition", "this is no condition", mend)
    kind, path = value.get("kind"), value.get("path") or ""
    if kind == CONTAINS and not path:
        return BodyCondition(CONTAINS, _text(value.get("value"), "body_condition", 500, least=1))
    if kind == JSON_EQUALS and "value" in value and isinstance(path, str) and _is_path(path):
        return BodyCondition(JSON_EQUALS, _scalar(value["value"]), path)
    raise BadSpec("body_condition", "this is no condition", mend)


def _is_path(path: str) -> bool:
    return len(path) <= 300 and path.startswith("$") and _STEP.sub("", path[1:]) == ""


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value, "body_condition", 500)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise BadSpec("body_condition", "only a single value can be compared", "use text, a number, true, false or null")


def _latency_ms(value: Any) -> float | None:
    return None if value is None else _number(value, "latency_ms", 1, 60_000)


def _time_limit_s(value: Any) -> float:
    return _number(value, "time_limit_s", 0.1, 30)


def _redirects(value: Any) -> str:
    if value not in REDIRECTS:
        raise BadSpec("redirects", "no such rule", f"use one of {', '.join(REDIRECTS)}")
    return str(value)


def _max_redirects(value: Any) -> int:
    return int(_number(value, "max_redirects", 0, 10))


def _number(value: Any, where: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadSpec(where, "this number cannot be used", f"give a number from {low:g} to {high:g}")
    return value


def _text(value: Any, where: str, longest: int, least: int = 0) -> str:
    if not isinstance(value, str) or not least <= len(value) <= longest or "\x00" in value:
        raise BadSpec(where, "this text cannot be used", f"give {least} to {longest} characters")
    return value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "url": _url,
    "method": _method,
    "headers": _plain_headers,
    "body": _body,
    "expected_status": _expected_status,
    "body_condition": _body_condition,
    "latency_ms": _latency_ms,
    "time_limit_s": _time_limit_s,
    "redirects": _redirects,
    "max_redirects": _max_redirects,
}
