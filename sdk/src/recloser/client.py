"""The client: what one process knows of the fleet, and what it tells. All of it works without a control plane, too."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import random
import socket
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recloser.cache import DocumentCache, default_directory
from recloser.classify import Reading
from recloser.config_sync import Copy, DependencyRule, Documents, Snapshot, Source, ToolRule
from recloser.core.types import FAILURES, Action, Delivery, Outcome, Scope
from recloser.core.window import is_slow
from recloser.errors import BadAddress, BadDocument
from recloser.link import Link, Pace
from recloser.outbox import Outbox, Slice, clean, new_id
from recloser.report import RunReport, TripReport
from recloser.run import Run, Seen, StepLine
from recloser.transport import Transport
from recloser.version import __version__
from recloser.worker import WorkerBreakers, WorkerTrip

log = logging.getLogger("recloser")

AT_EXIT_S = 2.0


class Client:
    """One process's line to the control plane, and its own breakers.

    `url` and `key` come from RECLOSER_URL and RECLOSER_KEY where they are not given; without them, or with an address
    that cannot be used, everything works locally on built-in defaults, and a warning says so once. Nothing is
    contacted by the constructor itself. `cache_dir` holds the last good documents (False: none). `bootstrap` is a
    config document shipped with the application, used until anything newer is known. Safe to use from many threads
    and over fork; one per process is enough.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        agent: str | None = None,
        instance: str | None = None,
        environment: str | None = None,
        cache_dir: str | Path | bool | None = None,
        bootstrap: Mapping[str, Any] | None = None,
        timeout_s: float = 5.0,
        pace: Pace | None = None,
    ) -> None:
        self.agent = agent
        self.environment = environment or os.environ.get("RECLOSER_ENVIRONMENT") or None
        self.instance = instance or os.environ.get("RECLOSER_INSTANCE") or _host()
        self._url = url or os.environ.get("RECLOSER_URL") or ""
        self._key = key or os.environ.get("RECLOSER_KEY") or ""
        self._timeout_s = timeout_s
        self._pace = pace or Pace()
        self.local_because = _unusable(self._url, self._key)
        self.documents = Documents(environment=self.environment)
        self.breakers = WorkerBreakers()
        self._cache = DocumentCache(_directory(cache_dir), url=self._url, key=self._key)
        self._closed = False
        self._link: Link | None = None
        self._start_process()
        self._start_documents(bootstrap)
        if self.local_because:
            log.warning("recloser: %s; working locally on built-in defaults", self.local_because)
        else:
            self._ensure_link()
        _clients.add(self)
        atexit.register(_close_at_exit, weakref.ref(self))

    def run(
        self,
        task_kind: str | None = None,
        *,
        step_limit: int | None = None,
        token_budget: int | None = None,
        cost_budget: float | None = None,
        wall_clock_s: float | None = None,
        parent: Run | str | None = None,
        id: str | None = None,
        raise_errors: bool = False,
    ) -> Run:
        """Begin one task execution. Use it as a context manager, or call `finish` yourself."""
        self._ensure_link()
        run = Run(
            self,
            id=id or new_id(),
            task_kind=task_kind,
            step_limit=step_limit,
            token_budget=token_budget,
            cost_budget=cost_budget,
            wall_clock_s=wall_clock_s,
            parent=parent,
            raise_errors=raise_errors,
        )
        with self.lock:
            self._runs[run.id] = run
        return run

    def flush(self, timeout: float = 5.0) -> bool:
        """Send everything known so far; True when the control plane has it all in time."""
        self._ensure_link()
        link = self._link
        return link is not None and link.flush(timeout)

    def close(self, timeout: float = AT_EXIT_S) -> None:
        """Send what is left, within the time given, and end the thread. The client goes on working locally."""
        if self._closed:
            return
        self._closed = True
        link, self._link = self._link, None
        if link is not None and link.running:
            end = time.monotonic() + timeout
            link.flush(timeout)
            link.stop(max(0.0, end - time.monotonic()))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def status(self) -> dict[str, Any]:
        """How this process stands with the control plane: for a health page, a log line or a debugger."""
        now, link, snapshot = time.monotonic(), self._link, self.documents.snapshot
        with self.lock:
            waiting, dropped, session = self._outbox.waiting, self._outbox.dropped, self._outbox.session
        not_closed = {
            name: {
                "state": view.state.value,
                "mode": view.mode.value,
                "effective": view.effective(snapshot.server_now(now)).value,
            }
            for name, view in snapshot.circuits.items()
        }
        return {
            "mode": "local" if self.local_because else "closed" if self._closed else "connected",
            "feed": link.feed if link is not None else "none",
            "instance": self.instance,
            "session": session,
            "sdk": f"python/{__version__}",
            "config": _stand(self.documents.config, now),
            "circuits": _stand(self.documents.circuits, now) | {"not_closed": not_closed},
            "worker_open": sorted(self.breakers.open),
            "outbox": {"waiting": waiting + len(self.seen), "dropped": dropped},
            "cache": {"path": str(self._cache.path) if self._cache.path else None, "problem": self._cache.problem},
            "notes": dict(link.notes) if link is not None else {},
            "problem": self.local_because or (link.problem if link is not None else None),
        }

    # What a run needs

    @property
    def tells(self) -> bool:
        """Is there anybody to tell?"""
        return not self.local_because and not self._closed

    def trip(self, trip: TripReport) -> None:
        """Tell a trip as it happens."""
        with self.lock:
            if self.tells:
                self._outbox.add_trip(trip)
        self.hurry()

    def report(self, report: RunReport, *, at_once: bool) -> None:
        """Keep a run's latest report for the next batch."""
        with self.lock:
            if self.tells:
                self._outbox.add_run(report)
        if at_once:
            self.hurry()

    def hurry(self) -> None:
        """A failure or a trip must be told within 50 ms."""
        link = self._link
        if link is not None:
            link.urgent(time.monotonic())

    def ended(self, run: Run) -> None:
        """A run reports itself no more."""
        with self.lock:
            self._runs.pop(run.id, None)

    def owns(self, life: str) -> bool:
        """Was this run begun in this process life? A forked child does not report its parent's runs."""
        return life == self.life

    def claim(self, rule: DependencyRule, now: float) -> str | None:
        """The one call that tests this worker's breaker; None where another run has it."""
        with self.lock:
            return self.breakers.claim(rule, now)

    def tested(self, dependency: str, round_id: str, reading: Reading, rule: ToolRule, now: float) -> None:
        """The testing call has ended."""
        with self.lock:
            self.breakers.finish(
                dependency,
                round_id,
                reading.outcome,
                now,
                jitter=random.uniform(-1.0, 1.0),  # noqa: S311 spreads load, keeps no secret
                operation=rule.operation or rule.name,
                retry_after_s=reading.retry_after_s,
            )

    def counted(self, run: Run, *, with_log: bool) -> tuple[float, list[StepLine]]:
        """What has been counted of a run so far."""
        with self.lock:
            return run.tool_seconds, list(run.log) if with_log else []

    # What the link needs

    def fold(self) -> None:
        """Move finished calls into the worker's breaker and the outbox; any thread may."""
        with self.lock:
            trips = self._counter.count(self.seen, self._outbox if self.tells else None)
            for trip in trips:
                if self.tells:
                    self._outbox.add_trip(trip)
            if trips:
                self.hurry()
            self._report_runs(time.monotonic())

    def about(self) -> dict[str, Any]:
        """What every batch says of this process."""
        documents, now, link = self.documents, time.monotonic(), self._link
        heard = documents.snapshot.heard.at
        stale = documents.circuits.stale_since is not None and heard is not None
        return {
            "format": 1,
            "environment": self.environment,
            "instance": clean(self.instance),
            "sdk": f"python/{__version__}",
            "pid": os.getpid(),
            "feed": link.feed if link is not None else "polling",
            "config": _pair(documents.config),
            "circuits": _pair(documents.circuits),
            "stale_s": round(now - heard, 3) if stale and heard is not None else None,
        }

    # Lives of the process

    def _start_process(self) -> None:
        """What one process life owns: its lock, its numbers, its evidence, its thread."""
        self.life = new_id()
        self.lock = threading.RLock()
        self.seen: deque[Seen] = deque()
        self._outbox = Outbox()
        self._counter = Counter(self.breakers)
        self._runs: weakref.WeakValueDictionary[str, Run] = weakref.WeakValueDictionary()
        self._link = None

    def _start_documents(self, bootstrap: Mapping[str, Any] | None) -> None:
        """The saved documents, else those shipped with the application, else the built-in defaults."""
        now = time.monotonic()
        saved = self._cache.load() if not self.local_because else None
        for documents, age_s, source in (
            *(((saved[0], saved[1], Source.DISK),) if saved else ()),
            *((({"config": bootstrap}, 0.0, Source.BOOTSTRAP),) if bootstrap else ()),
        ):
            try:
                return self.documents.load(documents, age_s=age_s, now=now, source=source)
            except (BadDocument, LookupError, TypeError, ValueError) as problem:
                log.warning("recloser: the %s documents cannot be used: %s", source.value, problem)
                if source is Source.DISK:
                    self._cache.problem = f"the saved documents cannot be used: {problem}"[:300]

    def _ensure_link(self) -> None:
        """The thread lives in the process that uses the client: a forked child gets its own at first use."""
        link = self._link
        if (link is not None and link.running) or not self.tells:
            return
        with self.lock:
            if self._link is None or not self._link.running:
                self._link = Link(
                    Transport(
                        self._url, self._key, timeout_s=self._timeout_s, user_agent=f"recloser-python/{__version__}"
                    ),
                    self.documents,
                    self._outbox,
                    self.lock,
                    self,
                    self._cache,
                    self._pace,
                )
                self._link.start()
                _finish_with_multiprocessing(self)

    def after_fork(self) -> None:
        """In a forked child: a new session without the parent's evidence, sockets and thread; the documents stay."""
        if self._link is not None:
            self._link.abandon()
        for run in list(self._runs.values()):
            run.after_fork()
        self.breakers.drop()
        seen = self.seen
        self._start_process()
        seen.clear()
        self.seen = seen  # runs of the parent that go on in the child hold on to it

    def _report_runs(self, now: float) -> None:
        if not self.tells:
            return
        for run in list(self._runs.values()):
            if run.due(now) and (report := run.report(now)) is not None:
                self._outbox.add_run(report)


