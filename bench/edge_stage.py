"""What the edge's benchmarks stand on: throwaway servers, uvicorn processes, and a client that costs little.

Everything runs on this machine's loopback, for as long as one script takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for place in (str(ROOT), str(ROOT / "sdk" / "src")):
    if place not in sys.path:
        sys.path.insert(0, place)

from deploy.local import embedded, secret  # noqa: E402

START_S = 60.0
TOKEN = "rcl_bench_" + "b" * 43


@dataclass(frozen=True, slots=True)
class Ids:
    """What the bare applications write rows for."""

    environment: int
    agent: int
    key: int
    worker: int
    dependency: int
    tool: int
    session: str


@contextlib.contextmanager
def servers() -> Iterator[None]:
    """A Postgres with our tables and a Valkey, gone afterwards."""
    started = embedded.ensure("test")
    made = {name: make() for name, make in secret.MADE.items()}
    os.environ.update(made | {"DATABASE_URL": started.database_url, "REDIS_URL": started.redis_url})
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    os.environ.setdefault("RECLOSER_LOG_LEVEL", "ERROR")
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, check=True)
    try:
        yield
    finally:
        started.stop()


def cast() -> Ids:
    """One environment with an agent, its key, a dependency and a tool."""
    import django

    django.setup()
    from django.db import connections

    from controlplane.models import Circuit
    from tests import factories

    environment = factories.environment("prod")
    agent = factories.agent(environment, "research")
    key = factories.key(agent, TOKEN)
    dependency = factories.dependency(environment, "search-api")
    tool = factories.tool(dependency, "web_search")
    worker = factories.worker(key, "bare")
    session = factories.session(worker)
    Circuit.objects.filter(dependency=dependency).exists()
    connections["default"].close_pool()
    return Ids(environment.pk, agent.pk, key.pk, worker.pk, dependency.pk, tool.pk, str(session.pk))


def publish(**values: object) -> None:
    """Set the dependency's circuit policy."""
    from django.db import connections

    from controlplane import clock
    from controlplane.models import Dependency
    from controlplane.services import policies

    dependency = Dependency.objects.get(slug="search-api")
    policies.publish(
        environment=dependency.environment,
        level="dependency",
        dependency=dependency,
        values=values,
        reason="a benchmark",
        actor="bench",
        now=clock.now(),
    )
    connections["default"].close_pool()


@contextlib.contextmanager
def serving(application: str, **environment: str) -> Iterator[int]:
    """One uvicorn process with that application; its port."""
    port = _free_port()
    command = [sys.executable, "-m", "uvicorn", application, "--port", str(port), "--log-level", "warning"]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "sdk" / "src")])
    given = {**os.environ, "PYTHONPATH": paths, **environment}
    process = subprocess.Popen([*command, "--timeout-graceful-shutdown", "2"], cwd=ROOT, env=given)
    try:
        _wait_for_port(port, process)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 2).close()
            return
        time.sleep(0.1)
    raise SystemExit(f"nobody answers on port {port}")


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer."""

    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        """Its status."""
        return int(self.head[9:12])

    def header(self, name: bytes) -> str:
        """One of its headers; empty if it has none of that name."""
        return self.head.partition(b"\r\n" + name + b": ")[2].split(b"\r\n")[0].decode()


class Caller(asyncio.Protocol):
    """One kept-alive connection with one request in flight."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._waiting: asyncio.Future[Answered] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def to(cls, port: int) -> Caller:
        """A connection to that port."""
        _, caller = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return caller

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio's: it is open."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[Answered]:
        """Send a request; its answer."""
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def data_received(self, data: bytes) -> None:
        """Asyncio's: a part of an answer has come."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or self._waiting is None:
            return
        head = bytes(self._buffer[:end])
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0] or b"0")
        if len(self._buffer) < end + 4 + length:
            return
        waiting, self._waiting = self._waiting, None
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        del self._buffer[: end + 4 + length]
        waiting.set_result(Answered(head, body))

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A whole request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"authorization: Bearer {TOKEN}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Agent:
    """One session: numbered batches of one observation."""

    def __init__(self, number: int, counts: dict[str, int], streak: int) -> None:
        self._session = str(uuid.uuid4())
        self._instance = f"pod-{number}"
        self._seq = 0
        self._counts, self._streak = counts, streak

    def batch(self, generation: int = 0) -> bytes:
        """The next request."""
        self._seq += 1
        observation = {
            "tool": "web_search", "dependency": "search-api", "generation": generation, "operation": "web_search",
            "age_s": 0.1, "span_s": 2.0, "counts": self._counts, "attempts": 4, "slow": 0, "slow_failures": 0,
            "latency_ms": {"sum": 900.0, "max": 400.0, "hist": [0, 0, 0, 0, 0, 0, 1, 1, 1]},
            "streak": self._streak, "retry_after_s": None, "samples": [],
        }  # fmt: skip
        body = {
            "format": 1, "environment": "prod", "session": self._session, "seq": self._seq, "instance": self._instance,
            "sdk": "bench/1", "pid": 1, "feed": "live", "config": ["e1", 1], "circuits": ["e1", 1],
            "stale_s": None, "observations": [observation], "trips": [], "runs": [],
        }  # fmt: skip
        return request("POST", "/agent/v1/batch", json.dumps(body, separators=(",", ":")).encode())


async def rate(
    callers: Sequence[Caller], requests: Sequence[Callable[[], bytes]], seconds: float, wanted: int
) -> float:
    """Answers a second with every connection busy for so long; any other status ends the script."""
    end = time.perf_counter() + seconds

    async def busy(caller: Caller, make: Callable[[], bytes]) -> int:
        done = 0
        while time.perf_counter() < end:
            answered = await caller.ask(make())
            if answered.status != wanted:
                raise SystemExit(f"answered {answered.status}: {answered.body[:300]!r}")
            done += 1
        return done

    began = time.perf_counter()
    each = await asyncio.gather(*[busy(*pair) for pair in zip(callers, requests, strict=True)])
    return sum(each) / (time.perf_counter() - began)


async def in_turn(rounds: int, contenders: dict[str, Callable[[], Awaitable[float]]]) -> dict[str, list[float]]:
    """Each contender once a round, so that a noisy moment hits all of them alike."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            figures[name].append(await measure())
    return figures


def told(title: str, figures: dict[str, list[float]], unit: str, beside: str) -> None:
    """Print medians, and each contender's ratio to one of them: the median of the rounds' own ratios."""
    print(f"\n{title} (median of {len(figures[beside])} rounds)")
    for name, values in figures.items():
        ratio = statistics.median(one / other for one, other in zip(values, figures[beside], strict=True))
        print(f"  {name:<34} {statistics.median(values):>9.1f} {unit}   x{ratio:.2f} of {beside}")
