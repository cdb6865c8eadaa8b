"""A control plane for tests: real sockets, the real protocol, and answers that a test may script one by one."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import queue
import tempfile
import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs

from recloser.client import Client
from recloser.core.circuit import verdict_of
from recloser.core.policy import handled_as, resolve_circuit, resolve_run, to_wire
from recloser.core.types import Outcome, SideEffectClass, Verdict
from recloser.link import Pace
from recloser.run import Run
from recloser.testing import clock
from recloser.testing.documents import KEY, NOW, config_document
from recloser.testing.server import NO_ANSWER, Handler, Server
from recloser.wire import wire_id

FAST = Pace(
    flush_s=0.2,
    poll_config_s=0.3,
    poll_circuits_s=0.2,
    poll_live_s=0.5,
    retry_base_s=0.05,
    retry_cap_s=0.2,
    stream_base_s=0.1,
    stream_cap_s=0.3,
    save_circuits_s=0.1,
)
"""A pace for tests: what waits seconds in production waits tenths here."""
PATIENCE_S = 10.0
"""How long a test waits for what must come; a deadline, never a delay."""


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
    """A refusal in the protocol's one shape."""
    body = {"error": {"code": code, "field": field, "message": f"scripted {code}", "mend": "none"}}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Scripted(status, body=json.dumps(body).encode(), headers=headers)


