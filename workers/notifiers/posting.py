"""One guarded POST of JSON, as every notifier over HTTP sends it, and what its answer means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from typing import Any

import httpx
from recloser import __version__

from controlplane import egress
from controlplane.masking import masked
from controlplane.services.alerts import Result
from workers.egress import GuardedBackend, client
from workers.probers.web import retry_after_s

USER_AGENT = f"Recloser-Webhook/{__version__}"
TIME_LIMIT_S = 10.0


async def post(
    url: str,
    body: bytes,
    backend: GuardedBackend,
    *,
    time_limit_s: float | None = None,
    headers: Mapping[str, str] | None = None,
    secret: str = "",
    final: Collection[int] = (),
) -> Result:
    """Post once; redirects are not followed, and of the answer only its status is looked at.

    A status in `final` is not tried again. `secret` is kept out of the words of every error.
    """
    limit = TIME_LIMIT_S if time_limit_s is None else time_limit_s
    try:
        async with (
            asyncio.timeout(limit),
            client(backend, time_limit_s=limit, user_agent=USER_AGENT) as http,
            http.stream(
                "POST", url, content=body, headers={"Content-Type": "application/json", **(headers or {})}
            ) as response,
        ):
            return _result(response, final)
    except Exception as error:
        return Result(masked(_words(error, limit), {"secret": secret}))


def packed(body: Mapping[str, Any]) -> bytes:
    """The bytes of a body, the same each time."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _result(response: httpx.Response, final: Collection[int]) -> Result:
    if response.is_success:
        return Result()
    code = response.status_code
    return Result(f"the receiver answered {code}", retry_after_s(response.headers), final=code in final)


def _words(error: BaseException, time_limit_s: float) -> str:
    match error:
        case egress.Blocked():
            return f"{error}: {egress.MENDING}"
        case egress.Unresolvable():
            return str(error)
        case TimeoutError() | httpx.TimeoutException():
            return f"the receiver did not answer within {time_limit_s:g} s"
        case httpx.ConnectError():
            return "no connection to the receiver, or none that its certificate proves"
        case _:
            return f"the receiver's answer broke off or was malformed ({type(error).__name__})"
