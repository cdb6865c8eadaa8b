"""Reading vendors' status pages: side by side on one event loop, through the guard, none longer than its limit."""

from __future__ import annotations

import asyncio
import ssl
from concurrent.futures import as_completed
from dataclasses import asdict

import httpcore
import httpx
import structlog
from celery import shared_task
from recloser import __version__

from controlplane import background, clock, egress
from controlplane.selectors.networks import allowed_networks
from controlplane.services import vendor_status
from controlplane.services.vendor_status import Page, Read
from workers import database, status_pages
from workers.egress import client
from workers.way_out import way_out

TIME_LIMIT_S = 10.0
BODY_CAP = 1024 * 1024
MOST_REDIRECTS = 3
USER_AGENT = f"Recloser-Status/{__version__}"

log = structlog.get_logger(__name__)


@shared_task(ignore_result=True)
def run_statuses(ids: list[int]) -> None:
    """Read these once each; a page that is read twice is written twice, which changes nothing."""
    pages = vendor_status.pages(ids)
    networks = allowed_networks() if pages else ()
    waiting = {background.submit(_read(page, networks)): page for page in pages}
    database.release()
    for answer in as_completed(waiting):
        page, read = waiting[answer], answer.result()
        vendor_status.record(page=page, read=read, now=clock.now())
        log.info("read a status page", page=page.id, problem=read.problem or None)
        database.release()


async def _read(page: Page, networks: tuple[egress.Network, ...]) -> Read:
    """What the page says, or in our words why it says nothing."""
    try:
        async with asyncio.timeout(TIME_LIMIT_S):
            return await _asked(page, networks)
    except (egress.Blocked, egress.Unresolvable, egress.ProxyRefused, status_pages.Unreadable) as refused:
        return Read(problem=str(refused))
    except (TimeoutError, httpx.TimeoutException, httpcore.TimeoutException):
        return Read(problem=f"it did not answer within {TIME_LIMIT_S:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError, OSError):
        return Read(problem="it could not be reached, or broke off")
    except Exception as error:
        log.exception("a status page was not read", page=page.id)
        return Read(problem=f"our own fault ({type(error).__name__}): the log of the Celery worker says more")


async def _asked(page: Page, networks: tuple[egress.Network, ...]) -> Read:
    async with client(way_out(networks), time_limit_s=TIME_LIMIT_S, user_agent=USER_AGENT) as http:
        http.max_redirects = MOST_REDIRECTS
        request = http.build_request("GET", page.address, headers=_conditions(page))
        response = await http.send(request, stream=True, follow_redirects=True)
        try:
            if response.status_code == httpx.codes.NOT_MODIFIED:
                return Read()
            if response.status_code != httpx.codes.OK:
                return Read(problem=f"it answered {response.status_code}")
            said = status_pages.read(await _body(response), component=page.component)
        finally:
            await response.aclose()
    return Read(told=asdict(said) | _validators(response))


def _conditions(page: Page) -> dict[str, str]:
    """What spares the vendor an answer that we have already."""
    named = {"If-None-Match": page.etag, "If-Modified-Since": page.last_modified}
    return {name: value for name, value in named.items() if value}


def _validators(response: httpx.Response) -> dict[str, str]:
    """Of the answer's head; one that is too long to be stored is none."""
    etag, modified = response.headers.get("etag", ""), response.headers.get("last-modified", "")
    return {
        "etag": etag if len(etag) <= 300 and etag.isascii() and etag.isprintable() else "",
        "last_modified": modified if len(modified) <= 100 and modified.isascii() and modified.isprintable() else "",
    }


async def _body(response: httpx.Response) -> bytes:
    if response.headers.get("content-encoding", "identity").casefold() not in ("", "identity"):
        raise status_pages.Unreadable("it is packed, although none was asked for")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > BODY_CAP:
            raise status_pages.Unreadable("it is over 1 MiB")
    return bytes(body)
