"""The one thread that talks: batches out, documents in, the stream with polling beside it.

It owns the transport and is the only writer of the documents. The outbox is shared with the agent's threads under one
lock that is
never held while anything is sent. Whatever goes wrong on the line is a delay and a line in `status()`, never an
exception.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
import select
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from recloser.cache import DocumentCache
from recloser.config_sync import Copy, Documents, Taken
from recloser.errors import BadDocument, Refused, Unreachable
from recloser.outbox import Outbox
from recloser.transport import STREAM_SILENCE_S, Answer, Stream, Transport, decode
from recloser.wire import fitted

if TYPE_CHECKING:
    import socket

log = logging.getLogger("recloser")

IDLE_S = 20.0
"""A connection that was idle for so long may be dead without a word; a client without a thread does not bet on it."""
GATHER_S = 0.02
"""A failure waits this long for its neighbours; the protocol allows 50 ms."""
HEARTBEAT_S = 60.0
SLOWED_S = 60.0
BATCH_PATH, CONFIG_PATH, CIRCUITS_PATH, STREAM_PATH = "/batch", "/config", "/circuits", "/stream"


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the link talks, in seconds; the server may change `flush_s`."""

    flush_s: float = 2.0
    poll_config_s: float = 15.0
    poll_circuits_s: float = 5.0
    poll_live_s: float = 60.0
    retry_base_s: float = 0.5
    retry_cap_s: float = 30.0
    stream_base_s: float = 15.0
    stream_cap_s: float = 45.0
    silence_s: float = STREAM_SILENCE_S
    save_circuits_s: float = 30.0
    held_back_s: float = 10.0
    """An event that is older than this when it arrives was held back on the way: the stream is not live."""


class Desk(Protocol):
    """What the link asks of the client: move finished calls into the outbox, describe this process."""

    def fold(self) -> None:
        """Move finished calls into the outbox."""

    def about(self) -> dict[str, Any]:
        """What every batch says of this process."""
        ...

    @property
    def asks_for_probes(self) -> bool:
        """Is there something to say of probes, though nothing else waits?"""
        ...

    def attended(self, told: Iterable[Mapping[str, Any]], offers: Any) -> None:
        """These results of probes were taken, and these probes are offered."""
        ...

    def wake_up(self) -> bool:
        """Look whether the process slept, and at the override file; True after a sleep."""
        ...


