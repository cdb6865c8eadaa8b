"""The edge under test: in this process on a loop of its own, or as real uvicorn processes on the test database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from urllib.parse import urlsplit, urlunsplit

import httpx
from django.conf import settings
from django.db import connections

from controlplane.edge.application import Application


def until(condition, *, within=5.0, what="the condition"):
    """Wait for a condition with a deadline; its value."""
    deadline = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {within} s"
        time.sleep(0.01)
    return value


class Loop:
    """An event loop on a thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def call(self, coroutine, timeout=10):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()


class Events:
    """Server-sent events as they arrive: (name, data), comments left out."""

    def __init__(self):
        self._text = b""
        self._whole = queue.Queue()
        self.comments = 0

    def feed(self, data):
        self._text += data
        while b"\n\n" in self._text:
            block, _, self._text = self._text.partition(b"\n\n")
            if block.startswith(b":"):
                self.comments += 1
            else:
                lines = dict(line.split(": ", 1) for line in block.decode().splitlines())
                self._whole.put((lines["event"], json.loads(lines["data"])))

    def end(self):
        self._whole.put(None)

    def next(self, name, *, within=3.0):
        """The data of the next event of that name."""
        deadline = time.monotonic() + within
        while True:
            try:
                found = self._whole.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no event {name} within {within} s") from None
            assert found is not None, f"the stream ended before an event {name}"
            if found[0] == name:
                return found[1]

    def ended(self, *, within=3.0):
        """Wait until the stream is over."""
        deadline = time.monotonic() + within
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                if self._whole.get(timeout=left) is None:
                    return True
        return False


class InProcess:
    """The edge's ASGI application on its own loop."""

    def __init__(self):
        self.loop = Loop()
        self.app = self.loop.call(self._made())
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=True)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        self._streams = []

    async def _made(self):
        return Application()

    @property
    def edge(self):
        return self.loop.call(self.app._started())

    def request(self, method, path, **more):
        return self.loop.call(self.client.request(method, path, **more))

    def stream(self, path, headers, *, reading=True):
        """An open stream, driven by hand: httpx's transport would wait for its end."""
        stream = Driven(self, path, headers, reading)
        self._streams.append(stream)
        return stream

    def close(self):
        for stream in self._streams:
            stream.close()
        self.loop.call(self.client.aclose())
        self.loop.call(self.edge.close())
        self.loop.close()


class Driven:
    """One ASGI stream request whose client may stop reading, or go."""

    def __init__(self, server, path, headers, reading):
        self.events = Events()
        self.status = None
        self._server = server
        self._started = threading.Event()
        path, _, query = path.partition("?")
        named = [(b"host", b"localhost"), *((k.lower().encode(), v.encode()) for k, v in headers.items())]
        self._scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": named}
        self._future = asyncio.run_coroutine_threadsafe(self._run(reading), server.loop.loop)
        self._started.wait(5)

    async def _run(self, reading):
        self._gone = asyncio.Event()
        self._reads = asyncio.Event()
        if reading:
            self._reads.set()
        try:
            await self._server.app(self._scope, self._receive, self._send)
        finally:
            self.events.end()
            self._started.set()

    async def _receive(self):
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._started.set()
            return
        await self._reads.wait()
        self.events.feed(message.get("body", b""))

    def read(self, reads=True):
        """Begin to read, or stop; what the server writes meanwhile stays where it is."""
        self._server.loop.loop.call_soon_threadsafe(self._reads.set if reads else self._reads.clear)

    @property
    def over(self):
        return self._future.done()

    def close(self):
        if not self._future.done():
            self._server.loop.loop.call_soon_threadsafe(self._gone.set)
            self._future.result(5)


def database_url():
    """The test database as a URL, for a process of its own."""
    parts = urlsplit(settings.DATABASE_URL)
    return urlunsplit(parts._replace(path="/" + connections["default"].settings_dict["NAME"]))


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Proxy:
    """A road to the test Postgres that can be cut and mended."""

    def __init__(self):
        database = connections["default"].settings_dict
        self._address = f"{database['HOST']}/.s.PGSQL.{database['PORT'] or 5432}"
        self.port = free_port()
        self.url = f"postgresql://{database['USER'] or 'postgres'}@127.0.0.1:{self.port}/{database['NAME']}"
        self._open = set()
        self._listening = None
        self.mend()

    def mend(self):
        self._listening = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def cut(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for end in list(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening):
        with contextlib.suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._address)
                for one, other in ((near, far), (far, near)):
                    self._open.add(one)
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)
        self._open.discard(one)
        one.close()


