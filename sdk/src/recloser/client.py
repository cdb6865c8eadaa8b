"""The client: what one process knows of the fleet, and what it tells. All of it works without a control plane, too."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from recloser import given
from recloser.awake import Awake
from recloser.cache import DocumentCache, default_directory
from recloser.classify import Reading
from recloser.config_sync import Copy, DependencyRule, Documents, Pulse, Source, ToolRule
from recloser.core.types import State
from recloser.count import Counter, Line
from recloser.errors import BadAddress, BadDocument, Refused, Unreachable
from recloser.link import Link, Pace
from recloser.memory import Memory
from recloser.outbox import Outbox, new_id
from recloser.override import Forced, OverrideFile
from recloser.permits import Permits
from recloser.prober import Prober
from recloser.report import RunReport, TripReport
from recloser.run import Run
from recloser.transport import Transport, decode, public_address
from recloser.version import __version__
from recloser.wire import NAMELESS, clean, text_of, wire_id
from recloser.worker import WorkerBreakers

log = logging.getLogger("recloser")

AT_EXIT_S = 2.0
REPORT_RUNS_EVERY_S = 0.5
PERMIT_PATH = "/permit"
LEAVE_S = 2.0
"""What comes later is given back; the call itself has waited no longer than its policy says."""
LOOK_EVERY_S = 1.0
MOST_HINTED = 2000
"""The override file's time of change is asked for at most so often."""


