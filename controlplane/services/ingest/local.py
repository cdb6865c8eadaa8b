"""Break-glass files that agents tell of: kept with the worker that told it, and in the audit; no circuit moves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from controlplane import clock
from controlplane.models import AgentKey, LocalOverride
from controlplane.services import audit
from controlplane.services.ingest import caps
from controlplane.services.ingest.names import Caller
from controlplane.services.ingest.wire import Override

KEPT_FOR = timedelta(days=30)
"""After it ran out; the audit keeps it longer."""
LONGEST_REASON = 500


@transaction.atomic
def keep_overrides(caller: Caller, worker_id: int, instance: str, told: Sequence[Override]) -> bool:
    """Keep each once, however often it is told; False if the key has told of too many in an hour."""
    # Of a batch that is sent twice at once the second waits here.
    AgentKey.objects.select_for_update(no_key=True).filter(pk=caller.key_id).first()
    now = clock.now()
    known = set(LocalOverride.objects.filter(pk__in=[each.id for each in told]).values_list("pk", flat=True))
    new = {each.id: each for each in told if each.id not in known}
    lately = LocalOverride.objects.filter(key=caller.key_id, reported_at__gt=now - timedelta(hours=1)).count()
    room = max(0, caps.OVERRIDES_AN_HOUR - lately)
    rows = [_row(caller, worker_id, each, now) for each in list(new.values())[:room]]
    LocalOverride.objects.filter(worker=worker_id, expires_at__lt=now - KEPT_FOR).delete()
    LocalOverride.objects.bulk_create(rows)
    for row in rows:
        _audit(caller, instance, row)
    return len(new) <= room


def _row(caller: Caller, worker_id: int, told: Override, now: datetime) -> LocalOverride:
    return LocalOverride(
        id=told.id,
        environment_id=caller.environment_id,
        worker_id=worker_id,
        key_id=caller.key_id,
        tool=told.tool or "",
        dependency=told.dependency or "",
        mode=told.mode,
        reason=told.reason[:LONGEST_REASON],
        who=told.who,
        began_at=now - timedelta(seconds=told.age_s),
        expires_at=now + timedelta(seconds=told.expires_in_s),
        reported_at=now,
    )


def _audit(caller: Caller, instance: str, row: LocalOverride) -> None:
    """The actor is the worker: who the file names is its claim."""
    audit.record(
        actor=f"{caller.agent}/{instance}"[:150], action="break_glass", target=row.tool or row.dependency,
        accepted=True, environment_id=caller.environment_id, reason=row.reason,
        detail={"mode": row.mode, "of": "tool" if row.tool else "dependency", "who": row.who,
                "began_at": row.began_at, "expires_at": row.expires_at},
    )  # fmt: skip
