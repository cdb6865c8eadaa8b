"""Sending one probe that was offered and checked: a connection or a plain request, never an exception."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
from typing import Any
from urllib.parse import urlsplit

from recloser.prober import Offer

LONGEST_BODY = 65_536


def asked(offer: Offer) -> dict[str, Any]:
    """Ask once, within the offer's time; whatever happens is a result."""
    started = time.monotonic()
    told: dict[str, Any] = {}
    try:
        told = _converse(offer, started + offer.limit_s)
    except Exception as problem:
        told = {"fault": _fault(problem)}
    return {**told, "took_ms": round((time.monotonic() - started) * 1000.0, 1)}


def _converse(offer: Offer, ends: float) -> dict[str, Any]:
    if offer.url is None:
        socket.create_connection((offer.host, offer.port), timeout=offer.limit_s).close()
        return {}
    connection = _connection(offer)
    try:
        parts = urlsplit(offer.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(offer.method, path, headers=dict(offer.headers))
        _within(connection, ends)
        answer = connection.getresponse()
        wait = answer.headers.get("Retry-After", "")
        _read(answer, connection, ends)
        return {"status": answer.status} | ({"retry_after_s": float(wait)} if re.fullmatch(r"\d{1,9}", wait) else {})
    finally:
        connection.close()


def _connection(offer: Offer) -> http.client.HTTPConnection:
    """Straight to the host: an inside address is no proxy's to reach."""
    if offer.url is not None and offer.url.casefold().startswith("https:"):
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(offer.host, offer.port, timeout=offer.limit_s, context=context)
    return http.client.HTTPConnection(offer.host, offer.port, timeout=offer.limit_s)


def _read(answer: http.client.HTTPResponse, connection: http.client.HTTPConnection, ends: float) -> None:
    """The body, up to a limit and to the end of the time: a server that drips does not hold the thread."""
    left = LONGEST_BODY
    while left > 0 and not answer.closed:
        _within(connection, ends)
        part = answer.read1(min(left, 8192))
        if not part:
            return
        left -= len(part)


def _within(connection: http.client.HTTPConnection, ends: float) -> None:
    left = ends - time.monotonic()
    if left <= 0.0:
        raise TimeoutError
    if connection.sock is not None:
        connection.sock.settimeout(left)


def _fault(problem: Exception) -> str:
    """The kind of failure, in the core's words."""
    match problem:
        case ssl.SSLCertVerificationError():
            return "certificate"
        case TimeoutError():
            return "timeout"
        case socket.gaierror() | UnicodeError():
            return "resolve"
        case http.client.HTTPException() | ConnectionResetError() | BrokenPipeError():
            return "broken_answer"
        case OSError():
            return "connect"
    return "spec"
