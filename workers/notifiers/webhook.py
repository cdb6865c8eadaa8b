"""Signed webhooks: the same delivery id, the same body and the same signature at every attempt."""

import asyncio
import hashlib
import hmac
import json
from typing import Any

import httpx
from recloser import __version__

from controlplane import egress
from controlplane.masking import masked
from controlplane.services.alerts import Message, Result
from workers.egress import GuardedBackend, client
from workers.probers.web import retry_after_s

USER_AGENT = f"Recloser-Webhook/{__version__}"
TIME_LIMIT_S = 10.0
GONE = 410


async def send(message: Message, backend: GuardedBackend, *, time_limit_s: float = TIME_LIMIT_S) -> Result:
    """Post once; redirects are not followed, and of the answer only its status is looked at."""
    body = packed(message.body)
    try:
        async with (
            asyncio.timeout(time_limit_s),
            client(backend, time_limit_s=time_limit_s, user_agent=USER_AGENT) as http,
            http.stream("POST", message.target, content=body, headers=_headers(message, body)) as response,
        ):
            return _result(response)
    except Exception as error:
        return Result(masked(_words(error, time_limit_s), {"secret": message.secret}))


def packed(body: dict[str, Any]) -> bytes:
    """The bytes of a body, the same each time."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def signature(secret: str, at: int, body: bytes) -> str:
    """`t=...,v1=...`: HMAC-SHA256 over the time, a dot and the body, under the channel's secret."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def _headers(message: Message, body: bytes) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "Recloser-Delivery": str(message.id),
        "Recloser-Event": str(message.body["id"]),
    }
    if message.secret:
        headers["Recloser-Signature"] = signature(message.secret, int(message.created_at.timestamp()), body)
    return headers


def _result(response: httpx.Response) -> Result:
    if response.is_success:
        return Result()
    gone = response.status_code == GONE
    return Result(f"the receiver answered {response.status_code}", retry_after_s(response.headers), final=gone)


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
