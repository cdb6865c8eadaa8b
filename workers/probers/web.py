"""What the kinds that speak HTTP share: a guarded request, and its answer read as far as the cap."""

import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
from recloser import __version__

from controlplane.masking import MASK, masked
from workers import egress
from workers.egress import BODY_CAP, GuardedBackend
from workers.probers.answer import Findings

USER_AGENT = f"Recloser-Probe/{__version__}"
CHARSETS = frozenset({"utf-8", "us-ascii", "iso-8859-1", "latin-1", "windows-1252", "utf-16", "shift_jis", "gb18030"})


def client(backend: GuardedBackend, time_limit_s: float, *, kept: int = 0) -> httpx.AsyncClient:
    """The guarded client under our own name."""
    return egress.client(backend, time_limit_s=time_limit_s, user_agent=USER_AGENT, kept=kept)


@asynccontextmanager
async def exchange(http: httpx.AsyncClient, request: httpx.Request, found: Findings) -> AsyncIterator[httpx.Response]:
    """The answer's head; its body is the caller's to read."""
    response = await http.send(request, stream=True)
    try:
        note(response, found)
        yield response
    finally:
        await response.aclose()


def note(response: httpx.Response, found: Findings) -> None:
    """Keep what may be kept of an answer's head."""
    found.status = found.seen.status = response.status_code
    found.first_status = found.first_status or response.status_code
    found.address = shown(str(response.url), found.hidden)
    found.retry_after_s = retry_after_s(response.headers)
    found.seen.headers = {name.casefold(): value for name, value in response.headers.items()}
    stream = response.extensions.get("network_stream")
    note_certificate(stream.get_extra_info("ssl_object") if stream else None, found)


def note_certificate(tls: ssl.SSLObject | None, found: Findings) -> None:
    """When the certificate on this connection expires."""
    ends: Any = (tls.getpeercert() or {}).get("notAfter") if tls is not None else None
    if ends:
        found.certificate_until = float(ssl.cert_time_to_seconds(ends))


async def read_body(response: httpx.Response, found: Findings) -> str:
    """The text, as far as the cap; a compressed one is unpacked no further than that either."""
    packed = bytearray()
    async for chunk in response.aiter_raw():
        packed += chunk
        if len(packed) >= BODY_CAP:
            break
    plain = unpacked(bytes(packed[:BODY_CAP]), response.headers.get("content-encoding", "identity"))
    found.seen.body = plain.decode(_charset(response.charset_encoding), errors="replace")
    found.seen.cut = len(plain) >= BODY_CAP or len(packed) >= BODY_CAP
    return found.seen.body


def unpacked(data: bytes, encoding: str) -> bytes:
    """We ask for no encoding; a server that packs all the same is understood where the standard library does."""
    if encoding.casefold() in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(data, BODY_CAP)
    if encoding.casefold() in ("", "identity"):
        return data
    raise httpx.DecodingError(f"the answer is packed as {encoding[:20]}, although none was asked for")


def _charset(named: str | None) -> str:
    """Only the plain ones: some of Python's codecs take a hostile text's square of time."""
    return named if named and named.casefold() in CHARSETS else "utf-8"


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


def shown_headers(headers: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """Headers that may be stored; of a secret one no more than its name."""
    return {name: masked(value, secrets) for name, value in headers.items()} | dict.fromkeys(secrets, MASK)


def origin(url: httpx.URL) -> tuple[str, str, int]:
    """Scheme, host and port."""
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}[url.scheme]
