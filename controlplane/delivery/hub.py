"""Streams of one process: what changed, told to everyone who listens, each at its own pace.

One Redis subscription brings hints; once a second the versions are read all the same, so a lost hint heals. What is
told is always read from Postgres. A listener that cannot keep up is cut, and comes back for the whole document.
Dashboards hear of new trips and runs too: that something happened, at most once a second, never what; all pages of an
environment are told the same, by one clock.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import secrets
import time
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
"""After something was told; hints in between are told together."""
QUEUED = 64
"""Events that a listener may be behind before it is cut."""
PAUSE_S = 1.0
BETWEEN_S = 0.25
"""So a page gets at most four signals a second."""
BETWEEN_NEWS_S = 1.0
"""Trips and runs come with nearly every batch of a busy fleet; a page asks for them no oftener than so."""
HEARTBEAT_S = 10.0
HEARTBEAT = b": hb" + b" " * 250 + b"\n\n"
"""Padded, so that no buffer on the way keeps it."""

log = structlog.get_logger(__name__)


def event(name: str, data: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


BYE = event("bye", {})


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """End tasks, asking again where a library has swallowed the first cancellation (Python 3.11's `wait_for` may)."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=0.2)


class Stream:
    """What one stream has still to be told, and a way to end it.

    Thousands are told one thing at once, so this is as little as will do: one reader, one thread, no lock.
    """

    __slots__ = ("_events", "_loop", "_waiting", "end", "told_at")

    def __init__(self, end: Callable[[], object]) -> None:
        self.end = end
        self._loop = asyncio.get_running_loop()
        self._events: collections.deque[bytes] = collections.deque()
        self._waiting: asyncio.Future[None] | None = None
        self.told_at = time.monotonic()

    def tell(self, event: bytes) -> None:
        """Queue an event; too far behind, the stream ends."""
        self.told_at = time.monotonic()
        if len(self._events) >= QUEUED:
            self.end()
            return
        self._events.append(event)
        if (waiting := self._waiting) is not None:
            self._waiting = None
            if not waiting.done():
                waiting.set_result(None)

    async def next(self) -> bytes:
        """The next event, in the order they were told; for one reader."""
        while not self._events:
            self._waiting = self._loop.create_future()
            await self._waiting
        return self._events.popleft()


class Listener(Stream):
    """An agent's, of one environment."""

    __slots__ = ("environment_id", "key_id")

    def __init__(self, environment_id: int, key_id: int, end: Callable[[], object]) -> None:
        super().__init__(end)
        self.environment_id = environment_id
        self.key_id = key_id


@dataclass(frozen=True, slots=True)
class Known:
    """What a page can know of its environment without asking."""

    version: int
    """Rises with every change of a circuit or of config."""
    activity: int
    """Rises with news that no version tells: trips inside agents, and runs."""


class Pages:
    """Dashboards of one environment, or of all: they want to know that something changed, and ask what by themselves.

    All have been told the same, so one event is written for all of them, and one clock keeps the pause in between.
    """

    def __init__(self, known: Callable[[], Known]) -> None:
        self._known = known
        self._told = known()
        self._timer: asyncio.Handle | None = None
        self._stirred = False
        self.streams: set[Stream] = set()

    @property
    def first(self) -> bytes:
        """What a page is told as it comes: the same as all others were last."""
        return event("changed", {"version": self._told.version, "activity": self._told.activity})

    def stir(self) -> None:
        """Something may have changed: tell it at once, or after the pause together with what comes meanwhile."""
        self._stirred = True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_soon(self._tell)

    def close(self) -> None:
        """Nobody is left to tell."""
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self) -> None:
        self._timer = None
        told, known, self._stirred = self._told, self._known(), False
        if known == told:
            return
        news = {"version": known.version} if known.version != told.version else {}
        self._told, written = known, event("changed", {**news, "activity": known.activity})
        for stream in list(self.streams):
            stream.tell(written)
        self._timer = asyncio.get_running_loop().call_later(BETWEEN_S, self._rested)

    def _rested(self) -> None:
        self._timer = None
        if self._stirred:
            self._tell()


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
        self._pages: dict[int | None, Pages] = {}
        self._seen: dict[int, versions.Versions] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._hinted = asyncio.Event()
        self._hints: set[int] = set()
        self._happened = asyncio.Event()
        self._news: set[int] = set()
        self._activity: dict[int, int] = {}
        self._name = secrets.token_hex(4)
        self._redis: Any = None
        self.streams = 0
        self.leaving = False

    def start(self) -> None:
        """Begin to poll, to hear hints, to pass news on, and to beat."""
        self._redis = redis_clients.nonblocking(connections=2)
        jobs = (self._poll(), self._hear(), self._spread(), self._beat())
        self._tasks = [asyncio.create_task(job) for job in jobs]

    async def close(self) -> None:
        """End every stream and stop."""
        self.farewell()
        await cancelled(self._tasks)
        if self._redis is not None:
            await self._redis.aclose()

    def farewell(self) -> None:
        """Say goodbye to every stream; it ends by itself."""
        self.leaving = True
        for stream in self._streams():
            stream.tell(BYE)

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

    @contextlib.asynccontextmanager
    async def watching(self, environment_id: int | None, page: Stream) -> AsyncIterator[bytes]:
        """What a page is told first, and from then on in its queue that something changed: there, or (None) anywhere.

        A page fetches what is newer than itself. News that no version tells come without one: fetch all the same.
        """
        if not self._knows(environment_id):
            await self._looked(await self._threads.run(_look, self._keys()))
        pages = self._pages.setdefault(environment_id, Pages(functools.partial(self._known, environment_id)))
        pages.streams.add(page)
        if self.leaving:
            page.tell(BYE)
        try:
            yield pages.first
        finally:
            pages.streams.discard(page)
            if not pages.streams:
                pages.close()
                self._pages.pop(environment_id, None)

    def _knows(self, environment_id: int | None) -> bool:
        return bool(self._seen) if environment_id is None else environment_id in self._seen

    def _known(self, environment_id: int | None) -> Known:
        of = (lambda kept: kept.values()) if environment_id is None else (lambda kept: [kept.get(environment_id)])
        return Known(
            version=sum(each.circuits for each in of(self._seen) if each),
            activity=sum(each for each in of(self._activity) if each),
        )

    def happened(self, environment_id: int) -> None:
        """There is a new trip or run."""
        self._news.add(environment_id)
        self._happened.set()

    def _streams(self) -> list[Stream]:
        return [*self._listeners(), *(page for pages in self._pages.values() for page in pages.streams)]

    def _listeners(self) -> list[Listener]:
        return [listener for channel in self._channels.values() for listener in channel.listeners]

    async def _poll(self) -> None:
        due = time.monotonic()
        while True:
            self._hinted.clear()
            hints, self._hints = self._hints, set()
            heard = [pk for pk in hints if self._is_heard(pk)]
            due = min(due, time.monotonic()) if len(heard) < len(hints) else due
            rests = bool(hints)
            try:
                if time.monotonic() >= due:
                    due = time.monotonic() + POLL_S
                    rests |= await self._looked(await self._threads.run(_look, self._keys()))
                await asyncio.gather(*[self._caught_up(pk) for pk in heard])
            except DatabaseError as error:
                log.warning("versions_not_read", error=type(error).__name__)
            except Exception:
                log.exception("streams_not_told")
            await asyncio.sleep(BETWEEN_LOOKS_S if rests else 0)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hinted.wait(), max(0.0, due - time.monotonic()))

    def _keys(self) -> list[int]:
        return list({listener.key_id for listener in self._listeners()})

    async def _looked(self, look: Look) -> bool:
        """Act on a look; whether streams had to be told something that no hint had brought."""
        for listener in self._listeners():
            if listener.key_id in look.revoked:
                listener.end()
        for pk in self._seen.keys() - look.versions.keys():
            del self._seen[pk]
        for pk, version in look.versions.items():
            self._note(pk, version)
        behind = [pk for pk in look.versions if self._is_behind(pk)]
        await asyncio.gather(*[self._caught_up(pk) for pk in behind])
        return bool(behind)

    async def _caught_up(self, environment_id: int) -> None:
        """Tell one environment's streams; what fails here is no other's affair, and is tried again at the next look."""
        try:
            newer = await self._read(environment_id)
        except Exception as error:
            log.warning("circuits_not_read", environment=environment_id, error=type(error).__name__)
        else:
            self._note(environment_id, versions.Versions(newer.epoch, newer.config, newer.version))

    def _note(self, environment_id: int, version: versions.Versions) -> None:
        """Remember a version; pages hear of it if it is another than before, or the first that is known."""
        before = self._seen.get(environment_id)
        self._seen[environment_id] = version
        if before != version:
            self._wake(environment_id)

    def _wake(self, environment_id: int) -> None:
        for watched in (environment_id, None):
            if pages := self._pages.get(watched):
                pages.stir()

    def _is_heard(self, environment_id: int) -> bool:
        channel = self._channels.get(environment_id)
        return channel is not None and channel.document is not None

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
        match hint.kind:
            case "flush":
                self._ask_to_flush(hint)
            case "activity" if hint.origin != self._name:
                self._noticed(hint.environment)
            case "circuits" | "config":
                self._hints.add(hint.environment)
                self._hinted.set()

    def _ask_to_flush(self, hint: _Hint) -> None:
        if channel := self._channels.get(hint.environment):
            asked = {"dependencies": hint.dependencies, "within_ms": hint.within_ms}
            self._tell(channel, event("flush", asked))

    def _noticed(self, environment_id: int) -> None:
        self._activity[environment_id] = self._activity.get(environment_id, 0) + 1
        self._wake(environment_id)

    async def _spread(self) -> None:
        """Pass on that something happened: to the pages here at once, to other processes by a hint."""
        while True:
            await self._happened.wait()
            self._happened.clear()
            news, self._news = self._news, set()
            for environment_id in news:
                self._noticed(environment_id)
                await self._hint_others(environment_id)
            await asyncio.sleep(BETWEEN_NEWS_S)

    async def _hint_others(self, environment_id: int) -> None:
        hint = {"kind": "activity", "environment": environment_id, "origin": self._name}
        with contextlib.suppress(redis.RedisError, OSError):  # their pages poll, too
            await self._redis.publish(publish.CHANNEL, msgspec.json.encode(hint))

    async def _beat(self) -> None:
        """A sign of life to every stream that has been quiet; one clock for all of them."""
        while True:
            await asyncio.sleep(HEARTBEAT_S / 10)
            quiet_since = time.monotonic() - 0.9 * HEARTBEAT_S
            for stream in self._streams():
                if stream.told_at <= quiet_since:
                    stream.tell(HEARTBEAT)


class _Hint(msgspec.Struct):
    kind: str
    environment: int
    dependencies: list[str] = []
    within_ms: int = 0
    origin: str = ""


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
