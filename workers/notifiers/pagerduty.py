"""PagerDuty, Events API v2: an incident is triggered, and resolved by the same key."""

from __future__ import annotations

from typing import Any

from controlplane.models import AlertCause
from controlplane.services import handovers
from controlplane.services.alert_body import CLOSED, LOCKED_OUT, OPENED, RESOLVED
from controlplane.services.alert_tests import TEST
from controlplane.services.alerts import Message, Result
from workers.egress import GuardedBackend
from workers.notifiers.posting import packed, post

SEVERITY = {
    OPENED: "error",
    LOCKED_OUT: "critical",
    AlertCause.Kind.SCHEDULER_SILENT: "critical",
    AlertCause.Kind.UNTESTABLE: "error",
    handovers.QUESTION: "info",
    TEST: "info",
}
"""All others are a warning."""
REFUSED = (400, 401, 403, 404)
"""The event or its key is wrong: asking again changes nothing."""


async def send(message: Message, backend: GuardedBackend) -> Result:
    """Send one event; sent twice, it is one incident all the same."""
    event = composed(message.body) | {"routing_key": message.secret}
    return await post(message.target, packed(event), backend, secret=message.secret, final=REFUSED)


def composed(body: dict[str, Any]) -> dict[str, Any]:
    """The event without its key."""
    over = body["event"] in (CLOSED, RESOLVED)
    event = {"event_action": "resolve" if over else "trigger", "dedup_key": str(body["incident"])[:255]}
    if over:
        return event
    return event | {
        "client": "Recloser",
        "client_url": body["url"],
        "links": [{"href": body["url"], "text": "Open it in Recloser"}],
        "payload": {
            "summary": " ".join(str(body["title"]).split())[:1024],
            "source": "/".join(filter(None, (body["environment"], body.get("dependency"))))[:255],
            "severity": SEVERITY.get(body["event"], "warning"),
            "timestamp": body["at"],
            "component": body.get("dependency") or None,
            "group": body.get("group"),
            "class": body["event"],
            "custom_details": body,
        },
    }
