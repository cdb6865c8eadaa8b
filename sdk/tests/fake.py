"""A control plane for tests: real sockets, the real protocol, answers that a test scripts one by one."""

from __future__ import annotations

import contextlib
import gzip
import json
import queue
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from recloser.core.policy import CircuitPolicy, RunPolicy, resolve_run, to_wire
from recloser.core.types import SideEffectClass

KEY = "rcl_test_0123456789abcdef"
NOW = 1_790_000_000.0


class Scripted:
    """One answer that departs from the protocol's usual course."""

    def __init__(
        self,
        status: int = 200,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        store: bool = False,
        cut: bool = False,
        hang_until: threading.Event | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.headers = dict(headers or {})
        self.store = store
        self.cut = cut
        self.hang_until = hang_until


def error(status: int, code: str, *, field: str | None = None, retry_after: float | None = None) -> Scripted:
    body = {"error": {"code": code, "field": field, "message": f"scripted {code}", "mend": "none"}}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Scripted(status, body=json.dumps(body).encode(), headers=headers)


class FakeControlPlane:
    """Speaks the agent protocol on a loopback port. `script` queues answers; everything stored is kept for asking."""

    def __init__(self, *, environment: str = "prod", agent: str = "research", port: int = 0) -> None:
        self.environment = environment
        self.agent = agent
        self.key = KEY
        self.flush_s = 0.2
        self.flush_now: list[str] = []
        self.notes: list[dict[str, str]] = []
        self.streaming = True
        self.chunked = True
        self.config = config_document(environment=environment, agent=agent)
        self.circuits: dict[str, dict[str, Any]] = {}
        self.circuits_version = ("e1", 1)
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.batches: list[dict[str, Any]] = []
        self.attempts: list[dict[str, Any]] = []
        self.connections: set[tuple[str, int]] = set()
        self.lasts: dict[str, int] = {}
        self.judge: Callable[[Any], Scripted | None] = lambda body: None
        """Refuses batches by what is in them, where a test says so."""
        self._scripts: dict[str, deque[Scripted]] = defaultdict(deque)
        self._streams: list[queue.Queue[bytes | None]] = []
        self._changed = threading.Condition()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.plane = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> FakeControlPlane:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.drop_streams()
        self._server.shutdown()
        self._server.server_close()
        self._server.close_all()
        self._thread.join(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    # What a test scripts

    def script(self, route: str, *answers: Scripted) -> None:
        """The next answers on `batch`, `config`, `circuits` or `stream`."""
        with self._changed:
            self._scripts[route].extend(answers)

    def publish_config(self, **changes: Any) -> None:
        """A next version of the config, told on the stream."""
        with self._changed:
            self.config = {**self.config, **changes, "version": self.config["version"] + 1}
        self.send("config", {"epoch": self.config["epoch"], "version": self.config["version"]})

    def set_circuit(self, name: str, *, tell: bool = True, **entry: Any) -> None:
        """Change one circuit; its delta goes out on the stream unless `tell` is false."""
        with self._changed:
            epoch, n = self.circuits_version
            self.circuits_version = (epoch, n + 1)
            full = {"state": "closed", "mode": "auto", "generation": n, "delivery": "enforce", **entry}
            self.circuits[name] = full
            delta = {"epoch": epoch, "previous": n, "version": n + 1, "now": self.now(), "circuits": {name: full}}
        if tell:
            self.send("delta", delta)

    def send(self, event: str, data: Any) -> None:
        """An event to every open stream."""
        block = f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()
        for stream in list(self._streams):
            stream.put(block)

    def send_raw(self, block: bytes) -> None:
        for stream in list(self._streams):
            stream.put(block)

    def drop_streams(self) -> None:
        for stream in list(self._streams):
            stream.put(None)

    # What a test asks

    def wait(self, holds: Callable[[], Any], timeout_s: float = 5.0) -> Any:
        """Wait until something holds, and say so; False when it did not in time."""
        end = time.monotonic() + timeout_s
        with self._changed:
            while not (found := holds()):
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 0.02))
            return found

    @property
    def streams(self) -> int:
        return len(self._streams)

    def stored(self, kind: str) -> list[dict[str, Any]]:
        """All `observations`, `trips` or `runs` that were taken, in order."""
        return [entry for batch in self.batches for entry in batch[kind]]

    def counts(self, tool: str) -> dict[str, int]:
        """Everything counted for a tool, by outcome."""
        total: dict[str, int] = defaultdict(int)
        for entry in self.stored("observations"):
            if entry["tool"] == tool:
                for outcome, n in entry["counts"].items():
                    total[outcome] += n
        return dict(total)

    def asked(self, route: str) -> list[tuple[str, str, dict[str, str], Any]]:
        return [request for request in self.requests if request[1].endswith(f"/{route}")]

    def now(self) -> float:
        return NOW + time.monotonic()

    def circuits_document(self) -> dict[str, Any]:
        epoch, n = self.circuits_version
        entries = {
            name: entry
            for name, entry in self.circuits.items()
            if entry["state"] != "closed" or entry["mode"] != "auto"
        }
        return {
            "format": 1, "epoch": epoch, "version": n, "complete": True, "now": self.now(), "circuits": entries,
        }  # fmt: skip

    # What the handler does

    def answer(self, method: str, path: str, headers: dict[str, str], raw: bytes, peer: tuple[str, int]) -> Any:
        route = path.rsplit("/", 1)[-1]
        body = json.loads(gzip.decompress(raw) if headers.get("content-encoding") == "gzip" else raw) if raw else None
        with self._changed:
            self.connections.add(peer)
            self.requests.append((method, path, headers, body))
            if route == "batch":
                self.attempts.append(body)
            scripted = self._scripts[route].popleft() if self._scripts[route] else None
            if scripted is not None and scripted.store:
                self._take(body)
            self._changed.notify_all()
            if scripted is not None:
                return scripted
            if headers.get("authorization") != f"Bearer {self.key}":
                return error(401, "bad_key")
            match route:
                case "batch":
                    return self.judge(body) or _json(self._take(body))
                case "config":
                    return self._document(self.config | {"now": self.now()}, self.config["version"], headers)
                case "circuits":
                    return self._document(self.circuits_document(), self.circuits_version[1], headers)
                case "stream" if self.streaming:
                    return "stream"
            return error(404, "not_found")

    def open_stream(self) -> queue.Queue[bytes | None]:
        """What one stream is to send, the circuits first."""
        stream: queue.Queue[bytes | None] = queue.Queue()
        with self._changed:
            stream.put(f"event: circuits\ndata: {json.dumps(self.circuits_document())}\n\n".encode())
            self._streams.append(stream)
            self._changed.notify_all()
        return stream

    def close_stream(self, stream: queue.Queue[bytes | None]) -> None:
        with self._changed:
            self._streams.remove(stream)
            self._changed.notify_all()

    def _take(self, body: dict[str, Any]) -> dict[str, Any]:
        last = self.lasts.get(body["session"], 0)
        repeat = body["seq"] <= last
        if not repeat:
            self.lasts[body["session"]] = body["seq"]
            self.batches.append(body)
        named = {entry["dependency"] for entry in body["observations"]}
        closed = {"state": "closed", "mode": "auto", "generation": 0}
        return {
            "ack": max(last, body["seq"]),
            "repeat": repeat,
            "flush_s": self.flush_s,
            "now": self.now(),
            "config": [self.config["epoch"], self.config["version"]],
            "circuits_version": list(self.circuits_version),
            "circuits": {name: self.circuits.get(name, closed) for name in named},
            "flush_now": self.flush_now,
            "notes": self.notes,
        }

    def _document(self, document: dict[str, Any], version: int, headers: dict[str, str]) -> Scripted:
        etag = f'"{document["epoch"]}-{version}"'
        if headers.get("if-none-match") == etag:
            return Scripted(304, body=b"", headers={"ETag": etag})
        return _json(document, {"ETag": etag})