class FakeControlPlane:
    """Speaks the agent protocol on a loopback port, as a context manager. Everything that was sent is kept for asking.

    Of what a real control plane does it keeps the documents, the stream and exact acknowledgement. It judges nothing:
    a circuit opens when the test says so.
    """

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
        self.places = 3
        self.permits: list[dict[str, Any]] = []
        """Every request about a permit, in order."""
        self.judge: Callable[[Any], Scripted | None] = lambda body: None
        """Refuses batches by what is in them, where a test says so."""
        self._places: dict[str, str] = {}
        self._rounds: dict[str, str] = {}
        self._tools: dict[str, dict[str, Any]] = {}
        self._clients: list[Client] = []
        self._away = False
        self._scripts: dict[str, deque[Scripted]] = defaultdict(deque)
        self._streams: list[queue.Queue[bytes | None]] = []
        self._changed = threading.Condition()
        self._folder = tempfile.TemporaryDirectory(prefix="recloser-testing-")
        self._server = Server(("127.0.0.1", port), Handler)
        self._server.plane = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> FakeControlPlane:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close(0.5)
        self.drop_streams()
        self._server.shutdown()
        self._server.server_close()
        self._server.close_all()
        self._thread.join(5)
        self._folder.cleanup()

    @property
    def url(self) -> str:
        """The address for `Client` and RECLOSER_URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def folder(self) -> str:
        """Where its clients keep their documents; it goes with the control plane."""
        return self._folder.name

    # The fleet, by a line

    def client(self, **options: Any) -> Client:
        """A real client of this control plane that holds its documents; closed with it. Options are `Client`'s."""
        eager = dataclasses.replace(FAST, poll_config_s=0.0, poll_circuits_s=0.0)
        pace = eager if options.get("mode") == "invocation" else FAST
        settings = {"instance": "test", "cache_dir": self.folder, "pace": pace, "timeout_s": 2.0}
        client = Client(self.url, self.key, **{**settings, **options})
        self._clients.append(client)
        self._settle()
        return client

    def tool(
        self,
        name: str,
        *,
        dependencies: list[str] | None = None,
        side_effect: str = "read_only",
        confirmed: bool = True,
        operation: str | None = None,
        **run: Any,
    ) -> None:
        """Name a tool, its class and what its run policy sets, by the names of the policy's fields."""
        given = {"side_effect": side_effect, "confirmed": confirmed, "operation": operation, "run": run}
        self._tools[name] = given | ({"dependencies": dependencies} if dependencies else {})
        known = config_document(environment=self.environment, agent=self.agent, tools=self._tools)
        self.publish_config(**{part: known[part] for part in ("run_policies", "dependencies", "tools")})
        self._settle()

    def open(
        self,
        dependency: str,
        *,
        signal: str = "failure_rate",
        mode: str = "auto",
        due_in_s: float = 30.0,
        probed: bool = True,
    ) -> None:
        """Open a circuit for the whole fleet; on return every client of `client()` knows.

        Without a probe (`probed`) the calls of later runs test it, once it is due.
        """
        now = self.now()
        self._places.clear()
        entry: dict[str, Any] = {"state": "open", "mode": mode, "cause": signal, "tripped_by": signal, "probed": probed}
        self.set_circuit(dependency, **entry, opened_at=now, due_at=now + due_in_s)
        self._settle()

    def close(self, dependency: str) -> None:
        """Close it; on return every client of `client()` knows. Runs that lost a tool do without it to their end."""
        self.set_circuit(dependency, state="closed", mode="auto")
        self._settle()

    @contextlib.contextmanager
    def outage(self, *dependencies: str, signal: str = "failure_rate") -> Iterator[None]:
        """These circuits are open inside the block, and closed after it."""
        for each in dependencies:
            self.open(each, signal=signal)
        try:
            yield
        finally:
            for each in dependencies:
                self.close(each)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """The control plane itself cannot be reached inside the block: every connection is cut."""
        self._away = True
        self.drop_streams()
        try:
            yield
        finally:
            self._away = False

    def report(self, run: Run) -> dict[str, Any]:
        """The last report of a run that has ended, as the control plane has it; waits until it has come."""
        wanted = wire_id(run.id)

        def last() -> dict[str, Any] | None:
            mine = [one for one in self.stored("runs") if one["id"] == wanted and one["status"] != "running"]
            return mine[-1] if mine else None

        found: dict[str, Any] | bool = self.wait(last, PATIENCE_S)
        if not isinstance(found, dict):
            raise AssertionError(f"no report of run {run.id} came within {PATIENCE_S:g} s; was it finished?")
        return found

    def _settle(self) -> None:
        """Wait until every client holds the documents as they are now; one without a thread asks by itself."""
        waiting = [one for one in self._clients if not one.threadless and one.status()["mode"] == "connected"]
        if not self._away and not self.wait(lambda: all(map(self._is_current, waiting)), PATIENCE_S):
            raise AssertionError(f"a client did not hear of it within {PATIENCE_S:g} s: {waiting[0].status()}")

    def _is_current(self, client: Client) -> bool:
        status = client.status()
        wanted = (self.config["epoch"], self.config["version"]), self.circuits_version
        return tuple(tuple(status[one]["version"] or ()) for one in ("config", "circuits")) == wanted

    # What is said on the wire, by hand

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
        """Bytes to every open stream."""
        for stream in list(self._streams):
            stream.put(block)

    def drop_streams(self) -> None:
        """End every stream."""
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
        """How many streams are open."""
        return len(self._streams)

    def stored(self, kind: str) -> list[dict[str, Any]]:
        """All `observations`, `trips`, `runs` or `hints` that were taken, in order."""
        return [entry for batch in self.batches for entry in batch.get(kind, ())]

    def counts(self, tool: str) -> dict[str, int]:
        """Everything counted for a tool, by outcome."""
        total: dict[str, int] = defaultdict(int)
        for entry in self.stored("observations"):
            if entry["tool"] == tool:
                for outcome, n in entry["counts"].items():
                    total[outcome] += n
        return dict(total)

    def asked(self, route: str) -> list[tuple[str, str, dict[str, str], Any]]:
        """The requests on one route: method, path, headers, body."""
        return [request for request in self.requests if request[1].endswith(f"/{route}")]

    def now(self) -> float:
        """The server's clock; `Clock.advance` moves it, too."""
        return NOW + clock.monotonic()

    def circuits_document(self) -> dict[str, Any]:
        """As `GET circuits` answers it."""
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
        """One request's answer; the text "stream" where it is to stay open."""
        path, _, query = path.partition("?")
        route = path.rsplit("/", 1)[-1]
        body: Any = (
            json.loads(gzip.decompress(raw) if headers.get("content-encoding") == "gzip" else raw) if raw else None
        )
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
            if self._away:
                return Scripted(NO_ANSWER)
            if headers.get("authorization") != f"Bearer {self.key}":
                return error(401, "bad_key")
            match route:
                case "batch":
                    return self.judge(body) or _json(self._take(body))
                case "config":
                    return self._document(self.config | {"now": self.now()}, self.config["version"], headers)
                case "circuits":
                    return self._document(self.circuits_document(), self.circuits_version[1], headers)
                case "explain":
                    return _json(self._explained(parse_qs(query).get("tool", [""])[0]))
                case "permit":
                    return _json(self._permit(body))
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
        """Forget a stream that has ended."""
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

    def _permit(self, body: dict[str, Any]) -> dict[str, Any]:
        self.permits.append(body)
        match body["ask"]:
            case "place":
                return self._place(body["dependency"])
            case "claim":
                return self._claimed(self._places.get(body["place"]))
        name = self._rounds.pop(body["round"], None)
        if name is not None:
            self._tested(name, verdict_of(Outcome(body["outcome"])))
        return {"applied": name is not None}

    def _place(self, name: str) -> dict[str, Any]:
        entry = self.circuits.get(name, {})
        if entry.get("state") != "open" or len(self._places) >= self.places:
            return {"place": None, "reason": "enough candidates", "wait_s": 30.0, "generation": 0}
        place = str(uuid.uuid4())
        self._places[place] = name
        return {"place": place, "reason": "kept", "wait_s": 60.0, "generation": entry["generation"]}

    def _claimed(self, name: str | None) -> dict[str, Any]:
        if name is None or self.circuits[name]["state"] != "open":
            return {"round": None, "reason": "another round is in flight", "lease_s": 0.0}
        given = str(uuid.uuid4())
        self._rounds[given] = name
        self._change(name, state="half_open")
        return {"round": given, "reason": "granted", "lease_s": 60.0}

    def _tested(self, name: str, verdict: Verdict) -> None:
        if verdict is Verdict.GOOD:
            self.set_circuit(name, state="closed", mode="auto")
        else:
            self._change(name, state="open", due_at=self.now() + 30.0)

    def _change(self, name: str, **changed: Any) -> None:
        self.set_circuit(name, **{**self.circuits[name], "generation": self.circuits_version[1], **changed})

    def _explained(self, name: str) -> dict[str, Any]:
        entry = self.config["tools"].get(name)
        known = entry or {"policy": self.config["default_run_policy"], "side_effect": "unknown", "dependencies": [name]}
        handled = handled_as(SideEffectClass(known["side_effect"]), confirmed=known.get("confirmed", False))
        ours, theirs = resolve_run([], side_effect_class=handled), resolve_circuit([], side_effect_class=handled)
        run, circuit = self.config["run_policies"][known["policy"]], self.config["circuit_policies"][0]
        return {
            "environment": self.environment, "agent": self.agent, "format": 1, "now": self.now(), "near": None,
            "config": [self.config["epoch"], self.config["version"]], "tool": name, "known": entry is not None,
            "side_effect": known["side_effect"], "confirmed": known.get("confirmed", False),
            "handled_as": handled.value, "costly": False, "operation": known.get("operation"),
            "run": _with_origins(run, ours, "tool"),
            "dependencies": [
                {"name": one, "policy": _with_origins(circuit, theirs, "dependency"), "circuit": self.circuits.get(one)}
                for one in known["dependencies"]
            ],
        }  # fmt: skip

    def _document(self, document: dict[str, Any], version: int, headers: dict[str, str]) -> Scripted:
        etag = f'"{document["epoch"]}-{version}"'
        if headers.get("if-none-match") == etag:
            return Scripted(304, body=b"", headers={"ETag": etag})
        return _json(document, {"ETag": etag})


def _json(body: Any, headers: Mapping[str, str] | None = None) -> Scripted:
    return Scripted(
        200, body=json.dumps(body).encode(), headers={"Content-Type": "application/json", **(headers or {})}
    )


def _with_origins(values: Mapping[str, Any], preset: Any, otherwise: str) -> dict[str, Any]:
    """Each value with the layer it must have come from: what the class does not give, the tool or dependency set."""
    given = to_wire(preset.policy)
    return {
        name: {"value": value, "from": str(preset.origins[name]) if given[name] == value else otherwise}
        for name, value in values.items()
    }
