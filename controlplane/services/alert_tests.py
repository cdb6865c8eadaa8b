"""Trying out an alert channel: one message that says what it is, sent the way that a real one goes."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

from django.conf import settings
from django.db import transaction

from controlplane.models import AlertChannel, AlertDelivery
from controlplane.services import audit, system
from controlplane.services.errors import Refused

TEST = "test"


@audit.refusals("test_channel")
@transaction.atomic
def send_test(*, channel: AlertChannel, actor: str, now: datetime) -> AlertDelivery:
    """Queue one try-out; a Celery worker sends it, signs it and tries again as it does any alert."""
    if not channel.enabled:
        raise Refused("switched_off", "this channel is switched off", "switch it on first")
    incident = f"{TEST}-{uuid4()}"
    made = AlertDelivery.objects.create(
        channel=channel, event=TEST, incident=incident, body=_body(channel, incident, actor, now), due_at=now,
        created_at=now,
    )  # fmt: skip
    audit.record(
        actor=actor, action="test_channel", target=channel.name, accepted=True,
        environment_id=channel.environment_id, detail={"delivery": str(made.pk)},
    )  # fmt: skip
    system.wake_scheduler()
    return made


def _body(channel: AlertChannel, incident: str, actor: str, now: datetime) -> dict[str, object]:
    environment = channel.environment.slug
    title = f"Recloser test: {channel.name} is reached from {environment}"
    url = f"{settings.PUBLIC_URL}/?environment={environment}"
    text = f"{actor} tried this channel out. Nothing has happened, and nothing is to be done."
    return {
        "format": 1,
        "id": f"{incident}:{TEST}",
        "event": TEST,
        "incident": incident,
        "title": title,
        "environment": environment,
        "dependency": "",
        "at": now.astimezone(UTC).isoformat(),
        "actor": actor,
        "url": url,
        "text": f"{title}.\n\n{text}\n\n{url}",
    }
