"""Signed webhooks: the same delivery id, the same body and the same signature at every attempt."""

import hashlib
import hmac

from controlplane.services.alerts import Message, Result
from workers.egress import GuardedBackend
from workers.notifiers.posting import packed, post

GONE = 410


async def send(message: Message, backend: GuardedBackend) -> Result:
    """Post the body as it is, signed."""
    body = packed(message.body)
    return await post(
        message.target, body, backend, headers=_headers(message, body), secret=message.secret, final=(GONE,)
    )


def signature(secret: str, at: int, body: bytes) -> str:
    """`t=...,v1=...`: HMAC-SHA256 over the time, a dot and the body, under the channel's secret."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def _headers(message: Message, body: bytes) -> dict[str, str]:
    headers = {"Recloser-Delivery": str(message.id), "Recloser-Event": str(message.body["id"])}
    if message.secret:
        headers["Recloser-Signature"] = signature(message.secret, int(message.created_at.timestamp()), body)
    return headers
