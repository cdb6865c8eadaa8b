"""The HTTP prober: one guarded request, its redirects by rule, and the conditions on the answer."""

from collections.abc import Mapping
from typing import Any

import httpx
from recloser.core.probe import Fault

from controlplane.probe_spec.http import HttpSpec
from workers.egress import GuardedBackend
from workers.probers import web
from workers.probers.answer import Fell, Findings

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})


def asked(spec: HttpSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """Method, address, headers and the weight of the body."""
    return {
        "method": spec.method,
        "address": web.shown(spec.url, secrets),
        "headers": web.shown_headers(spec.headers, secrets),
        "body_bytes": len(spec.body.encode()),
    }


async def converse(
    spec: HttpSpec, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
) -> None:
    """Follow the request through its redirects; the last answer is the one that counts."""
    async with web.client(backend, time_limit_s) as http:
        request = http.build_request(
            spec.method, spec.url, headers={**spec.headers, **secrets}, content=spec.body or None
        )
        for hop in range(spec.max_redirects + 1):
            async with web.exchange(http, request, found) as response:
                onward = _onward(spec, response, hop)
                if onward is None:
                    await web.read_body(response, found)
                    return
            request = _redirected(http, spec, secrets, response, onward)


def _onward(spec: HttpSpec, response: httpx.Response, hop: int) -> httpx.URL | None:
    """Where this answer leads by the probe's rule; None: it is the last."""
    if response.status_code not in REDIRECT_STATUSES or spec.redirects == "never":
        return None
    if "location" not in response.headers:
        return None
    target = response.url.join(response.headers["location"])
    if target.scheme not in ("http", "https") or target.userinfo:
        raise _refused("it leads to an address that is no plain web address")
    if spec.redirects == "same_host" and target.host != response.url.host:
        raise _refused("it leads to another host")
    if hop == spec.max_redirects:
        raise _refused(f"more than {spec.max_redirects} redirects")
    return target


def _redirected(
    http: httpx.AsyncClient, spec: HttpSpec, secrets: Mapping[str, str], response: httpx.Response, onward: httpx.URL
) -> httpx.Request:
    """The next request. Headers and body are for the host they were written for; no other ever sees them."""
    keeps_method = response.status_code in (307, 308) or spec.method in ("GET", "HEAD")
    method = spec.method if keeps_method else "GET"
    if web.origin(onward) != web.origin(httpx.URL(spec.url)):
        if method not in ("GET", "HEAD"):
            raise _refused("it would carry the request's body to another host")
        return http.build_request(method, onward)
    body = spec.body if method == "POST" else ""
    return http.build_request(method, onward, headers={**spec.headers, **secrets}, content=body or None)


def _refused(why: str) -> Fell:
    return Fell(Fault.REFUSED_REDIRECT, f"the redirect was not followed: {why}")
