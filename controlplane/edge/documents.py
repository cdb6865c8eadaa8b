"""GET config and circuits: one look at the version, and the document that this process has packed for it."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass, field

import msgspec

from controlplane import clock
from controlplane.delivery import documents
from controlplane.delivery.documents import Circuits, Document
from controlplane.edge.database import Pool
from controlplane.edge.http import Headers, Send, answer, not_modified
from controlplane.services.ingest import Caller
from controlplane.threads import Threads

_VERSION = f"""
SELECT epoch, config, circuits, extract(epoch FROM {clock.STATEMENT_TIME})::float8 AS now
FROM controlplane_documentversion WHERE environment_id = %(environment)s
"""  # noqa: S608 (nothing but our own constant is put in)
SMALL = 1024
TURNS = 6
"""Of the event loop between two looks: those just served answer, others come, and the next look serves them all."""


Version = tuple[str, int, int, float]
"""Epoch, config, circuits, and database time in seconds."""


class Looks:
    """Reads of an environment's version: one serves everyone who asked before it began, and nobody who asked later."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._next: dict[int, asyncio.Future[Version]] = {}
        self._looking: dict[int, asyncio.Task[None]] = {}

    async def version(self, environment_id: int) -> Version:
        """The version as it stands now. Who shared a look with a request that is broken off looks anew."""
        while True:
            look = self._next.get(environment_id)
            if look is None or look.done():
                look = self._begin(environment_id)
            try:
                return await look
            except asyncio.CancelledError:
                if not look.cancelled() or _is_broken_off():
                    raise

    def _begin(self, environment_id: int) -> asyncio.Future[Version]:
        look: asyncio.Future[Version] = asyncio.get_running_loop().create_future()
        self._next[environment_id] = look
        if environment_id not in self._looking:
            self._looking[environment_id] = asyncio.create_task(self._look(environment_id))
        return look

    async def _look(self, environment_id: int) -> None:
        try:
            while look := self._next.pop(environment_id, None):
                try:
                    found = await self._read(environment_id)
                except Exception as error:
                    if not look.done():
                        look.set_exception(error)
                else:
                    if not look.done():
                        look.set_result(found)
                for _ in range(TURNS):
                    await asyncio.sleep(0)
        finally:
            del self._looking[environment_id]

    async def _read(self, environment_id: int) -> Version:
        async with self._pool.connection() as connection:
            asked = {"environment": environment_id, "now": clock.substitute()}
            cursor = await connection.execute(_VERSION, asked, prepare=True)
            row = await cursor.fetchone()
        return (row["epoch"], row["config"], row["circuits"], row["now"]) if row else ("", 0, 0, 0.0)


def _is_broken_off() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@dataclass(slots=True)
class Documents:
    """What this process has read and packed, by environment and agent."""

    looks: Looks
    threads: Threads
    _configs: dict[tuple[int, int], tuple[tuple[str, int], Document]] = field(default_factory=dict)
    _circuits: dict[int, Circuits] = field(default_factory=dict)

    async def config(self, caller: Caller, headers: Headers, send: Send) -> None:
        """The caller's config, or 304."""
        document = await self._config(caller)
        if _still_holds(headers, document.etag):
            await not_modified(send, document.etag)
        elif _takes_gzip(headers):
            await _send_packed(send, document.gzipped, document.etag)
        else:
            await _send_plain(send, document.body, document.etag)

    async def circuits(self, caller: Caller, headers: Headers, send: Send) -> None:
        """All circuits of the caller's environment, as of now, or 304."""
        document, now_s = await self._current(caller.environment_id)
        if _still_holds(headers, document.etag):
            await not_modified(send, document.etag)
            return
        body = msgspec.json.encode(document.wire(now_s))
        if _takes_gzip(headers) and len(body) > SMALL:
            await _send_packed(send, gzip.compress(body, 3), document.etag)
        else:
            await _send_plain(send, body, document.etag)

    async def _config(self, caller: Caller) -> Document:
        epoch, config, _, _ = await self.looks.version(caller.environment_id)
        kept = self._configs.get((caller.environment_id, caller.agent_id))
        if kept is None or kept[0] != (epoch, config):
            document = await self.threads.run(documents.config, caller.environment_id, caller.agent_id)
            kept = self._configs[caller.environment_id, caller.agent_id] = ((epoch, config), document)
        return kept[1]

    async def _current(self, environment_id: int) -> tuple[Circuits, float]:
        epoch, config, circuits, now_s = await self.looks.version(environment_id)
        kept = self._circuits.get(environment_id)
        if kept is None or (kept.epoch, kept.config, kept.version) != (epoch, config, circuits):
            kept = self._circuits[environment_id] = await self.threads.run(documents.circuits, environment_id)
            now_s = kept.read_at.timestamp()
        return kept, now_s


def _still_holds(headers: Headers, etag: str) -> bool:
    asked = headers.get(b"if-none-match", b"").decode("latin-1")
    return asked == etag or etag in [each.strip().removeprefix("W/") for each in asked.split(",")]


def _takes_gzip(headers: Headers) -> bool:
    offers = [each.strip().replace(b" ", b"") for each in headers.get(b"accept-encoding", b"").lower().split(b",")]
    return any(each.split(b";")[0] == b"gzip" and not each.endswith(b";q=0") for each in offers)


async def _send_packed(send: Send, body: bytes, etag: str) -> None:
    named = {b"etag": etag.encode(), b"content-encoding": b"gzip", b"vary": b"accept-encoding, authorization"}
    await answer(send, 200, body, named)


async def _send_plain(send: Send, body: bytes, etag: str) -> None:
    await answer(send, 200, body, {b"etag": etag.encode(), b"vary": b"accept-encoding, authorization"})