class Client:
    """One process's line to the control plane, and its own breakers.

    `url` and `key` come from RECLOSER_URL and RECLOSER_KEY where they are not given; without them, or with an address
    that cannot be used, everything works locally on built-in defaults, and a warning says so once. Nothing is
    contacted by the constructor itself. `cache_dir` holds the last good documents (False: none). `bootstrap` is a
    config document shipped with the application, used until anything newer is known. Safe to use from many threads,
    from several event loops and over fork; one per process is enough.

    `mode="invocation"` is for functions that are frozen between invocations: there is no thread; documents that are
    due are fetched when a run begins, and everything is sent when it finishes, each within `budget_s`.

    `probe_hosts`, such as `["crm.internal:443"]`, lets this process send probes that the control plane offers to those
    places, and to no other; not in invocation mode.
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
        mode: Literal["process", "invocation"] = "process",
        budget_s: float = 1.0,
        probe_hosts: Iterable[str] = (),
    ) -> None:
        if mode not in ("process", "invocation"):
            raise ValueError(f"mode is {mode!r}; use 'process' or 'invocation'")
        self.threadless = mode == "invocation"
        self.budget_s = budget_s
        self.agent = agent
        self.environment = environment or os.environ.get("RECLOSER_ENVIRONMENT") or None
        self.instance = instance or os.environ.get("RECLOSER_INSTANCE") or _host()
        self._url = url or os.environ.get("RECLOSER_URL") or ""
        self._key = key or os.environ.get("RECLOSER_KEY") or ""
        self._timeout_s = timeout_s
        self._pace = pace or Pace()
        self.local_because = _unusable(self._url, self._key)
        self.pulse = Pulse()
        self.documents = Documents(environment=self.environment, worker=self.instance, pulse=self.pulse)
        self.breakers = WorkerBreakers(self.pulse)
        self.prober = Prober(probe_hosts if not self.threadless else ())
        self._overrides = OverrideFile(os.environ.get("RECLOSER_OVERRIDE"))
        self._awake = Awake()
        self._look_at = 0.0
        self._cache = DocumentCache(_directory(cache_dir), url=self._url, key=self._key)
        self._closed = self._closing = False
        self._link: Link | None = None
        self._start_process()
        self._start_documents(bootstrap)
        self.look_around()
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
        """Begin one task execution. Use it as a context manager (`async with` too), or call `finish` yourself.

        An `id` of yours stays `run.id`; where it is no UUID, the control plane knows it as `wire.wire_id(id)`.
        """
        self._ensure_link()
        self.look_around()
        if self.threadless and not _on_event_loop():
            self.refreshed()
        run = Run(
            self,
            id=new_id() if id is None else text_of(id) or new_id(),
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
        self._keep_places()
        return run

    def flush(self, timeout: float = 5.0) -> bool:
        """Send everything known so far; True when the control plane has it all in time."""
        self._ensure_link()
        link = self._link
        if link is None:
            return False
        return link.errand(timeout, insist=True, documents=False) if self.threadless else link.flush(timeout)

    async def aflush(self, timeout: float = 5.0) -> bool:
        """`flush`, to be awaited: no event loop waits for the line."""
        import asyncio

        return await asyncio.to_thread(self.flush, timeout)

    def close(self, timeout: float = AT_EXIT_S) -> None:
        """Send what is left, within the time given, and end the thread. The client goes on working locally."""
        if self._closing:
            return
        self._closing = True
        link, end = self._link, time.monotonic() + timeout
        if link is not None and self.threadless:
            if self._outbox.waiting or self.seen:
                link.errand(timeout, insist=True, documents=False)
        elif link is not None and link.running:
            link.flush(timeout)
        self.permits.wait(max(0.0, end - time.monotonic()))
        self._closed, self._link = True, None  # only now: what is counted before is told
        if link is not None:
            link.stop(max(0.0, end - time.monotonic()))

    async def aclose(self, timeout: float = AT_EXIT_S) -> None:
        """`close`, to be awaited."""
        import asyncio

        await asyncio.to_thread(self.close, timeout)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def status(self) -> dict[str, Any]:
        """How this process stands with the control plane: for a health page, a log line or a debugger."""
        now, link, snapshot = time.monotonic(), self._link, self.documents.snapshot
        with self.lock:
            waiting, dropped, session = self._outbox.waiting, self._outbox.dropped, self._outbox.session
        forced = snapshot.forced.all() if snapshot.forced is not None else ()
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
            "local_because": self.local_because,
            "feed": link.feed if link is not None else "none",
            "instance": self.instance,
            "session": session,
            "sdk": f"python/{__version__}",
            "config": _stand(self.documents.config, now),
            "circuits": _stand(self.documents.circuits, now) | {"not_closed": not_closed},
            "worker_open": sorted(self.breakers.open),
            "overrides": {
                "path": str(self._overrides.path) if self._overrides.path else None,
                "in_force": [one.to_wire(now) for one in forced if now < one.until],
                "problem": self._overrides.problem,
            },
            "outbox": {
                "waiting": waiting + len(self.seen),
                "dropped": dropped,
                "acknowledged_s_ago": None
                if link is None or link.last_batch_at is None
                else round(now - link.last_batch_at, 1),
                "flush_s": link.flush_s if link is not None else None,
            },
            "cache": {"path": str(self._cache.path) if self._cache.path else None, "problem": self._cache.problem},
            "probing": {"hosts": list(self.prober.hosts), "problem": self.prober.problem},
            "notes": dict(link.notes) if link is not None else {},
            "problem": self.local_because or (link.problem if link is not None else None),
        }

    # What a run needs

    def why(self, run: str, tool: str) -> str | None:
        """Where one reads why a tool is missing from a run; None where there is no control plane to ask."""
        if self.local_because:
            return None
        asked = urlencode({"run": wire_id(run), "tool": clean(tool) or NAMELESS})
        return f"{public_address(self._url)}/why?{asked}"

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
        """A failure or a trip must be told within 50 ms; without a thread it is told when the run ends."""
        link = self._link
        if link is not None and not self.threadless:
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

    def look_around(self) -> None:
        """Has the process slept, has the override file changed? Asked at most once a second, and never in a call."""
        if time.monotonic() >= self._look_at:
            link = self._link
            if link is None or not link.running:
                self.wake_up()
            else:
                self._look_at_overrides()

    def wake_up(self) -> bool:
        """Age what was known before a sleep; True after one. The link's thread asks, else whoever begins something."""
        with self.lock:
            slept_s = self._awake.slept()
            if slept_s:
                self.fold()
                self._outbox.shift(-slept_s)
                self.breakers.shift(-slept_s)
                self.documents.shift(-slept_s)
                if self._link is not None:
                    self._link.due_since(self.documents.config.confirmed_at, self.documents.circuits.confirmed_at)
        self._look_at_overrides()
        if not self.threadless:
            self._keep_places()
        return slept_s > 0.0

    def _keep_places(self) -> None:
        """Ask for places beside all else; without a thread, at the begin of a run that may wait."""
        if self.tells and not (self.threadless and _on_event_loop()):
            self.permits.look(self.documents.snapshot, time.monotonic(), at_once=self.threadless)

    def _asked_for_leave(self, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """One request about a permit, on a line of its own: the link's belongs to its thread."""
        if not self.tells:
            return None
        agent = f"recloser-python/{__version__}"
        line = Transport(self._url, self._key, timeout_s=min(self._timeout_s, LEAVE_S), user_agent=agent)
        try:
            found = decode(line.post(PERMIT_PATH, body).body)
        except Refused as refused:
            return None if refused.status >= 500 or refused.status == 429 else {}
        except (Unreachable, ValueError):
            return None
        finally:
            line.close()
        return found if isinstance(found, dict) else {}

    def hints(self, tools: Iterable[Any]) -> None:
        """Tell what a tool server says of its tools: the entries of MCP's `tools/list`, with their `annotations`.

        `Run.tools` does so by itself where the array that the model is shown still has them. They go to the control
        plane once a tool has been called, as a claim: an operator sees it, and no class follows from it by itself.
        """
        try:
            for tool in given.listed(tools):
                name, told = given.name_of(tool), given.hints_of(tool)
                if told and name is not None:
                    self.hinted(name, told)
        except Exception:
            log.exception("recloser: the hints of a listing could not be read; none of them is told")

    def hinted(self, name: str, told: dict[str, bool]) -> None:
        """What one tool says of itself; told once, and again where it changes."""
        if self._hints.get(name) == told or len(self._hints) >= MOST_HINTED:
            return
        with self.lock:
            self._hints[name] = told
            if self.tells:
                self._outbox.add_hints(name, told)

    def _look_at_overrides(self) -> None:
        now = time.monotonic()
        self._look_at = now + LOOK_EVERY_S
        found = self._overrides.look(now)
        if found is None:
            return
        known = {one.id for one in self.documents.snapshot.forced.all()} if self.documents.snapshot.forced else set()
        self.documents.force(Forced.of(found) if found else None)
        with self.lock:
            for one in found:
                if self.tells and one.id not in known:
                    self._outbox.add_override(one)
        self.hurry()

    def refreshed(self) -> None:
        """Without a thread: fetch the documents that are due, within the budget."""
        link = self._link
        if self.threadless and link is not None:
            link.errand(self.budget_s, insist=False, batches=False)

    def delivered(self) -> None:
        """Without a thread: send what waits, within the budget; what cannot be sent waits for the next time."""
        link = self._link
        if self.threadless and link is not None:
            link.errand(self.budget_s, insist=False, documents=False)
            self.permits.wait(self.budget_s)

    def counted(self, run: Memory, *, with_log: bool) -> tuple[float, list[Line]]:
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
            "instance": self.instance,
            "sdk": f"python/{__version__}",
            "pid": os.getpid(),
            "feed": link.feed if link is not None else "polling",
            "config": _pair(documents.config),
            "circuits": _pair(documents.circuits),
            "stale_s": round(now - heard, 3) if stale and heard is not None else None,
            **self.prober.about(),
        }

    @property
    def asks_for_probes(self) -> bool:
        """Is there a result to tell, or something out of service that this process might be asked to probe?"""
        if not self.prober.hosts:
            return False
        waits = any(view.state is not State.CLOSED for view in self.documents.snapshot.circuits.values())
        return bool(self.prober.untold) or (self.prober.willing and waits)

    def attended(self, told: Iterable[Mapping[str, Any]], offers: Any) -> None:
        """A batch was taken with these results; the answer offers the next probe."""
        self.prober.acknowledged(told)
        self.prober.take(offers, self.hurry)

    # Lives of the process

    def _start_process(self) -> None:
        """What one process life owns: its lock, its numbers, its evidence, its thread."""
        self.life = new_id()
        self.lock = threading.RLock()
        self.seen: list[Any] = []
        self._outbox = Outbox()
        self._hints: dict[str, dict[str, bool]] = {}
        self._counter = Counter(self.breakers)
        self._runs: weakref.WeakValueDictionary[str, Run] = weakref.WeakValueDictionary()
        self._link = None
        self._report_at = 0.0
        self.permits = Permits(self._asked_for_leave, session=lambda: self._outbox.session, instance=self.instance)

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
        if (link is not None and (link.running or self.threadless)) or not self.tells:
            return
        with self.lock:
            link = self._link
            if link is None or not (link.running or self.threadless):
                link = Link(
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
                link.due_since(self.documents.config.confirmed_at, self.documents.circuits.confirmed_at)
                if not self.threadless:
                    link.start()
                self._link = link
                _finish_with_multiprocessing(self)

    def after_fork(self) -> None:
        """In a forked child: a new session without the parent's evidence, sockets and thread; the documents stay."""
        if self._link is not None:
            self._link.abandon()
        for run in list(self._runs.values()):
            run.after_fork()
        self.documents.after_fork()
        self._overrides.after_fork()
        self.breakers.drop()
        self.prober.after_fork()
        seen = self.seen
        self._start_process()
        seen.clear()
        self.seen = seen  # runs of the parent that go on in the child hold on to it

    def _report_runs(self, now: float) -> None:
        if now < self._report_at or not self.tells:
            return
        self._report_at = now + REPORT_RUNS_EVERY_S
        for run in list(self._runs.values()):
            if run.due(now) and (report := run.report(now)) is not None:
                self._outbox.add_run(report)


def _stand(copy: Copy, now: float) -> dict[str, Any]:
    """How one document stands, for people."""
    stale_s = None if copy.stale_since is None else round(now - copy.stale_since, 1)
    since = None if stale_s is None else time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - stale_s))
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
    if name := os.environ.get("HOSTNAME"):
        return name
    import socket

    return socket.gethostname() or "unknown"


def _on_event_loop() -> bool:
    """Is this thread running an event loop, which must not wait for the line?"""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


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
    """A child of `multiprocessing` leaves without running `atexit`, a Celery worker's child without any finalizer.

    The first runs finalizers of its own, the second sends a signal of Celery's. To be closed twice does no harm.
    """
    for package in ("multiprocessing", "billiard"):
        process = sys.modules.get(f"{package}.process")
        if process is not None and type(process.current_process()).__name__ != "_MainProcess":
            util = importlib.import_module(f"{package}.util")
            util.Finalize(None, _close_at_exit, args=(weakref.ref(client),), exitpriority=100)
    celery = sys.modules.get("celery.signals")
    if celery is not None:
        celery.worker_process_shutdown.connect(_close_all, weak=False, dispatch_uid="recloser")


def _close_all(**_: Any) -> None:
    for client in list(_clients):
        with contextlib.suppress(Exception):
            client.close(AT_EXIT_S)