class Server:
    """A real uvicorn with the whole application, on the test database."""

    def __init__(self, **environment):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        environment = {**os.environ, "DATABASE_URL": database_url(), **environment}
        command = [
            *(sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(self.port)),
            *("--timeout-graceful-shutdown", "3", "--log-level", "warning"),
        ]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.client = httpx.Client(base_url=self.url, timeout=10)
        self._streams = []

    def wait(self):
        until(self._answers, within=60, what="uvicorn's start")
        return self

    def _answers(self):
        assert self.process.poll() is None, self.process.stdout.read().decode()
        with contextlib.suppress(httpx.TransportError):
            return self.client.get("/healthz").status_code == 200

    def request(self, method, path, **more):
        return self.client.request(method, path, **more)

    def stream(self, path, headers):
        events, opened = Events(), threading.Event()
        reading = threading.Thread(target=self._read, args=(path, headers, events, opened), daemon=True)
        reading.start()
        assert opened.wait(10), "the stream did not open"
        self._streams.append(reading)
        return events

    def _read(self, path, headers, events, opened):
        try:
            with httpx.Client(timeout=30) as client, client.stream("GET", self.url + path, headers=headers) as response:
                opened.set()
                for data in response.iter_raw():
                    events.feed(data)
        except httpx.TransportError:
            pass
        finally:
            events.end()

    def terminate(self):
        """SIGTERM; how long it took to end, in seconds, and what it had said."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=20)
        return time.monotonic() - began, said.decode()

    def close(self):
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate(timeout=20)
        for reading in self._streams:
            reading.join(5)


class Agent:
    """One session of an agent, with its numbered batches."""

    def __init__(self, server, token, *, instance="pod-1", environment="prod"):
        self.server = server
        self.headers = {"authorization": f"Bearer {token}"}
        self.session = str(uuid.uuid4())
        self.instance = instance
        self.environment = environment
        self.seq = 0

    def batch(self, **parts):
        """The next batch."""
        self.seq += 1
        common = {"format": 1, "environment": self.environment, "session": self.session, "seq": self.seq}
        return {**common, "instance": self.instance, "sdk": "test/1", "pid": 1, "feed": "live", **parts}

    def post(self, batch, **headers):
        """Send a batch that was made before."""
        return self.server.request("POST", "/agent/v1/batch", json=batch, headers={**self.headers, **headers})

    def post_raw(self, body, **headers):
        return self.server.request("POST", "/agent/v1/batch", content=body, headers={**self.headers, **headers})

    def send(self, *observations, **parts):
        """Send the next batch, which must be taken."""
        answer = self.post(self.batch(observations=list(observations), **parts))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def get(self, name, **headers):
        return self.server.request("GET", f"/agent/v1/{name}", headers={**self.headers, **headers})

    def stream(self, **more):
        return self.server.stream("/agent/v1/stream", self.headers, **more)


def observation(*, tool="web_search", dependency="search-api", generation=0, age_s=0.1, **more):
    """One slice; `counts` of one good call unless told."""
    return {
        "tool": tool,
        "dependency": dependency,
        "generation": generation,
        "age_s": age_s,
        "counts": {"ok": 1},
        **more,
    }


def failing(calls=5, **more):
    """A slice of failures only."""
    return observation(counts={"timeout": calls}, streak=calls, **more)


def trip(**more):
    """A withdrawal in a run."""
    return {
        "id": str(uuid.uuid4()),
        "scope": "run",
        "signal": "consecutive_failures",
        "tool": "web_search",
        "dependency": "search-api",
        "run": str(uuid.uuid4()),
        "step": 9,
        "action": "remove_tool",
        "delivery": "enforce",
        "evidence": {"consecutive_failures": 5},
        "threshold": {"consecutive_failures": 5},
        "policy": "0123456789ab",
        "age_s": 0.1,
        **more,
    }


def run(**more):
    """A run's report."""
    return {
        "id": str(uuid.uuid4()),
        "revision": 1,
        "status": "running",
        "task_kind": "brief",
        "started_age_s": 61.0,
        "steps": 9,
        "step_limit": 20,
        "degraded": True,
        "tools": ["web_search", "db_lookup"],
        "missing": [{"tool": "web_search", "dependency": "search-api", "cause": "consecutive_failures", "step": 9}],
        "tokens": 18230,
        "cost": 0.41,
        **more,
    }
