"""Windows as plain counters in Redis: time buckets, keyed by circuit generation, hash-tagged; no rule, no Lua.

Keys of one circuit share the tag `{environment:dependency}`, and each but one begins with its generation:

    rcl:{1:7}:4           hash  streak, streak_since; since, since:60 (counters are whole from then on), verified…
    rcl:{1:7}:4:w         set   worker/session of everyone whose failures are in the present streak
    rcl:{1:7}:4:u         zset  bucket -> moment until which a server asked to wait
    rcl:{1:7}:4:s         zset  worker/session -> its own failures in a row
    rcl:{1:7}:4:a         zset  worker/session -> when its newest counted slice ended
    rcl:{1:7}:c           zset  the same of the last minutes in any generation; `since`: they are whole from then on
    rcl:{1:7}:4:t:60:N    hash  ok, empty, failures, slow of bucket N, and `o:NAME`: failures by operation
    rcl:{1:7}:4:d:60:N    hash  the same by `worker/session`
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio
from recloser.core.circuit import Evidence, WorkerEvidence, breaches, worker_fault
from recloser.core.policy import CircuitPolicy
from recloser.core.window import bucket_of, bucket_width, live_buckets

from controlplane.evidence import store
from controlplane.evidence.live import LATELY_S, Live
from controlplane.evidence.rows import Row
from controlplane.evidence.tally import Tally, Voice, add, evidence_of

__all__ = ["Key", "Reading", "Row", "count", "count_blocking", "read", "verified"]

KEEP_STREAK_S = 48 * 3600
"""As long as raw observations are kept: a streak reaches no further back."""

SLACK_S = 60

SINCE = "since"
"""Beside the callers, with a negative score so that no range of moments holds it."""

_owed: set[Key] = set()
"""Circuits that this process failed to count for: their counters are not whole until they start anew."""


@dataclass(frozen=True, slots=True)
class Key:
    """One generation of one circuit."""

    environment_id: int
    dependency_id: int
    generation: int

    def __str__(self) -> str:
        return f"{self._tag}:{self.generation}"

    @property
    def callers(self) -> str:
        """Who called, whatever the generation."""
        return f"{self._tag}:c"

    @property
    def _tag(self) -> str:
        return f"rcl:{{{self.environment_id}:{self.dependency_id}}}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What the counters say, and from when on they are whole (None: there is nothing before them)."""

    evidence: Evidence
    window_since: float | None
    streak_since: float | None
    """As `window_since`; None also when a success has ended what came before."""
    streak_set_at: float
    """When a success last set the streak; 0 if none did."""
    callers_since: float
    """From when on it is known who called, in any generation."""


async def count(client: redis.asyncio.Redis, rows: Iterable[Row]) -> bool:
    """Count stored rows, each circuit's in the order given and as one transaction, all in one round trip.

    False if Redis is away: then `recount` knows better.
    """
    kept = _countable(rows)
    if not kept:
        return True
    if store.away():
        return _owing(kept)
    pipeline = client.pipeline(transaction=False)
    _queue_transactions(pipeline, kept)
    try:
        _demand_counted(await pipeline.execute())
    except store.FAILURES as error:
        store.failed(error)
        return _owing(kept)
    _paid(kept)
    return True


def count_blocking(client: redis.Redis, rows: Iterable[Row]) -> bool:
    """The same from a thread."""
    kept = _countable(rows)
    if not kept:
        return True
    if store.away():
        return _owing(kept)
    pipeline = client.pipeline(transaction=False)
    _queue_transactions(pipeline, kept)
    try:
        _demand_counted(pipeline.execute())
    except store.FAILURES as error:
        store.failed(error)
        return _owing(kept)
    _paid(kept)
    return True


def owe(rows: Iterable[Row]) -> None:
    """Say that stored rows may or may not have been counted (a repeated batch): their circuits start anew."""
    _owed.update(_key(row) for row in rows if row.counted)


def is_owed(key: Key) -> bool:
    """Whether this process knows that the circuit's counters are not whole."""
    return key in _owed


def _countable(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.counted and row.calls]


def _key(row: Row) -> Key:
    return Key(row.environment_id, row.dependency_id, row.generation)


def _owing(rows: list[Row]) -> bool:
    owe(rows)
    return False


def _paid(rows: list[Row]) -> None:
    _owed.difference_update(_key(row) for row in rows)


def _queue_transactions(pipeline: Any, rows: list[Row]) -> None:
    """One for each circuit: its keys lie together in a cluster, and another circuit's may lie elsewhere."""
    pipeline.response_callbacks = {}  # within a transaction each answer is "QUEUED", which none of them can read
    circuits: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        circuits.setdefault((row.environment_id, row.dependency_id), []).append(row)
    for own in circuits.values():
        pipeline.execute_command("MULTI")
        _queue(pipeline, own)
        pipeline.execute_command("EXEC")


def _demand_counted(answers: Iterable[Any]) -> None:
    """An error inside a transaction comes as a part of its answer."""
    for answer in answers:
        for part in answer if isinstance(answer, list) else ():
            if isinstance(part, redis.RedisError):
                raise part


