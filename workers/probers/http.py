"""The HTTP prober: one guarded request, its redirects by rule, and the conditions on the answer."""

import asyncio
import ssl
import time
import zlib
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit, urlunsplit

import httpx
from recloser import __version__
from recloser.core.probe import Fault

from controlplane import egress
from controlplane.probe_spec import CONTAINS, BodyCondition, HttpSpec, status_text
from controlplane.secrets import MASK, masked
from workers.egress import BODY_CAP, GuardedBackend, client
from workers.probers.answer import Findings

USER_AGENT = f"Recloser-Probe/{__version__}"
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
CHARSETS = frozenset({"utf-8", "us-ascii", "iso-8859-1", "latin-1", "windows-1252", "utf-16", "shift_jis", "gb18030"})
LONGEST_DETAIL = 200


class _RedirectRefused(Exception):
    """The rule of this probe does not let it go there."""


async def ask(spec: HttpSpec, secrets: Mapping[str, str], backend: GuardedBackend, *, time_limit_s: float) -> Findings:
    """Ask once, in at most `time_limit_s`; whatever happens is a finding, never an exception."""
    found = Findings(asked=_asked(spec, secrets), address=shown(spec.url, secrets))
    started = time.monotonic()
    try:
        async with asyncio.timeout(time_limit_s):
            await _converse(spec, secrets, backend, found, time_limit_s)
    except Exception as error:
        found.fault, detail = _fault(error, time_limit_s)
        found.detail = masked(detail, secrets)[:LONGEST_DETAIL]
    found.took_ms = round((time.monotonic() - started) * 1000, 1)
    found.connected_at = backend.first_connected_at
    if found.fault is None and spec.latency_ms is not None:
        held = found.took_ms <= spec.latency_ms
        found.condition("latency", expected=f"at most {spec.latency_ms:g} ms", seen=f"{found.took_ms:g} ms", held=held)
    return found


async def _converse(
    spec: HttpSpec, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
) -> None:
    """Follow the request through its redirects and hold the last answer against the conditions."""
    async with client(backend, time_limit_s=time_limit_s, user_agent=USER_AGENT) as http:
        request = http.build_request(
            spec.method, spec.url, headers={**spec.headers, **secrets}, content=spec.body or None
        )
        for hop in range(spec.max_redirects + 1):
            response = await http.send(request, stream=True)
            try:
                _note(response, found, secrets)
                onward = _onward(spec, response, hop)
                if onward is None:
                    await _judge(spec, response, found, secrets)
                    return
            finally:
                await response.aclose()
            request = _redirected(http, spec, secrets, response, onward)


def _note(response: httpx.Response, found: Findings, secrets: Mapping[str, str]) -> None:
    found.status = response.status_code
    found.first_status = found.first_status or response.status_code
    found.address = shown(str(response.url), secrets)
    found.retry_after_s = retry_after_s(response.headers)


def _onward(spec: HttpSpec, response: httpx.Response, hop: int) -> httpx.URL | None:
    """Where this answer leads by the probe's rule; None: it is the last."""
    if response.status_code not in REDIRECT_STATUSES or spec.redirects == "never":
        return None
    if "location" not in response.headers:
        return None
    target = response.url.join(response.headers["location"])
    if target.scheme not in ("http", "https") or target.userinfo:
        raise _RedirectRefused("it leads to an address that is no plain web address")
    if spec.redirects == "same_host" and target.host != response.url.host:
        raise _RedirectRefused("it leads to another host")
    if hop == spec.max_redirects:
        raise _RedirectRefused(f"more than {spec.max_redirects} redirects")
    return target


def _redirected(
    http: httpx.AsyncClient, spec: HttpSpec, secrets: Mapping[str, str], response: httpx.Response, onward: httpx.URL
) -> httpx.Request:
    """The next request. Headers and body are for the host they were written for; no other ever sees them."""
    keeps_method = response.status_code in (307, 308) or spec.method in ("GET", "HEAD")
    method = spec.method if keeps_method else "GET"
    if _origin(onward) != _origin(httpx.URL(spec.url)):
        if method not in ("GET", "HEAD"):
            raise _RedirectRefused("it would carry the request's body to another host")
        return http.build_request(method, onward)
    body = spec.body if method == "POST" else ""
    return http.build_request(method, onward, headers={**spec.headers, **secrets}, content=body or None)


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}[url.scheme]


