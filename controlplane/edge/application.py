"""The hot routes as one ASGI application: it finds the caller and the route, and answers every failure in one shape."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Awaitable
from types import FrameType
from typing import Any

import psycopg
import structlog
from django.conf import settings
from django.db import DataError
from django.db import Error as DjangoDatabaseError

from controlplane import redis_clients
from controlplane.delivery.hub import Hub
from controlplane.edge import database, explain, limits, live, permit, rehearsal, stream, why
from controlplane.edge.batch import Batches
from controlplane.edge.considering import Considering
from controlplane.edge.documents import Documents, Looks
from controlplane.edge.http import Disconnected, Problem, Receive, Scope, Send, headers_of, refuse, unavailable
from controlplane.edge.keys import Keys
from controlplane.edge.sharing import Sharing
from controlplane.edge.sign_ins import SignIns
from controlplane.services import system
from controlplane.services.ingest import Intake
from controlplane.threads import Threads

BEAT_S = 5.0
PREFIX = "/agent/v1/"
LIVE = "/live"
ROUTES = {
    ("POST", f"{PREFIX}batch"): "_batch",
    ("GET", f"{PREFIX}config"): "_config",
    ("GET", f"{PREFIX}circuits"): "_circuits",
    ("GET", f"{PREFIX}stream"): "_stream",
    ("POST", f"{PREFIX}permit"): "_permit",
    ("GET", f"{PREFIX}explain"): "_explain",
    ("GET", f"{PREFIX}why"): "_why",
    ("GET", LIVE): "_live",
}

log = structlog.get_logger(__name__)


def is_ours(path: str) -> bool:
    """Whether the edge answers it."""
    return path.startswith(PREFIX) or path == LIVE or path.startswith(rehearsal.PREFIX)


class Edge:
    """Everything that one event loop needs for the hot routes, made when it starts."""

    def __init__(self) -> None:
        self._pool = database.pool()
        self._redis = redis_clients.nonblocking()
        self._threads = Threads(4, "edge")
        self._considering = Considering()
        self._permits = permit.Permits()
        self._documents = Documents(Looks(self._pool), self._threads)
        self._keys = Keys(self._pool)
        self._rehearsals = rehearsal.Rehearsals(self._threads, self._considering)
        self.hub = Hub(self._threads)
        self._sign_ins = SignIns(self._threads)
        self.intake = Intake(self._pool, self._threads)
        self._sharing = Sharing(self.intake.cap, self._redis)
        self._batches = Batches(self.intake, self._redis, self._considering, self.hub, self._threads)
        self._beating: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the pool (it need not reach Postgres yet), begin to poll, to hear and to beat."""
        await self._pool.open()
        self.hub.start()
        self._sign_ins.start()
        self._sharing.start()
        self._beating = asyncio.create_task(self._beat())

    async def close(self) -> None:
        """End all streams, let what runs end, close every connection."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        await self.hub.close()
        await self._sign_ins.close()
        await self._sharing.close()
        await self._considering.close()
        self._permits.close()
        await self._end_beat()
        self._threads.close()
        await self._redis.aclose()
        await self._pool.close(timeout=1.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a failure before the first byte of an answer becomes one."""
        sending = _Sending(send)
        try:
            await self._route(scope, receive, sending)
        except Disconnected:
            return
        except Problem as problem:
            await sending.refuse(problem)
        except (psycopg.DataError, DataError) as error:
            log.error("statement_refused", error=type(error).__name__)
            mend = "leave out what is unusual in it"
            await sending.refuse(Problem(422, "bad_field", "the database does not take a value of the request", mend))
        except (*database.AWAY, DjangoDatabaseError) as error:
            log.warning("postgres_away", error=type(error).__name__)
            await sending.refuse(unavailable())
        except Exception:
            log.exception("request_failed", path=scope["path"])
            mend = "send again later; the server's log has the cause"
            await sending.refuse(Problem(500, "internal", "this was not foreseen", mend, retry_after_s=5))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = ROUTES.get((scope["method"], scope["path"]))
        if route is not None:
            await getattr(self, route)(scope, receive, send)
        elif settings.TEST_CLOCK and scope["path"].startswith(rehearsal.PREFIX):
            headers = headers_of(scope)
            await self._rehearsals.serve(await self._keys.caller(headers), headers, scope, receive, send)
        else:
            raise _no_route(scope)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        await live.serve(self.hub, self._sign_ins, self._threads, scope, receive, send)

    async def _batch(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        caller = await self._keys.caller(headers)
        await self._batches.serve(caller, headers, receive, send)

    async def _config(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        await self._documents.config(await self._keys.caller(headers), headers, send)

    async def _circuits(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        await self._documents.circuits(await self._keys.caller(headers), headers, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        await stream.serve(self.hub, await self._keys.caller(headers_of(scope)), receive, send)

    async def _permit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        await self._permits.serve(await self._keys.caller(headers), headers, receive, send)

    async def _why(self, scope: Scope, receive: Receive, send: Send) -> None:
        await why.serve(self._threads, self._keys, headers_of(scope), scope, send)

    async def _explain(self, scope: Scope, receive: Receive, send: Send) -> None:
        await explain.serve(self._threads, await self._keys.caller(headers_of(scope)), scope, send)

    async def _beat(self) -> None:
        while True:
            with contextlib.suppress(DjangoDatabaseError):
                await self._threads.run(system.beat, kind="edge", name=_name(), detail={"streams": self.hub.streams})
            await asyncio.sleep(BEAT_S)

    async def _end_beat(self) -> None:
        with contextlib.suppress(DjangoDatabaseError, TimeoutError):
            await asyncio.wait_for(self._threads.run(system.end_beat, kind="edge", name=_name()), 1.0)


class _Sending:
    """Remembers whether an answer has begun: then there is no other to give."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = False

    def __call__(self, message: Any) -> Awaitable[None]:
        self._begun = True
        return self._send(message)

    async def refuse(self, problem: Problem) -> None:
        if not self._begun:
            await refuse(self._send, problem)


def _no_route(scope: Scope) -> Problem:
    routes = ", ".join(f"{method} {path}" for method, path in ROUTES if path != LIVE)
    asked = f"{scope['method']} {scope['path'].removeprefix(PREFIX)[:60]}"
    return Problem(404, "not_found", f"there is no route {asked}", f"use one of {routes}")


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


class Application:
    """The edge of one process: begun with it, or with its first request where the server has no life cycle."""

    def __init__(self) -> None:
        self._edge: Edge | None = None
        self._starting = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or follow the server's life cycle."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        edge = self._edge or await self._started()
        await edge(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        edge = await self._started()
        _on_termination(edge.hub.farewell)
        limits.raise_open_files()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await edge.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _started(self) -> Edge:
        async with self._starting:
            if self._edge is None:
                rehearsal.demand_leave()
                edge = Edge()
                await edge.start()
                self._edge = edge
        return self._edge


def _on_termination(farewell: Any) -> None:
    """Streams must end before the server waits for them, so they hear of the signal first."""
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        _before(number, lambda: loop.call_soon_threadsafe(farewell))


def _before(number: int, act: Any) -> None:
    theirs = signal.getsignal(number)

    def handle(signum: int, frame: FrameType | None) -> None:
        act()
        if callable(theirs):
            theirs(signum, frame)

    if callable(theirs):
        signal.signal(number, handle)


application = Application()