def _queue(pipeline: Any, rows: list[Row]) -> None:
    for row in rows:
        _queue_since(pipeline, row)
        _queue_bucket(pipeline, row)
        _queue_streak(pipeline, row)
        _queue_own_streak(pipeline, row)
        _queue_caller(pipeline, row)
        if row.failures and row.retry_after_s is not None:
            _queue_wait(pipeline, row)


def _queue_since(pipeline: Any, row: Row) -> None:
    key = _key(row)
    fields = ("since", _since_field(row.window_s))
    if key in _owed:
        pipeline.hset(str(key), mapping=dict.fromkeys(fields, repr(row.received_at)))
    else:
        for field in fields:
            pipeline.hsetnx(str(key), field, repr(row.received_at))
    pipeline.expire(str(key), KEEP_STREAK_S)


def _since_field(window_s: float) -> str:
    return f"since:{window_s:g}"


def _queue_bucket(pipeline: Any, row: Row) -> None:
    number = bucket_of(row.at, row.window_s)
    totals, detail = (_bucket_key(_key(row), kind, row.window_s, number) for kind in ("t", "d"))
    counts = {"ok": row.ok, "empty": row.empty, "failures": row.failures, "slow": row.slow_calls}
    for name, value in counts.items():
        if value:
            pipeline.hincrby(totals, name, value)
            pipeline.hincrby(detail, f"{_voice(row)}:{name}", value)
    if row.failures:
        pipeline.hincrby(totals, f"o:{row.operation}", row.failures)
    for key in (totals, detail):
        pipeline.expire(key, int(row.window_s) + SLACK_S)


def _bucket_key(key: Key, kind: str, window_s: float, number: int) -> str:
    return f"{key}:{kind}:{window_s:g}:{number}"


def _voice(row: Row) -> str:
    return f"{row.worker_id}/{row.session}"


def _queue_streak(pipeline: Any, row: Row) -> None:
    key, witnesses = str(_key(row)), f"{_key(row)}:w"
    if row.succeeded:
        pipeline.hset(key, mapping={"streak": row.trailing, "streak_since": repr(row.received_at)})
        pipeline.delete(witnesses)
    elif row.trailing:
        pipeline.hincrby(key, "streak", row.trailing)
    if row.trailing:
        pipeline.sadd(witnesses, _voice(row))
        pipeline.expire(witnesses, KEEP_STREAK_S)


def _queue_own_streak(pipeline: Any, row: Row) -> None:
    streaks, active = f"{_key(row)}:s", f"{_key(row)}:a"
    pipeline.zadd(active, {_voice(row): row.at}, gt=True)
    pipeline.zremrangebyscore(active, "-inf", row.at - row.window_s - SLACK_S)
    if not row.succeeded and row.trailing:
        pipeline.zincrby(streaks, row.trailing, _voice(row))
    elif row.trailing:
        pipeline.zadd(streaks, {_voice(row): row.trailing})
    elif row.succeeded:  # a slice of failures that were counted before leaves the streak as it is
        pipeline.zrem(streaks, _voice(row))
    for key in (streaks, active):
        pipeline.expire(key, KEEP_STREAK_S)


def _queue_caller(pipeline: Any, row: Row) -> None:
    callers = _key(row).callers
    pipeline.zadd(callers, {_voice(row): row.at}, gt=True)
    pipeline.zadd(callers, {SINCE: -row.received_at}, nx=_key(row) not in _owed)
    pipeline.zremrangebyscore(callers, 0, row.at - LATELY_S - SLACK_S)
    pipeline.expire(callers, int(LATELY_S) + SLACK_S)


def _queue_wait(pipeline: Any, row: Row) -> None:
    waits = f"{_key(row)}:u"
    until = row.at + (row.retry_after_s or 0.0)
    pipeline.zadd(waits, {str(bucket_of(row.at, row.window_s)): until}, gt=True)
    pipeline.zremrangebyscore(waits, "-inf", row.at - row.window_s)
    pipeline.expire(waits, int(row.window_s) + SLACK_S)


def read(
    client: redis.Redis, key: Key, policy: CircuitPolicy, now: float, *, live: Live, closely: bool = False
) -> Reading | None:
    """The window as counted; None where nothing is counted.

    The parts by worker are read only when a shared rule may hold or, `closely`, a worker may be failing alone.
    """
    numbers = live_buckets(now, policy.window_s)
    state, witnesses, waits, active, streaks, callers, since, *buckets = _totals(client, key, policy, numbers, now)
    if not state:
        return None
    tally = Tally(streak=int(state.get(b"streak", 0)), witnesses={_split(one) for one in witnesses})
    tally.active_sessions = active
    tally.callers = {_split(one) for one in callers}
    tally.own_streaks = _still_active(client, key, policy, numbers, streaks)
    present = [number for number, bucket in zip(numbers, buckets, strict=True) if bucket]
    for bucket in buckets:
        _add_totals(tally, bucket)
    tally.retry_until = max((score for name, score in waits if int(name) in numbers), default=None)
    evidence = evidence_of(tally, live, now, detailed=False)
    if _may_matter(evidence, policy) or (closely and _one_may_fail_alone(evidence, policy)):
        _add_detail(tally, client, key, policy.window_s, present)
        evidence = evidence_of(tally, live, now)
    return _reading(evidence, state, policy.window_s, since)


