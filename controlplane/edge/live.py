"""GET /live: tells a signed-in person's pages that something changed; what changed, they ask for themselves."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.http.cookie import parse_cookie
from django.http.request import split_domain_port, validate_host

from controlplane.delivery.hub import BYE, Hub, Stream
from controlplane.edge import streaming
from controlplane.edge.http import Headers, Problem, Receive, Scope, Send, headers_of, unavailable
from controlplane.edge.sign_ins import SignIns, Viewer, viewer
from controlplane.models import Environment
from controlplane.threads import Threads


@dataclass(frozen=True, slots=True)
class _Asked:
    cookie: str
    slug: str | None


async def serve(hub: Hub, sign_ins: SignIns, threads: Threads, scope: Scope, receive: Receive, send: Send) -> None:
    """One page's signals."""
    headers = headers_of(scope)
    _check_source(headers, scope)
    asked = _asked(headers, scope)
    viewing, environment_id = await threads.run(_admit, asked)
    if hub.leaving:
        raise unavailable(retry_after_s=5)
    life = streaming.Life()
    page = Stream(life.end)
    with sign_ins.ending(viewing, life.end):
        async with hub.watching(environment_id, page) as first:
            await life.run(_signal(page, first, send), receive, send)


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


def _admit(asked: _Asked) -> tuple[Viewer, int | None]:
    """Who asks, and the environment to watch, None for all; Problem for everyone who may not."""
    viewing = viewer(asked.cookie)
    if viewing is None:
        raise Problem(401, "signed_out", "the session has ended", "sign in again")
    if asked.slug is None:
        return viewing, None
    found = None
    if "\0" not in asked.slug:
        found = Environment.objects.filter(slug=asked.slug).values_list("id", flat=True).first()
    if found is None:
        raise Problem(404, "not_found", "there is no such environment", "leave it out, or name one that exists")
    return viewing, found


async def _signal(page: Stream, first: bytes, send: Send) -> None:
    await streaming.begin(send)
    told = first
    while True:
        await streaming.write(send, told)
        if told is BYE:
            return
        told = await page.next()
