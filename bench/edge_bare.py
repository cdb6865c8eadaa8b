"""Bare ASGI applications beside which the edge is measured: what the same work costs without any of our rules.

`batches`: one equal INSERT (the same table, columns and values) and one equal Redis pipeline a batch, over pools of the
same size. `config`: a fixed 304. `fanout`: a POST is told to every open stream at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

import django

django.setup()

import msgspec  # noqa: E402

from controlplane import redis_clients  # noqa: E402
from controlplane.edge import database  # noqa: E402
from controlplane.evidence import counters  # noqa: E402
from controlplane.evidence.rows import Row  # noqa: E402

IDS = json.loads(os.environ.get("BENCH_IDS", "{}"))
NOBODYS = -1
"""The dependency that the bare application's rows belong to: the edge must not find them among its own."""
INSERT = """
INSERT INTO observation (
    received_at, environment_id, key_id, agent_id, worker_id, session_id, seq, dependency_id, tool_id, generation,
    operation, at, span_s, ok, empty, retryable_error, timeout, rate_limited, semantic_error, unknown_tool, cancelled,
    rejected, attempts, slow, slow_failures, latency_sum_ms, latency_max_ms, latency_hist, streak, retry_after_s,
    counted, samples)
VALUES (
    clock_timestamp(), %(environment)s, %(key)s, %(agent)s, %(worker)s, %(session)s, %(seq)s, %(dependency)s, %(tool)s,
    %(generation)s, %(operation)s, clock_timestamp() - make_interval(secs => %(age_s)s), %(span_s)s, %(ok)s, 0, 0,
    %(timeout)s, 0, 0, 0, 0, 0, %(attempts)s, %(slow)s, %(slow_failures)s, %(sum)s, %(max)s, %(hist)s, %(streak)s,
    NULL, true, '[]')
"""


class Application:
    """Answers every request alike; made with the first."""

    def __init__(self) -> None:
        self._ready = asyncio.Lock()
        self._pool: Any = None
        self._redis: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        await self._start()
        if scope["method"] == "POST":
            await self._batch(await _body(receive), send)
        else:
            await _answer(send, 200, b"{}")

    async def _start(self) -> None:
        if self._pool is None:
            async with self._ready:
                if self._pool is None:
                    pool = database.pool()
                    await pool.open()
                    self._redis, self._pool = redis_clients.nonblocking(), pool

    async def _batch(self, body: bytes, send: Any) -> None:
        batch = msgspec.json.decode(body)
        seen = batch["observations"][0]
        counts, latency = seen["counts"], seen["latency_ms"]
        hist = [*latency["hist"], *[0] * (16 - len(latency["hist"]))]
        values = {**seen, **IDS, "dependency": NOBODYS, "seq": batch["seq"], "hist": hist}
        values |= {"ok": counts.get("ok", 0), "timeout": counts.get("timeout", 0)}
        values |= {"sum": latency["sum"], "max": latency["max"]}
        async with self._pool.connection() as connection:
            await connection.execute(INSERT, values)
        await counters.count(self._redis, [self._row(seen, counts)])
        await _answer(send, 200, msgspec.json.encode({"ack": batch["seq"]}))

    def _row(self, seen: dict[str, Any], counts: dict[str, int]) -> Row:
        now = time.time()
        return Row(
            environment_id=IDS["environment"],
            dependency_id=NOBODYS,
            generation=0,
            worker_id=IDS["worker"],
            session=IDS["session"],
            window_s=60.0,
            at=now - seen["age_s"],
            received_at=now,
            ok=counts.get("ok", 0),
            failures=counts.get("timeout", 0),
            streak=seen["streak"],
            operation=seen["operation"],
        )


async def config(scope: Any, receive: Any, send: Any) -> None:
    """A fixed 304."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    head = [(b"etag", b'"e1-1-0123456789abcdef"'), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 304, "headers": head})
    await send({"type": "http.response.body", "body": b""})


class Fanout:
    """A POST's body is written to every stream at once."""

    def __init__(self) -> None:
        self._streams: set[asyncio.Queue[bytes]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, or one stream."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["method"] == "POST":
            body = await _body(receive)
            for queue in self._streams:
                queue.put_nowait(body)
            await _answer(send, 200, b"{}")
        elif scope["path"] == "/stream":
            await self._stream(receive, send)
        else:
            await _answer(send, 200, b"{}")

    async def _stream(self, receive: Any, send: Any) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._streams.add(queue)
        watch = asyncio.ensure_future(_watch(receive, queue))
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b": hb\n\n", "more_body": True})
        while told := await queue.get():
            await send({"type": "http.response.body", "body": told, "more_body": True})
        self._streams.discard(queue)
        await watch


async def _watch(receive: Any, queue: asyncio.Queue[bytes]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    queue.put_nowait(b"")


async def _live(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def _body(receive: Any) -> bytes:
    parts, more = bytearray(), True
    while more:
        message = await receive()
        parts += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(parts)


async def _answer(send: Any, status: int, body: bytes) -> None:
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


batches = Application()
fanout = Fanout()
