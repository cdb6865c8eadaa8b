"""Streams of one process: what changed, told to everyone who listens, each at its own pace.

One Redis subscription brings hints; once a second the versions are read all the same, so a lost hint heals. What is
told is always read from Postgres. A listener that cannot keep up is cut, and comes back for the whole document.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import redis
import structlog
from django.db import Error as DatabaseError

from controlplane import redis_clients
from controlplane.delivery import documents, publish, versions
from controlplane.delivery.documents import Circuits
from controlplane.models import AgentKey
from controlplane.threads import Threads

POLL_S = 1.0
BETWEEN_LOOKS_S = 0.1
"""Hints in between are told together."""
QUEUED = 64
"""Events that a listener may be behind before it is cut."""
PAUSE_S = 1.0

log = structlog.get_logger(__name__)


def event(name: str, data: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


BYE = event("bye", {})


class Listener:
    """One stream of one environment: its queue, and a way to end it."""

    def __init__(self, environment_id: int, key_id: int, end: Callable[[], object]) -> None:
        self.environment_id = environment_id
        self.key_id = key_id
        self.end = end
        self.events: asyncio.Queue[bytes] = asyncio.Queue(QUEUED)

    def tell(self, event: bytes) -> None:
        """Queue an event; too far behind, the stream ends."""
        try:
            self.events.put_nowait(event)
        except asyncio.QueueFull:
            self.end()


class Watcher:
    """A dashboard: it only wants to know that something changed, in one environment or (None) in any."""

    def __init__(self, environment_id: int | None) -> None:
        self.environment_id = environment_id
        self.changed = asyncio.Event()
        self.leaving = False


@dataclass
class _Channel:
    """One environment as this process knows it."""

    document: Circuits | None = None
    listeners: set[Listener] = field(default_factory=set)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class Look:
    """What one poll brings."""

    versions: Mapping[int, versions.Versions]
    revoked: frozenset[int]


class Hub:
    """Everyone who listens to this process."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._channels: dict[int, _Channel] = {}
        self._watchers: set[Watcher] = set()
        self._seen: dict[int, versions.Versions] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._hinted = asyncio.Event()
        self.streams = 0
        self.leaving = False

    def start(self) -> None:
        """Begin to poll and to hear hints."""
        self._tasks = [asyncio.create_task(self._poll()), asyncio.create_task(self._hear())]

    async def close(self) -> None:
        """End every stream and stop."""
        self.farewell()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def farewell(self) -> None:
        """Say goodbye to every stream; it ends by itself."""
        self.leaving = True
        for listener in self._listeners():
            listener.tell(BYE)
        for watcher in self._watchers:
            watcher.leaving = True
            watcher.changed.set()

    @contextlib.asynccontextmanager
    async def listening(self, listener: Listener) -> AsyncIterator[Circuits]:
        """The document as it stands, and from then on every change of it in the listener's queue."""
        channel = self._channels.setdefault(listener.environment_id, _Channel())
        document = channel.document or await self._read(listener.environment_id)
        channel.document = document = channel.document or document
        channel.listeners.add(listener)
        self.streams += 1
        try:
            yield document
        finally:
            self.streams -= 1
            channel.listeners.discard(listener)
            if not channel.listeners:
                channel.document = None

    @contextlib.contextmanager
    def watching(self, watcher: Watcher) -> Any:
        """Wake the watcher at every change."""
        self._watchers.add(watcher)
        try:
            yield
        finally:
            self._watchers.discard(watcher)

    def version(self, environment_id: int | None) -> int:
        """A number that rises with every change that a watcher of it would see."""
        seen = self._seen.values() if environment_id is None else [self._seen.get(environment_id)]
        return sum(each.circuits for each in seen if each)

    def _listeners(self) -> list[Listener]:
        return [listener for channel in self._channels.values() for listener in channel.listeners]

    async def _poll(self) -> None:
        while True:
            self._hinted.clear()
            try:
                await self._looked(await self._threads.run(_look, self._keys()))
            except DatabaseError as error:
                log.warning("versions_not_read", error=type(error).__name__)
            except Exception:
                log.exception("streams_not_told")
            await asyncio.sleep(BETWEEN_LOOKS_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hinted.wait(), POLL_S - BETWEEN_LOOKS_S)

    def _keys(self) -> list[int]:
        return list({listener.key_id for listener in self._listeners()})

    async def _looked(self, look: Look) -> None:
        for listener in self._listeners():
            if listener.key_id in look.revoked:
                listener.end()
        changed = {pk for pk, version in look.versions.items() if self._seen.get(pk) not in (None, version)}
        self._seen = dict(look.versions)
        for watcher in self._watchers:
            if changed and watcher.environment_id in (None, *changed):
                watcher.changed.set()
        await asyncio.gather(*[self._caught_up(pk) for pk in look.versions if self._is_behind(pk)])

    async def _caught_up(self, environment_id: int) -> None:
        """Tell one environment's streams; what fails here is no other's affair, and is tried again at the next look."""
        try:
            await self._read(environment_id)
        except Exception as error:
            log.warning("circuits_not_read", environment=environment_id, error=type(error).__name__)

    def _is_behind(self, environment_id: int) -> bool:
        channel, version = self._channels.get(environment_id), self._seen[environment_id]
        return channel is not None and channel.document is not None and _behind(channel.document, version)

    async def _read(self, environment_id: int) -> Circuits:
        channel = self._channels[environment_id]
        async with channel.lock:
            older = channel.document
            channel.document = newer = await self._threads.run(documents.circuits, environment_id)
            if older is not None:
                for told in _news(older, newer):
                    self._tell(channel, told)
        return newer

    def _tell(self, channel: _Channel, told: bytes) -> None:
        for listener in list(channel.listeners):
            listener.tell(told)

    async def _hear(self) -> None:
        while True:
            client = redis_clients.nonblocking(answer_s=None, connections=2)
            try:
                await self._subscribed(client)
            except (redis.RedisError, OSError) as error:
                log.warning("hints_not_heard", error=type(error).__name__)
            finally:
                await client.aclose()
            await asyncio.sleep(PAUSE_S)

    async def _subscribed(self, client: Any) -> None:
        async with client.pubsub(ignore_subscribe_messages=True) as subscription:
            await subscription.subscribe(publish.CHANNEL)
            async for message in subscription.listen():
                self._hint(message["data"])

    def _hint(self, data: bytes) -> None:
        try:
            hint = msgspec.json.decode(data, type=_Hint)
        except msgspec.DecodeError:
            return
        if hint.kind == "flush":
            self._ask_to_flush(hint)
        else:
            self._hinted.set()

    def _ask_to_flush(self, hint: _Hint) -> None:
        if channel := self._channels.get(hint.environment):
            asked = {"dependencies": hint.dependencies, "within_ms": hint.within_ms}
            self._tell(channel, event("flush", asked))


class _Hint(msgspec.Struct):
    kind: str
    environment: int
    dependencies: list[str] = []
    within_ms: int = 0


def _behind(document: Circuits, version: versions.Versions) -> bool:
    return (document.epoch, document.config, document.version) != (version.epoch, version.config, version.circuits)


def _news(older: Circuits, newer: Circuits) -> list[bytes]:
    """What a listener that has the older document must hear."""
    now_s = newer.read_at.timestamp()
    told = []
    if (delta := newer.delta(older, now_s)) is not None:
        told.append(event("delta", delta))
    elif newer.etag != older.etag:
        told.append(event("circuits", newer.wire(now_s)))
    if (newer.epoch, newer.config) != (older.epoch, older.config):
        told.append(event("config", {"epoch": newer.epoch, "version": newer.config}))
    return told


def _look(key_ids: Iterable[int]) -> Look:
    asked = set(key_ids)
    valid = AgentKey.objects.filter(pk__in=asked, revoked_at__isnull=True).values_list("pk", flat=True)
    return Look(
        versions=versions.all_known(),
        revoked=frozenset(asked.difference(valid)),
    )