def _may_matter(totals: Evidence, policy: CircuitPolicy) -> bool:
    """A rule holds, but for its witnesses."""
    return bool(breaches(totals, dataclasses.replace(policy, min_workers=0)))


def _one_may_fail_alone(totals: Evidence, policy: CircuitPolicy) -> bool:
    """It would be a worker fault if all failures were one worker's."""
    suspect = WorkerEvidence("", failures=totals.failures, calls=totals.failures)
    return worker_fault(dataclasses.replace(totals, workers=(suspect,)), policy) is not None


def _totals(client: redis.Redis, key: Key, policy: CircuitPolicy, numbers: range, now: float) -> list[Any]:
    window_s = policy.window_s
    pipeline = client.pipeline(transaction=True)
    pipeline.hgetall(str(key))
    pipeline.smembers(f"{key}:w")
    pipeline.zrange(f"{key}:u", 0, -1, withscores=True)
    pipeline.zcount(f"{key}:a", *_ends(numbers, window_s))
    pipeline.zrangebyscore(f"{key}:s", policy.consecutive_failures or "+inf", "+inf", withscores=True)
    pipeline.zrangebyscore(key.callers, now - LATELY_S, "+inf")
    pipeline.zscore(key.callers, SINCE)
    for number in numbers:
        pipeline.hgetall(_bucket_key(key, "t", window_s, number))
    return pipeline.execute()


def _ends(numbers: range, window_s: float) -> tuple[float, str]:
    """The window as scores: from the beginning of its oldest bucket to before the end of its newest."""
    width = bucket_width(window_s)
    return numbers.start * width, f"({numbers.stop * width!r}"


def _still_active(
    client: redis.Redis, key: Key, policy: CircuitPolicy, numbers: range, streaks: list[tuple[bytes, float]]
) -> dict[Voice, int]:
    """The long streaks of sessions that had a call in the window; asked for only where two or more could matter."""
    if len(streaks) < 2:
        return {}
    seen_at = client.zmscore(f"{key}:a", [voice.decode() for voice, _ in streaks])
    begins = _ends(numbers, policy.window_s)[0]
    alive = zip(streaks, seen_at, strict=True)
    return {_split(voice): int(length) for (voice, length), at in alive if at is not None and at >= begins}


def _split(voice: bytes) -> Voice:
    worker, _, session = voice.decode().partition("/")
    return worker, session


def _add_totals(tally: Tally, bucket: Mapping[bytes, bytes]) -> None:
    for field, value in bucket.items():
        name = field.decode()
        if name.startswith("o:"):
            tally.operations.add(name[2:])
        else:
            add(tally.total, name, int(value))


def _add_detail(tally: Tally, client: redis.Redis, key: Key, window_s: float, numbers: list[int]) -> None:
    """One hash a bucket, which in a large fleet is tens of thousands of fields: hence summed before it is decoded."""
    pipeline = client.pipeline(transaction=False)
    for number in numbers:
        pipeline.hgetall(_bucket_key(key, "d", window_s, number))
    sums: dict[bytes, int] = {}
    for bucket in pipeline.execute():
        for field, value in bucket.items():
            sums[field] = sums.get(field, 0) + int(value)
    for field, total in sums.items():
        voice, _, name = field.rpartition(b":")
        add(tally.voice(*_split(voice)), name.decode(), total)


def _reading(evidence: Evidence, state: Mapping[bytes, bytes], window_s: float, callers_since: float | None) -> Reading:
    return Reading(
        evidence=evidence,
        window_since=_whole_since(state, _since_field(window_s)),
        streak_since=_whole_since(state, "since"),
        streak_set_at=float(state.get(b"streak_since", 0)),
        callers_since=float("inf") if callers_since is None else -callers_since,
    )


def _whole_since(state: Mapping[bytes, bytes], field: str) -> float | None:
    """When counting began; None once it is verified that nothing came before. An absent mark: not whole at all."""
    since = state.get(field.encode())
    if since is None:
        return float("inf")
    return None if state.get(f"verified:{field}".encode()) == since else float(since)


def verified(client: redis.Redis, key: Key, policy: CircuitPolicy, reading: Reading) -> None:
    """Write down that no row of this generation is older than its counters."""
    marks = {_since_field(policy.window_s): reading.window_since, "since": reading.streak_since}
    for field, since in marks.items():
        if since not in (None, float("inf")):
            client.hset(str(key), f"verified:{field}", repr(since))


def callers_verified(client: redis.Redis, key: Key) -> None:
    """Write down that nobody else called lately but those that are counted."""
    client.zadd(key.callers, {SINCE: -1.0})
