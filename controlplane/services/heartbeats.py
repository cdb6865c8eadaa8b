"""Heartbeats: probes of circuits that are closed. They warn; they are no evidence, and move no circuit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from django.db import transaction
from django.db.models import F, Q
from recloser.core.places import AskFrom
from recloser.core.probe import heartbeat_streak
from recloser.core.types import Mode, State, Verdict

from controlplane.models import Probe, ProbeTest
from controlplane.services.errors import Refused

SHORTEST_S, LONGEST_S = 60, 86_400
ASKER = "heartbeat"


def demand_pace(heartbeat_s: int | None, ask_from: AskFrom) -> None:
    """Refuse a pace that would be no slow heartbeat, or that nobody could ask at."""
    if heartbeat_s is None:
        return
    if not SHORTEST_S <= heartbeat_s <= LONGEST_S:
        mend = f"use {SHORTEST_S} to {LONGEST_S} seconds, or leave it empty for none"
        raise Refused("bad_field", f"a heartbeat of {heartbeat_s} s is out of bounds", mend, "heartbeat_s")
    if ask_from is AskFrom.AGENTS:
        mend = "leave it empty, or have the control plane ask, too"
        raise Refused("bad_field", "agents alone are asked only while a circuit is open", mend, "heartbeat_s")


@transaction.atomic
def claim_due(*, now: datetime, limit: int = 50) -> int:
    """Have the due ones asked, as try-outs are; how many. Each is asked by one, and its next is jittered."""
    rows = _due(now, limit)
    for row in rows:
        row.heartbeat_due_at = now + timedelta(seconds=(row.heartbeat_s or 0) * random.uniform(0.9, 1.1))  # noqa: S311
    Probe.objects.bulk_update(rows, ["heartbeat_due_at"])
    ProbeTest.objects.bulk_create(
        ProbeTest(
            id=uuid4(), dependency_id=row.dependency_id, kind=row.kind, spec=row.spec, secrets=row.secrets,
            heartbeat=True, asked_by=ASKER, asked_at=now,
        )
        for row in rows
    )  # fmt: skip
    return len(rows)


def _due(now: datetime, limit: int) -> Sequence[Probe]:
    """Of circuits that are closed by themselves, and whose last one has been answered or given up."""
    waiting = Q(heartbeat_due_at=None) | Q(heartbeat_due_at__lte=now)
    closed = Q(dependency__circuit__state=State.CLOSED.value, dependency__circuit__mode=Mode.AUTO.value)
    asked = Probe.objects.filter(waiting, closed, enabled=True, heartbeat_s__isnull=False)
    asked = asked.exclude(ask_from=AskFrom.AGENTS.value)
    return list(asked.select_for_update(skip_locked=True, no_key=True, of=("self",)).order_by("pk")[:limit])


def shift_deadlines(*, by_s: float) -> int:
    """Follow a step of the database's clock, so that no heartbeat waits for hours, or comes early; how many rows."""
    paced = Probe.objects.filter(heartbeat_due_at__isnull=False)
    return paced.update(heartbeat_due_at=F("heartbeat_due_at") + timedelta(seconds=by_s))


@transaction.atomic
def note(*, test: ProbeTest, verdict: Verdict, now: datetime) -> None:
    """Remember what one said, for the warning alone; what proves nothing changes nothing."""
    probe = Probe.objects.select_for_update(no_key=True).filter(dependency=test.dependency_id).first()
    if probe is None or verdict is Verdict.INCONCLUSIVE:
        return
    probe.heartbeat_at = now
    probe.heartbeat_bad = heartbeat_streak(probe.heartbeat_bad, verdict)
    probe.heartbeat_failing_at = (probe.heartbeat_failing_at or now) if probe.heartbeat_bad else None
    probe.save(update_fields=["heartbeat_at", "heartbeat_bad", "heartbeat_failing_at"])
