"""One door to a circuit's evidence: the counters where they can be trusted, the rows where not."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

import redis
from recloser.core.circuit import Evidence
from recloser.core.policy import CircuitPolicy
from recloser.core.window import bucket_width, live_buckets

from controlplane import redis_clients
from controlplane.evidence import counters, recount, store
from controlplane.evidence.counters import KEEP_STREAK_S, Key, Reading
from controlplane.evidence.live import LATELY_S, Live, live
from controlplane.evidence.tally import living


def evidence(
    key: Key,
    policy: CircuitPolicy,
    now: datetime,
    *,
    begun_at: datetime | None,
    closely: bool = False,
    bad_sample: bool = True,
    by_rows: bool = False,
) -> Evidence:
    """What is known of a circuit's generation, which began at `begun_at`, in its window ending now.

    `closely`: look for a worker that fails alone, too. `bad_sample`: the newest sample failed or was slow.
    `by_rows`: leave the counters aside.
    """
    present = live(key.environment_id, now)
    found = None if by_rows else _counted(key, policy, now, present, begun_at, closely=closely)
    if found is None:
        found = recount.of_rows(key.dependency_id, key.generation, policy, now, present)
    return dataclasses.replace(found, completed_by_bad_sample=bad_sample)


def _counted(
    key: Key, policy: CircuitPolicy, now: datetime, live: Live, begun_at: datetime | None, *, closely: bool
) -> Evidence | None:
    """The counters' evidence; None if Redis is away or has forgotten something."""
    if store.away() or counters.is_owed(key):
        return None
    client = redis_clients.blocking()
    try:
        reading = counters.read(client, key, policy, now.timestamp(), live=live, closely=closely)
        if reading is not None and not _whole(reading, policy, now, live):
            reading = _verified(client, key, policy, reading, now, begun_at)
        if reading is None or not _whole(reading, policy, now, live):
            return None
        return _with_all_callers(client, key, reading, now, live)
    except store.FAILURES as error:
        store.failed(error)
        return None


def _with_all_callers(client: redis.Redis, key: Key, reading: Reading, now: datetime, live: Live) -> Evidence:
    """The reading's evidence; who called is read from the rows where an emptied store has forgotten somebody."""
    since = reading.callers_since
    if since <= now.timestamp() - LATELY_S:
        return reading.evidence
    if since < float("inf") and not recount.has_callers_before(key.dependency_id, since, now):
        counters.callers_verified(client, key)
        return reading.evidence
    workers, sessions = living(recount.callers(key.dependency_id, now), live)
    return dataclasses.replace(reading.evidence, live_workers=workers, live_sessions=sessions)


def _whole(reading: Reading, policy: CircuitPolicy, now: datetime, live: Live) -> bool:
    """Nothing in the window or the streak is older than the counters, or was counted before a quarantine."""
    quarantined_at = 0.0 if live.quarantined_at is None else live.quarantined_at.timestamp()
    window = max(reading.window_since or 0.0, quarantined_at)
    streak = max(reading.streak_since or 0.0, quarantined_at)
    begins = live_buckets(now.timestamp(), policy.window_s)[0] * bucket_width(policy.window_s)
    return window <= begins and (streak == 0.0 or reading.streak_set_at > streak)


def _verified(
    client: redis.Redis,
    key: Key,
    policy: CircuitPolicy,
    reading: Reading,
    now: datetime,
    begun_at: datetime | None,
) -> Reading:
    """The reading with its marks taken off, where no row of this generation is older than they are."""
    marks = [mark for mark in (reading.window_since, reading.streak_since) if mark is not None]
    if not marks or max(marks) == float("inf"):
        return reading
    oldest = now - timedelta(seconds=KEEP_STREAK_S)
    horizon = oldest if begun_at is None else max(oldest, begun_at)
    if recount.has_rows_before(key.dependency_id, key.generation, max(marks), horizon):
        return reading
    counters.verified(client, key, policy, reading)
    return dataclasses.replace(reading, window_since=None, streak_since=None)