class Counter:
    """Counts finished calls, into this worker's breakers and into the outbox; under the client's lock."""

    def __init__(self, breakers: WorkerBreakers) -> None:
        self._breakers = breakers

    def count(self, seen: deque[Seen], outbox: Outbox | None) -> list[TripReport]:
        """Take everything that was seen; returns the trips of the worker's breakers."""
        trips: list[TripReport] = []
        plain_rule: ToolRule | None = None
        plain_snapshot: Snapshot | None = None
        parts: list[tuple[Slice, float, DependencyRule]] = []
        while seen:
            try:
                call = seen.popleft()
            except IndexError:  # another thread was faster
                break
            self._log(call)
            if call[6] is Outcome.OK and call[9] is None and outbox is not None:
                if call[0] is not plain_rule or call[1] is not plain_snapshot:
                    plain_rule, plain_snapshot = call[0], call[1]
                    parts = self._parts(outbox, call)
                for part, slow_s, rule in parts:
                    part.add_ok(call[5], call[5] - call[4], slow_s)
                    if self._breakers.failing(rule.name):
                        self._judge(rule, call)
                continue
            for rule in call[0].dependencies:
                if call[9] is not None and not _concerns(rule, call):
                    continue
                if outbox is not None:
                    self._observe(outbox, rule, call)
                if (trip := self._judge(rule, call)) is not None:
                    trips.append(_worker_trip(trip, call))
        return trips

    def _parts(self, outbox: Outbox, call: Seen) -> list[tuple[Slice, float, DependencyRule]]:
        tool, snapshot, at = call[0], call[1], call[5]
        return [
            (
                outbox.slice_of(tool.name, rule.name, snapshot.generation(rule.name), tool.operation, at),
                rule.policy.slow_call_ms / 1000.0,
                rule,
            )
            for rule in tool.dependencies
        ]

    def _log(self, call: Seen) -> None:
        rule, _, run, step, began, ended, outcome, args, result, reading = call
        if run is not None:
            attempts = reading.attempts if reading is not None else outcome is not Outcome.REJECTED
            run.log.append((step, rule.name, args, result, outcome, int(attempts), (ended - began) * 1000.0))
            run.tool_seconds += ended - began

    def _observe(self, outbox: Outbox, rule: DependencyRule, call: Seen) -> None:
        tool, snapshot, run, step, began, ended, outcome, _, _, reading = call
        part = outbox.slice_of(tool.name, rule.name, snapshot.generation(rule.name), tool.operation, ended)
        slow = is_slow(ended - began, rule.policy.slow_call_ms)
        if reading is None:
            part.add(outcome, at=ended, seconds=ended - began, slow=slow)
            return
        part.add(
            outcome,
            at=ended,
            seconds=ended - began,
            slow=slow,
            attempts=reading.attempts,
            retry_after_s=reading.retry_after_s if outcome in FAILURES else None,
            error=reading.error,
            status=reading.status,
            run=None if run is None else run.id,
            step=step,
        )

    def _judge(self, rule: DependencyRule, call: Seen) -> WorkerTrip | None:
        tool, _, run, step, began, ended, outcome, _, _, reading = call
        return self._breakers.record(
            rule,
            outcome,
            began_at=began,
            at=ended,
            slow=is_slow(ended - began, rule.policy.slow_call_ms),
            step=None if run is None or step is None else (run.id, step),
            operation=tool.operation or tool.name,
            retry_after_s=None if reading is None else reading.retry_after_s,
        )