def config_document(
    *,
    version: int = 7,
    epoch: str = "e1",
    environment: str = "prod",
    agent: str = "research",
    tools: Mapping[str, Mapping[str, Any]] | None = None,
    circuit: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A config document. `tools` by name: `dependencies`, `side_effect`, `confirmed`, and `run` overrides."""
    read_only = resolve_run([], side_effect_class=SideEffectClass.READ_ONLY).policy
    runs = [{**to_wire(read_only), **(run or {})}, {**to_wire(resolve_run([]).policy), **(run or {})}]
    entries: dict[str, Any] = {}
    dependencies: dict[str, Any] = {}
    for name, given in (tools or {}).items():
        side_effect = SideEffectClass(given.get("side_effect", "read_only"))
        runs.append(
            {**to_wire(resolve_run([], side_effect_class=side_effect).policy), **(run or {}), **given.get("run", {})}
        )
        behind = list(given.get("dependencies", [name]))
        dependencies |= {one: {"policy": 0} for one in behind}
        entries[name] = {
            "policy": len(runs) - 1,
            "dependencies": behind,
            "side_effect": side_effect.value,
            "confirmed": given.get("confirmed", True),
            "operation": given.get("operation"),
        }
    return {
        "format": 1,
        "epoch": epoch,
        "version": version,
        "environment": environment,
        "agent": agent,
        "now": NOW,
        "complete": True,
        "circuit_policies": [{**to_wire(CircuitPolicy()), **(circuit or {})}],
        "run_policies": runs,
        "dependencies": dependencies,
        "tools": entries,
        "default_circuit_policy": 0,
        "default_run_policy": 1,
    }


def run_policy(**changes: Any) -> dict[str, Any]:
    return {**to_wire(RunPolicy()), **changes}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    plane: FakeControlPlane

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_all(self) -> None:
        """Cut every connection, as a killed server does."""
        for request in list(self._open):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Peers that go away are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _serve(self, raw: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.plane.answer(self.command, self.path, headers, raw, self.client_address)
        if answer == "stream":
            return self._stream()
        if answer.hang_until is not None:
            answer.hang_until.wait(30)
        body = answer.body if answer.body is not None else b""
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if answer.cut else body)
        if answer.cut:
            self.close_connection = True

    def _stream(self) -> None:
        chunked = self.server.plane.chunked
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        stream = self.server.plane.open_stream()
        try:
            while (block := stream.get()) is not None:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if chunked else block)
                self.wfile.flush()
        except OSError:
            pass
        finally:
            self.server.plane.close_stream(stream)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def _json(body: Any, headers: Mapping[str, str] | None = None) -> Scripted:
    return Scripted(
        200, body=json.dumps(body).encode(), headers={"Content-Type": "application/json", **(headers or {})}
    )
