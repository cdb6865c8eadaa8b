"""What stands between an agent and its control plane: TCP relays that hold back, tunnel, encrypt or count."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

Serve = Callable[[socket.socket], None]


class Listener:
    """Serves every connection in a thread of its own, on a loopback port."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._socket.getsockname()[1])
        self.served = 0
        self.heads: list[bytes] = []

    def __enter__(self) -> Any:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.served += 1
            threading.Thread(target=self._guarded, args=(connection,), daemon=True).start()

    def _guarded(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            self._serve(connection)


class HoldingProxy(Listener):
    """Holds back what the server says of a stream until 4 KiB have come together, and cuts what idles for too long."""

    def __init__(self, port: int, *, at_least: int = 4096, cut_after_s: float = 30.0) -> None:
        super().__init__(self._relay)
        self._to = port
        self._at_least = at_least
        self._cut_after_s = cut_after_s
        self.cuts = 0

    def _relay(self, agent: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._to)) as server:
            held, streaming, passed_at = b"", False, time.monotonic()
            while True:
                ready, _, _ = select.select([agent, server], [], [], 0.02)
                if agent in ready:
                    data = agent.recv(65536)
                    if not data:
                        return
                    streaming = streaming or b"/agent/v1/stream" in data
                    server.sendall(data)
                if server in ready:
                    data = server.recv(65536)
                    if not data:
                        return
                    held += data
                if held and (not streaming or len(held) >= self._at_least):
                    agent.sendall(held)
                    held, passed_at = b"", time.monotonic()
                if streaming and time.monotonic() - passed_at > self._cut_after_s:
                    self.cuts += 1
                    return


class ForwardProxy(Listener):
    """An HTTP proxy: CONNECT for https, whole addresses for http."""

    def __init__(self) -> None:
        super().__init__(self._forward)

    def _forward(self, agent: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += agent.recv(65536)
        self.heads.append(head)
        method, target, _ = head.split(b"\r\n")[0].split(b" ")
        authority = target if method == b"CONNECT" else target.split(b"/")[2]
        host, _, port = authority.decode().rpartition(":")
        with socket.create_connection((host, int(port))) as server:
            if method == b"CONNECT":
                agent.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server.sendall(head)
            _pump(agent, server)


def _pump(one: socket.socket, other: socket.socket) -> None:
    while True:
        for ready in select.select([one, other], [], [])[0]:
            data = ready.recv(65536)
            if not data:
                return
            (other if ready is one else one).sendall(data)