class BackOff:
    """Exponential back-off with full jitter: any delay up to a doubling bound, so that a fleet spreads by itself."""

    def __init__(self, base_s: float, cap_s: float) -> None:
        self._base_s = base_s
        self._cap_s = cap_s
        self._failures = 0

    def next(self) -> float:
        """How long to wait after one more failure."""
        bound = min(self._cap_s, self._base_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return random.uniform(0.0, bound)  # noqa: S311 spreads load, keeps no secret

    def reset(self) -> None:
        """It worked."""
        self._failures = 0


@dataclass(slots=True)
class Poll:
    """One document that is asked for: where, into which copy, and when next."""

    path: str
    due_at: float = 0.0

    def soon(self, at: float) -> None:
        """Ask at that instant at the latest."""
        self.due_at = min(self.due_at, at)


class Link:
    """The thread, its timers and its stream. `start`, `wake`, `urgent`, `flush`, `stop` are for any thread."""

    def __init__(
        self,
        transport: Transport,
        documents: Documents,
        outbox: Outbox,
        lock: threading.RLock,
        desk: Desk,
        cache: DocumentCache,
        pace: Pace,
    ) -> None:
        self._transport = transport
        self._documents = documents
        self._outbox = outbox
        self._lock = lock
        self._desk = desk
        self._cache = cache
        self._pace = pace
        self.flush_s = pace.flush_s
        self.problem: str | None = None
        self.notes: dict[str, str] = {}
        self._line = BackOff(pace.retry_base_s, pace.retry_cap_s)
        self._storage = BackOff(pace.retry_base_s, pace.retry_cap_s)
        self._reconnect = BackOff(pace.stream_base_s, pace.stream_cap_s)
        self._config, self._circuits = Poll(CONFIG_PATH), Poll(CIRCUITS_PATH)
        self._closed_until = 0.0
        self._batch_not_before = 0.0
        self._urgent_at = math.inf
        self._flush_at = 0.0
        self._beat_at = 0.0
        self._cut_at = 0.0
        self._save_at = math.inf
        self._stream: Stream | None = None
        self._stream_at = 0.0
        self._stream_heard_at = 0.0
        self._stream_live = False
        self._stream_told = False
        self._compress = True
        self._told_dropped = False
        self._settled = threading.Condition()
        self._settled_at = -math.inf
        self._stopping = False
        self._woken = False
        self._reader: socket.socket | None = None
        self._writer: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._errand = threading.Lock()
        self._used_at = -math.inf
        self._timed = False
        self.last_batch_at: float | None = None

    @property
    def feed(self) -> str:
        """`live` while the stream speaks, else `polling`."""
        return "live" if self._stream_live else "polling"

    @property
    def running(self) -> bool:
        """Does the thread live in this process?"""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread; a process that may not start one any more works on what it has."""
        import socket

        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="recloser", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as problem:  # the interpreter is going down
            self._thread = None
            self._say(f"no thread can be started: {problem}")

    def wake(self) -> None:
        """Let the thread look at its timers now."""
        if not self._woken and self._writer is not None:
            self._woken = True
            with contextlib.suppress(OSError):
                self._writer.send(b"!")

    def urgent(self, now: float, within_s: float = GATHER_S) -> None:
        """Something must be told within so many seconds."""
        if now + within_s < self._urgent_at:
            self._urgent_at = now + within_s
            self.wake()

    def flush(self, timeout_s: float) -> bool:
        """Send all that is known now; True when it is acknowledged in time."""
        if not self.running:
            return False
        asked = time.monotonic()
        self._closed_until = self._batch_not_before = 0.0
        self.urgent(asked, 0.0)
        with self._settled:
            return self._settled.wait_for(lambda: self._settled_at >= asked, timeout_s)

    def errand(self, timeout_s: float, *, insist: bool, documents: bool = True, batches: bool = True) -> bool:
        """Without the thread: fetch the documents that are due and send what waits, within so many seconds.

        After a failure it leaves the line alone for a while, as the thread would, unless it is told to `insist`; then
        it tries until the time is over. True when everything known is acknowledged. One errand at a time.
        """
        asked = time.monotonic()
        end = asked + timeout_s
        if not self._errand.acquire(timeout=timeout_s):
            return False
        try:
            if self._desk.wake_up() or asked - self._used_at > IDLE_S:
                self._transport.close()
            if insist:
                self._closed_until = self._batch_not_before = 0.0
            for poll in (self._config, self._circuits) if documents else ():
                if self._open_until(end) and time.monotonic() >= poll.due_at:
                    self._fetch(poll)
            while batches and self._settled_at < asked and self._open_until(end, insist):
                if time.monotonic() < self._batch_not_before:
                    if not insist:
                        break
                    time.sleep(max(0.0, min(self._batch_not_before, end) - time.monotonic()))
                    continue
                self._send()
            self._save()
            return self._settled_at >= asked
        finally:
            self._used_at = time.monotonic()
            self._errand.release()

    def _open_until(self, end: float, insist: bool = False) -> bool:
        """Is there time left on a line that is not closed? Gives what is left to the next request."""
        now = time.monotonic()
        if insist and now < self._closed_until < end:
            time.sleep(self._closed_until - now)
            now = time.monotonic()
        if now >= end or now < self._closed_until:
            return False
        self._transport.within(end - now)
        return True

    def due_since(self, config_at: float | None, circuits_at: float | None) -> None:
        """Documents of an earlier life that are young enough need not be asked for at once."""
        if config_at is not None:
            self._config.due_at = config_at + self._pace.poll_config_s
        if circuits_at is not None:
            self._circuits.due_at = circuits_at + self._pace.poll_circuits_s

    def stop(self, timeout_s: float) -> None:
        """End the thread; what it holds open is closed by itself."""
        self._stopping = True
        self.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        elif self._thread is None:
            self._transport.close()

    def abandon(self) -> None:
        """In a forked child: give up the parent's sockets without a word to their other ends."""
        if self._stream is not None:
            self._stream.abandon()
        self._transport.abandon()
        self._close_pair()

    def _close_pair(self) -> None:
        for end in (self._reader, self._writer):
            if end is not None:
                end.close()

    # The loop

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._turn()
            except Exception as problem:
                log.exception("recloser: the link stumbled; it goes on")
                self._say(f"internal: {type(problem).__name__}: {problem}"[:200])
                time.sleep(1.0)
        self._close_stream()
        self._transport.close()
        self._close_pair()

    def _turn(self) -> None:
        if self._desk.wake_up():
            self._transport.close()
            if self._stream is not None:
                self._lose_stream("the process slept")
        now = time.monotonic()
        self._tidy(now)
        if now >= self._batch_due():
            self._send()
        for poll in (self._config, self._circuits):
            if not self._stopping and time.monotonic() >= max(poll.due_at, self._closed_until):
                self._fetch(poll)
        self._mind_stream(time.monotonic())
        self._wait()

    def _batch_due(self) -> float:
        return max(min(self._urgent_at, self._flush_at), self._batch_not_before, self._closed_until)

    def _wait(self) -> None:
        """Sleep until the next timer, a wake-up or something on the stream."""
        assert self._reader is not None
        now = time.monotonic()
        polls = max(min(self._config.due_at, self._circuits.due_at), self._closed_until)
        if self._stream is None:
            streaming = max(self._stream_at, self._closed_until)
        else:
            streaming = self._stream_heard_at + self._pace.silence_s
        wake_at = min(self._batch_due(), polls, streaming, max(self._cut_at, now), self._save_at)
        ready = _readable(self._reader, self._stream, max(0.0, min(wake_at - now, 60.0)))
        if self._reader in ready:
            self._woken = False
            with contextlib.suppress(OSError):
                self._reader.recv(4096)
        if self._stream is not None and self._stream in ready:
            self._hear()

    def _tidy(self, now: float) -> None:
        """Close slices in time, so that what could not be sent keeps its place in time; save documents."""
        if now >= self._cut_at:
            self._cut_at = now + max(self.flush_s, 1.0)
            with self._lock:
                self._desk.fold()
                if self._outbox.in_flight is not None:
                    self._outbox.cut(now, self._documents.snapshot.config.circuit_policy.window_s)
        if now >= self._save_at:
            self._save()

    def _save(self) -> None:
        """Keep the documents on disk, where there is anything new."""
        if self._save_at < math.inf:
            self._save_at = math.inf
            documents = self._documents.saved()
            if documents is not None:
                self._cache.save(documents)

    # Batches

    def _send(self) -> None:
        self._urgent_at = math.inf  # first this, then the clock: who asks from here on is served by the next batch
        now = time.monotonic()
        self._flush_at = now + self.flush_s
        with self._lock:
            self._desk.fold()
            batch = self._outbox.seal(beat=now >= self._beat_at or self._desk.asks_for_probes)
            if batch is None:
                return self._is_settled(now)
            sealed_at = now if batch.fresh else batch.sealed_at
            batch.fresh, batch.sealed_at = False, sealed_at
            raw = {**self._desk.about(), **batch.to_wire(now)}
        body = fitted(raw)
        self._beat_at = now + HEARTBEAT_S
        try:
            answer = self._transport.post(BATCH_PATH, body, compress=self._compress)
            told = decode(answer.body)
            acknowledged = int(told["ack"]) >= batch.seq
        except Refused as refused:
            return self._refused(refused)
        except (Unreachable, ValueError, LookupError, TypeError, RecursionError) as problem:
            self._unreachable(problem)
            self._urgent_at = self._closed_until  # what is in flight waits for no flush
            return None
        self._answered()
        self._batch_not_before = 0.0
        if not acknowledged:
            return self._restart("the control plane does not know this session's numbers")
        self._storage.reset()
        self.last_batch_at = time.monotonic()
        with self._lock:
            self._outbox.acknowledge(int(told["ack"]))
            more = self._outbox.full
        if more:
            self._urgent_at = now
        else:
            self._is_settled(sealed_at)
        self._told(told)
        self._desk.attended(raw.get("probes") or (), told.get("probes"))

    def _told(self, told: dict[str, Any]) -> None:
        """Use what the answer to a batch says beside the acknowledgement; nothing of it is required."""
        now = time.monotonic()
        flush_s = told.get("flush_s")
        if isinstance(flush_s, int | float) and math.isfinite(flush_s):
            self.flush_s = min(max(float(flush_s), 0.05), 600.0)
            self._flush_at = now + self.flush_s
        for note in told.get("notes") or ():
            self._note(note)
        with contextlib.suppress(BadDocument):
            if self._documents.take_entries(told, now=now):
                self._circuits.soon(now + _upto(1.0))
        self._config_at(told.get("config"), now)
        self._flush_for(told.get("flush_now"), 0.1, now)

    def _note(self, note: Any) -> None:
        if isinstance(note, dict) and isinstance(note.get("code"), str) and len(self.notes) < 20:
            code, message = note["code"][:64], str(note.get("message"))[:300]
            if self.notes.get(code) != message:
                self.notes[code] = message
                log.warning("recloser: the control plane says %s: %s", code, message)

    def _flush_for(self, dependencies: Any, within_s: float, now: float) -> None:
        if not isinstance(dependencies, list) or not dependencies:
            return
        with self._lock:
            self._desk.fold()
            held = self._outbox.holds(str(name) for name in dependencies)
        if held:
            self._urgent_at = min(self._urgent_at, now + _upto(within_s))

    def _refused(self, refused: Refused) -> None:
        """A no to a batch: mend what can be mended with the same number, wait for the rest."""
        self._line.reset()
        again = False
        with self._lock:
            match refused.status:
                case 409:
                    return self._restart(str(refused))
                case 413:
                    again = self._outbox.split()
                case 422:
                    again = self._outbox.drop(refused.field)
                case 400 | 415 if self._compress:
                    self._compress, self._urgent_at = False, time.monotonic()
                    return
                case 400 if self._halved(refused):
                    self._batch_not_before = time.monotonic() + self._storage.next()
                    return
        self._say(str(refused))
        now = time.monotonic()
        if again:
            self._urgent_at = now
        elif refused.status == 401:
            self._closed_until = now + SLOWED_S * random.uniform(0.9, 1.1)  # noqa: S311
        elif refused.status in (429, 503) or refused.status >= 500:
            self._batch_not_before = now + (refused.retry_after_s or 0.0) + self._storage.next()
            self._urgent_at = self._batch_not_before  # what is in flight waits for no flush
        else:
            self._batch_not_before = now + SLOWED_S

    def _halved(self, refused: Refused) -> bool:
        """After a 400: look for the one entry that cannot be read, drop it, and say so once. The rest is not lost."""
        before = self._outbox.dropped
        if not self._outbox.split():
            return False
        if self._outbox.dropped > before and not self._told_dropped:
            self._told_dropped = True
            log.warning("recloser: an entry that the control plane cannot read was dropped (%s)", refused)
        return True

    def _restart(self, why: str) -> None:
        self._say(why)
        with self._lock:
            self._outbox.restart()
        self._batch_not_before = time.monotonic() + _upto(1.0)

    def _is_settled(self, at: float) -> None:
        with self._settled:
            self._settled_at = max(self._settled_at, at)
            self._settled.notify_all()

    # Documents

    def _fetch(self, poll: Poll) -> None:
        copy = self._copy(poll)
        sent, now = copy.etag, time.monotonic()
        self._postpone(poll, now)
        try:
            answer = self._transport.get(poll.path, etag=sent)
            self._take(poll, answer, sent)
        except Refused as refused:
            copy.fail(str(refused), now)
            self._slow_down(poll, refused)
        except Unreachable as problem:
            copy.fail(str(problem), now)
            self._unreachable(problem)
        except (BadDocument, ValueError, RecursionError) as problem:
            copy.fail(f"the document cannot be used: {problem}"[:300], now)
            self._say(f"{poll.path}: {copy.problem}")

    def _take(self, poll: Poll, answer: Answer, sent: str | None) -> None:
        now = time.monotonic()
        if answer.status == 304:
            if not self._documents.unchanged(self._copy(poll), sent, now):
                poll.soon(now + _upto(1.0))
        elif poll is self._config:
            if self._documents.take_config(decode(answer.body), etag=answer.etag, now=now) is Taken.APPLIED:
                self._save_at = now
        else:
            if self._documents.take_circuits(decode(answer.body), etag=answer.etag, now=now) is Taken.APPLIED:
                self._save_circuits(now)
            self._timed = True
            self._stream_told = self._stream_live
        self._answered()

    def _save_circuits(self, now: float) -> None:
        self._save_at = min(self._save_at, now + self._pace.save_circuits_s)

    def _copy(self, poll: Poll) -> Copy:
        return self._documents.config if poll is self._config else self._documents.circuits

    def _postpone(self, poll: Poll, now: float) -> None:
        usual = self._pace.poll_config_s if poll is self._config else self._pace.poll_circuits_s
        interval = max(usual, self._pace.poll_live_s) if self._stream_live else usual
        poll.due_at = now + interval * random.uniform(0.8, 1.2)  # noqa: S311

    def _slow_down(self, poll: Poll, refused: Refused) -> None:
        now = time.monotonic()
        self._say(str(refused))
        if refused.status == 401:
            self._closed_until = now + SLOWED_S * random.uniform(0.9, 1.1)  # noqa: S311
        elif refused.status in (403, 404):
            poll.due_at = now + SLOWED_S * random.uniform(0.9, 1.1)  # noqa: S311
        else:
            poll.due_at = max(poll.due_at, now + (refused.retry_after_s or 0.0) + _upto(1.0))

    def _config_at(self, version: Any, now: float) -> None:
        """The server runs another config than we do: fetch it, not everybody at once."""
        held = self._documents.config.version
        if not isinstance(version, list) or len(version) != 2 or held == tuple(version):
            return
        if held is not None and held[0] == version[0] and isinstance(version[1], int) and version[1] < held[1]:
            return
        self._config.soon(now + _upto(1.0))

    # The stream

    def _mind_stream(self, now: float) -> None:
        if self._stream is None:
            if now >= max(self._stream_at, self._closed_until) and not self._stopping:
                self._connect(now)
        elif now - self._stream_heard_at >= self._pace.silence_s:
            self._lose_stream("the stream fell silent")

    def _connect(self, now: float) -> None:
        try:
            self._stream = self._transport.stream(STREAM_PATH)
        except Unreachable as problem:
            self._stream_at = now + self._reconnect.next()
            self._unreachable(problem)
            return
        self._stream_heard_at = time.monotonic()
        self._stream_told = False

    def _hear(self) -> None:
        assert self._stream is not None
        try:
            for event, data in self._stream.events():
                self._stream_live = True
                self._stream_heard_at = time.monotonic()
                self._handle(event, data)
                if self._stream is None:
                    return
        except Unreachable as problem:
            self._lose_stream(str(problem))
        except Refused as refused:
            self._lose_stream(str(refused))
            if refused.status == 401:
                self._closed_until = time.monotonic() + SLOWED_S
            elif refused.status in (403, 404):
                self._stream_at = time.monotonic() + SLOWED_S * 5
            elif refused.retry_after_s:
                self._stream_at += refused.retry_after_s

    def _handle(self, event: str, data: str) -> None:
        now = time.monotonic()
        try:
            told: Any = decode(data.encode()) if data else None
            if event in ("circuits", "delta") and self._held_back(told, now):
                return self._lose_stream("something on the way holds the stream back")
            match event:
                case "circuits":
                    self._documents.take_circuits(told, etag=None, now=now)
                    self._stream_told = True
                    self._reconnect.reset()
                    self._postpone(self._circuits, now)
                    self._save_circuits(now)
                case "delta":
                    if self._documents.take_delta(told, now=now) is Taken.GAP:
                        self._behind(now)
                    else:
                        self._save_circuits(now)
                        self._ask_for_probes(now)
                case "config":
                    self._config_at([told.get("epoch"), told.get("version")], now)
                case "flush":
                    self._flush_for(told.get("dependencies"), min(told.get("within_ms", 200), 2000) / 1000.0, now)
                case "bye":
                    self._lose_stream("the control plane said good-bye")
                case "" if self._stream_told:
                    self._documents.heartbeat(now)
        except (BadDocument, ValueError, TypeError, AttributeError, RecursionError) as problem:
            self._say(f"the stream said what cannot be used: {problem}"[:300])
            self._behind(now)

    def _ask_for_probes(self, now: float) -> None:
        """A circuit has moved: a willing process asks soon whether it is to probe, not everybody at once."""
        if self._desk.asks_for_probes:
            self._urgent_at = min(self._urgent_at, now + _upto(0.5))

    def _held_back(self, told: Any, now: float) -> bool:
        """Is it old news? Only an answer to a request tells the server's time well enough to know."""
        made_at = told.get("now") if isinstance(told, dict) else None
        if not self._timed or isinstance(made_at, bool) or not isinstance(made_at, int | float):
            return False
        held = self._documents.circuits.version
        if held is None or told.get("epoch") != held[0]:
            return False
        return self._documents.snapshot.server_now(now) - made_at > self._pace.held_back_s

    def _behind(self, now: float) -> None:
        """Something was missed: ask for the whole, with jitter, and do not call what is held current meanwhile."""
        self._stream_told = False
        self._circuits.soon(now + _upto(1.0))

    def _lose_stream(self, why: str) -> None:
        now = time.monotonic()
        self._close_stream()
        self._stream_at = now + self._reconnect.next()
        self._circuits.soon(now + _upto(self._pace.poll_circuits_s))
        self._config.soon(now + _upto(self._pace.poll_config_s))
        log.info("recloser: %s; polling", why)

    def _close_stream(self) -> None:
        stream, self._stream, self._stream_live = self._stream, None, False
        if stream is not None:
            stream.close()

    # What is said about the line

    def _answered(self) -> None:
        self._line.reset()
        self._closed_until = 0.0
        if self.problem is not None:
            log.info("recloser: the control plane answers again")
            self.problem = None

    def _unreachable(self, problem: Exception) -> None:
        now = time.monotonic()
        self._closed_until = now + self._line.next()
        for poll in (self._config, self._circuits):
            if now >= poll.due_at:  # due, and behind a batch that takes each attempt for itself
                self._copy(poll).fail(str(problem), now)
        self._say(f"no answer from the control plane: {problem}"[:300])

    def _say(self, problem: str) -> None:
        if self.problem != problem:
            self.problem = problem
            log.warning("recloser: %s", problem)


def _readable(reader: socket.socket, stream: Stream | None, timeout_s: float) -> Iterable[Any]:
    """Which of the two can be read. `poll` where there is one: `select` fails in a process with many files."""
    watched: list[Any] = [reader] if stream is None else [reader, stream]
    if sys.platform == "win32":
        return select.select(watched, [], [], timeout_s)[0]
    poll = select.poll()
    for one in watched:
        poll.register(one, select.POLLIN | select.POLLHUP | select.POLLERR)
    ready = {handle for handle, _ in poll.poll(math.ceil(timeout_s * 1000))}
    return [one for one in watched if one.fileno() in ready]


def _upto(seconds: float) -> float:
    return random.uniform(0.0, seconds)  # noqa: S311 spreads load, keeps no secret
