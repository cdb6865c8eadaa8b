"""Who is there, and whose word does not count: from Postgres, at most a second old."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

LIVE_S = 60
"""A session that has not been heard for so long does not live."""

LATELY_S = 600.0
"""Who called a dependency this recently is expected to call it again: a voice in its quorum while it lives."""

KEEP_S = 1.0
KEPT_INSTANCES = 50_000

_PRESENT = """
SELECT 'session', s.id::text, NULL::timestamptz
FROM controlplane_session s
JOIN controlplane_worker w ON w.id = s.worker_id
JOIN controlplane_agentkey k ON k.id = s.key_id
WHERE w.environment_id = %(environment)s AND s.last_seen_at > %(now)s - make_interval(secs => %(live_s)s)
  AND w.quarantined_at IS NULL AND k.quarantined_at IS NULL
UNION ALL
SELECT 'key', id::text, quarantined_at FROM controlplane_agentkey
WHERE environment_id = %(environment)s AND quarantined_at IS NOT NULL
UNION ALL
SELECT 'worker', id::text, quarantined_at FROM controlplane_worker
WHERE environment_id = %(environment)s AND quarantined_at IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Live:
    """An environment's live sessions whose word counts, and its quarantine."""

    sessions: frozenset[str]
    quarantined_keys: tuple[int, ...] = ()
    quarantined_workers: tuple[int, ...] = ()
    quarantined_at: datetime | None = None
    """The latest quarantine in force: what was counted before may hold what no longer counts."""


_cache: dict[int, tuple[float, Live]] = {}


def live(environment_id: int, now: datetime) -> Live:
    """Who lives at `now`; asked again after a second."""
    at, known = _cache.get(environment_id, (float("-inf"), None))
    if known is not None and 0 <= now.timestamp() - at < KEEP_S:
        return known
    found = _read(environment_id, now)
    _cache[environment_id] = (now.timestamp(), found)
    return found


def forget(environment_id: int) -> None:
    """Ask again at the next call."""
    _cache.pop(environment_id, None)


def _read(environment_id: int, now: datetime) -> Live:
    with connection.cursor() as cursor:
        cursor.execute(_PRESENT, {"environment": environment_id, "now": now, "live_s": LIVE_S})
        rows = cursor.fetchall()
    return Live(
        sessions=frozenset(pk for kind, pk, _ in rows if kind == "session"),
        quarantined_keys=tuple(int(pk) for kind, pk, _ in rows if kind == "key"),
        quarantined_workers=tuple(int(pk) for kind, pk, _ in rows if kind == "worker"),
        quarantined_at=max((at for *_, at in rows if at is not None), default=None),
    )


_instances: dict[str, str] = {}


def instances(worker_ids: Iterable[str]) -> dict[str, str]:
    """Where each worker runs, which never changes: agents that share an instance are one witness and not two."""
    wanted = set(worker_ids)
    known = {worker: name for worker in wanted if (name := _instances.get(worker))}
    if missing := wanted - known.keys():
        found = _read_instances(missing)
        known |= {worker: found.get(worker, worker) for worker in missing}
    return known


def _read_instances(worker_ids: Iterable[str]) -> dict[str, str]:
    with connection.cursor() as cursor:
        asked = [int(worker) for worker in worker_ids]
        cursor.execute("SELECT id::text, instance FROM controlplane_worker WHERE id = ANY(%s)", [asked])
        found = dict(cursor.fetchall())
    if len(_instances) > KEPT_INSTANCES:
        _instances.clear()
    _instances.update(found)
    return found