async def _judge(spec: HttpSpec, response: httpx.Response, found: Findings, secrets: Mapping[str, str]) -> None:
    """Hold the answer against status and body; the body is read to its end or its cap in any case."""
    body = await _body(response)
    held = any(low <= response.status_code <= high for low, high in spec.expected_status)
    found.condition("status", expected=status_text(spec.expected_status), seen=response.status_code, held=held)
    if spec.body_condition is not None:
        holds = spec.body_condition.holds(body)
        seen = f"{len(body)} characters read" + (", cut there" if len(body) >= BODY_CAP else "")
        found.condition("body", expected=masked(_wanted(spec.body_condition), secrets), seen=seen, held=holds)


def _wanted(condition: BodyCondition) -> str:
    if condition.kind == CONTAINS:
        return f"contains {condition.value!r}"
    return f"{condition.path} is {condition.value!r}"


async def _body(response: httpx.Response) -> str:
    """The text, as far as the cap; a compressed one is unpacked no further than that either."""
    packed = bytearray()
    async for chunk in response.aiter_raw():
        packed += chunk
        if len(packed) >= BODY_CAP:
            break
    plain = _unpacked(bytes(packed[:BODY_CAP]), response.headers.get("content-encoding", "identity"))
    return plain.decode(_charset(response.charset_encoding), errors="replace")


def _charset(named: str | None) -> str:
    """Only the plain ones: some of Python's codecs take a hostile text's square of time."""
    return named if named and named.casefold() in CHARSETS else "utf-8"


def _unpacked(data: bytes, encoding: str) -> bytes:
    """We ask for no encoding; a server that packs all the same is understood where the standard library does."""
    if encoding.casefold() in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(data, BODY_CAP)
    if encoding.casefold() in ("", "identity"):
        return data
    raise httpx.DecodingError(f"the answer is packed as {encoding[:20]}, although none was asked for")


def _fault(error: BaseException, time_limit_s: float) -> tuple[Fault, str]:
    """The kind of failure, and our own words for it where there are some."""
    for each in _chain(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return Fault.CERTIFICATE, each.verify_message
        if isinstance(each, egress.Blocked):
            return Fault.REFUSED_ADDRESS, f"{each}: {egress.MENDING}"
        if isinstance(each, egress.Unresolvable):
            return Fault.RESOLVE, str(each)
        if isinstance(each, _RedirectRefused):
            return Fault.REFUSED_REDIRECT, f"the redirect was not followed: {each}"
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return Fault.TIMEOUT, f"no full answer within {time_limit_s:g} s"
    if isinstance(error, httpx.ConnectError):
        return Fault.CONNECT, "no connection"
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return Fault.SPEC, "the request cannot be sent as written"
    return Fault.BROKEN, f"the answer broke off or was malformed ({type(error).__name__})"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def retry_after_s(headers: httpx.Headers) -> float | None:
    """The wait that the server asks for: seconds, or a date beside the server's own."""
    given = headers.get("retry-after", "").strip()
    if given.isdigit():
        return float(min(int(given[:9]), 86_400))
    try:
        until, sent = parsedate_to_datetime(given), parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (until - sent).total_seconds())
    except (ValueError, TypeError):
        return None


def shown(url: str, secrets: Mapping[str, str]) -> str:
    """An address that may be stored: without query, fragment and secrets."""
    parts = urlsplit(url)
    return masked(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")), secrets)[:500]


def _asked(spec: HttpSpec, secrets: Mapping[str, str]) -> dict[str, object]:
    headers = {name: masked(value, secrets) for name, value in spec.headers.items()} | dict.fromkeys(secrets, MASK)
    return {
        "method": spec.method,
        "address": shown(spec.url, secrets),
        "headers": headers,
        "body_bytes": len(spec.body.encode()),
    }
