"""Slack, by an incoming webhook; its address is the secret, so nothing but the name of the channel is shown."""

from __future__ import annotations

from typing import Any

from controlplane.services.alerts import Message, Result
from workers.egress import GuardedBackend
from workers.notifiers.posting import packed, post

LONGEST = 2900
"""Of one block's text; Slack refuses more than 3,000 characters."""
USELESS = (400, 403, 404, 410)
"""The webhook was revoked, or its channel is gone: asking again changes nothing."""


async def send(message: Message, backend: GuardedBackend) -> Result:
    """Post one message. Slack knows no ids: after an answer that got lost it may show the message twice."""
    return await post(message.secret, packed(composed(message.body)), backend, secret=message.secret, final=USELESS)


def composed(body: dict[str, Any]) -> dict[str, Any]:
    """The message: the title for the notification, then the alert's own lines. No text is read as markup."""
    title = escaped(" ".join(str(body["title"]).split()))[:200]
    lines = escaped(str(body["text"]))[:LONGEST]
    return {
        "text": title,
        "unfurl_links": False,
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": lines, "verbatim": True}},
            {"type": "context", "elements": [{"type": "plain_text", "text": str(body["incident"])[:75]}]},
        ],
    }


def escaped(text: str) -> str:
    """Text that Slack shows as it is: no mention, no link, no formatting across lines."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "*_~`":
        text = text.replace(mark, f"{mark}\u200b")
    return text