def _concerns(rule: DependencyRule, call: Seen) -> bool:
    """An outcome counts for every dependency, unless somebody knows the one at fault; the others then learn nothing."""
    reading = call[9]
    if reading is None or reading.at_fault is None or reading.outcome not in FAILURES:
        return True
    named = {one.name for one in call[0].dependencies}
    return reading.at_fault not in named or reading.at_fault == rule.name


def _worker_trip(trip: WorkerTrip, call: Seen) -> TripReport:
    tool, _, run, step, _, ended, *_ = call
    signal = trip.breach.signal
    return TripReport(
        id=new_id(),
        scope=Scope.WORKER,
        signal=signal,
        tool=tool.name,
        dependency=trip.rule.name,
        run=None if run is None else run.id,
        step=step,
        action=Action.REMOVE_TOOL,
        delivery=Delivery.ENFORCE if trip.enforced else Delivery.OBSERVE,
        evidence={signal.value: trip.breach.value},
        threshold={signal.value: trip.breach.threshold},
        policy=trip.rule.digest,
        at=ended,
    )


def _stand(copy: Copy, now: float) -> dict[str, Any]:
    """How one document stands, for people."""
    stale_s = None if copy.stale_since is None else round(now - copy.stale_since, 1)
    since = (
        None if stale_s is None else datetime.fromtimestamp(time.time() - stale_s, UTC).isoformat(timespec="seconds")
    )
    return {
        "source": copy.source.value,
        "version": None if copy.version is None else list(copy.version),
        "age_s": None if copy.confirmed_at is None else round(now - copy.confirmed_at, 1),
        "stale_since": since,
        "problem": copy.problem,
    }


def _pair(copy: Copy) -> list[Any] | None:
    return None if copy.version is None else list(copy.version)


def _unusable(url: str, key: str) -> str | None:
    """Why this process works locally; None where it need not."""
    if not url or not key:
        missing = " and ".join(name for name, value in (("RECLOSER_URL", url), ("RECLOSER_KEY", key)) if not value)
        return f"no control plane is configured ({missing} not set)"
    try:
        Transport(url, key)
    except BadAddress as problem:
        return str(problem)
    return None


def _directory(given: str | Path | bool | None) -> Path | None:
    if given is None or given is True:
        return default_directory()
    return None if given is False else Path(given)


def _host() -> str:
    """The pod's or host's name: stable over restarts."""
    return os.environ.get("HOSTNAME") or socket.gethostname() or "unknown"


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _close_at_exit(held: weakref.ref[Client]) -> None:
    client = held()
    if client is not None:
        with contextlib.suppress(Exception):
            client.close(AT_EXIT_S)


def _finish_with_multiprocessing(client: Client) -> None:
    """A child of `multiprocessing` leaves without running `atexit`; it runs its own finalizers instead."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _close_at_exit, args=(weakref.ref(client),), exitpriority=100)
