"""GET /live: tells a signed-in person's pages that something changed; what changed, they ask for themselves."""

from __future__ import annotations

import asyncio
import functools
import time
from dataclasses import dataclass
from importlib import import_module
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.http.cookie import parse_cookie
from django.http.request import split_domain_port, validate_host

from controlplane.delivery.hub import BYE, HEARTBEAT, HEARTBEAT_S, Hub, Watcher, event
from controlplane.edge import streaming
from controlplane.edge.http import Headers, Problem, Receive, Scope, Send, headers_of, unavailable
from controlplane.models import Environment
from controlplane.permissions import VIEW
from controlplane.threads import Threads

BETWEEN_S = 0.25
"""So at most four signals a second."""
CHECK_S = 30.0
"""A session that has ended ends its streams within so long."""


@dataclass(frozen=True, slots=True)
class _Asked:
    cookie: str
    slug: str | None


@dataclass(frozen=True, slots=True)
class _Told:
    """What a page has heard."""

    version: int | None
    activity: int


_NOTHING = _Told(None, 0)


async def serve(hub: Hub, threads: Threads, scope: Scope, receive: Receive, send: Send) -> None:
    """One page's signals."""
    headers = headers_of(scope)
    _check_source(headers, scope)
    asked = _asked(headers, scope)
    environment_id = await threads.run(_admit, asked)
    if hub.leaving:
        raise unavailable(retry_after_s=5)
    watcher = Watcher(environment_id)
    async with hub.watching(watcher):
        await streaming.Life().run(_signal(hub, threads, watcher, asked, send), receive, send)


def _check_source(headers: Headers, scope: Scope) -> None:
    """No page of another site opens this with a person's cookie, and no other host name is answered."""
    host = headers.get(b"host", b"").decode("latin-1")
    domain, _ = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        raise Problem(400, "bad_host", "this host name is not served", "use the address of the dashboard")
    origin = headers.get(b"origin", b"").decode("latin-1")
    elsewhere = bool(origin) and urlsplit(origin).netloc != host
    if elsewhere or headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
        raise Problem(403, "wrong_origin", "another site asked", "open the dashboard itself")


def _asked(headers: Headers, scope: Scope) -> _Asked:
    cookies = parse_cookie(headers.get(b"cookie", b"").decode("latin-1"))
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    return _Asked(cookies.get(settings.SESSION_COOKIE_NAME, ""), query.get("environment", [None])[0])


def _admit(asked: _Asked) -> int | None:
    """The environment to watch, None for all; Problem for everyone who may not."""
    if not _may_view(asked.cookie):
        raise Problem(401, "signed_out", "the session has ended", "sign in again")
    if asked.slug is None:
        return None
    found = None
    if "\0" not in asked.slug:
        found = Environment.objects.filter(slug=asked.slug).values_list("id", flat=True).first()
    if found is None:
        raise Problem(404, "not_found", "there is no such environment", "leave it out, or name one that exists")
    return found


def _may_view(cookie: str) -> bool:
    if not cookie:
        return False
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(cookie)
    return get_user(request).has_perm(VIEW)


async def _signal(hub: Hub, threads: Threads, watcher: Watcher, asked: _Asked, send: Send) -> None:
    await streaming.begin(send)
    told = await _tell(hub, watcher, send, _NOTHING)
    checked, heard = time.monotonic(), time.monotonic()
    while not watcher.leaving:
        if await _changed(watcher):
            told = await _tell(hub, watcher, send, told)
            heard = time.monotonic()
            await asyncio.sleep(BETWEEN_S)
        elif time.monotonic() - heard >= HEARTBEAT_S:
            await streaming.write(send, HEARTBEAT)
            heard = time.monotonic()
        if time.monotonic() - checked >= CHECK_S:
            if not await threads.run(_may_view, asked.cookie):
                return
            checked = time.monotonic()
    await streaming.write(send, BYE)


async def _changed(watcher: Watcher) -> bool:
    try:
        async with asyncio.timeout(HEARTBEAT_S):  # no task of its own, as wait_for makes one
            await watcher.changed.wait()
    except TimeoutError:
        return False
    watcher.changed.clear()
    return not watcher.leaving


async def _tell(hub: Hub, watcher: Watcher, send: Send, told: _Told) -> _Told:
    """Signal the version where it moved, and the count of other news; what is told now.

    A page fetches what is newer than itself. News that no version tells come without one: fetch all the same.
    """
    known = _Told(hub.version(watcher.environment_id), hub.activity(watcher.environment_id))
    if known != told:
        await streaming.write(send, _event(known, moved=known.version != told.version))
    return known


@functools.lru_cache(maxsize=64)
def _event(known: _Told, *, moved: bool) -> bytes:
    """Written once for all who hear the same."""
    news = {"activity": known.activity}
    return event("changed", {"version": known.version, **news} if moved else news)
