"""The sockets of a control plane for tests: HTTP on a loopback port, and event streams that stay open."""

from __future__ import annotations

import contextlib
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recloser.testing.plane import FakeControlPlane

NO_ANSWER = 0
"""A scripted status: the connection ends without a word."""


class Server(ThreadingHTTPServer):
    """A thread a connection; `close_all` cuts them as a killed server would."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    plane: FakeControlPlane

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget it."""
        self._open.discard(request)
        super().shutdown_request(request)

    def close_all(self) -> None:
        """Cut every connection, as a killed server does."""
        for request in list(self._open):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Peers that go away are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    """Asks the control plane for an answer and writes it, whole, cut off or as a stream."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        """A document, or the stream."""
        self._serve(b"")

    def do_POST(self) -> None:
        """A batch."""
        self._serve(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _serve(self, raw: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.plane.answer(self.command, self.path, headers, raw, self.client_address)
        if answer == "stream":
            self._stream()
            return
        if answer.hang_until is not None:
            answer.hang_until.wait(30)
        if answer.status == NO_ANSWER:
            self.close_connection = True
            return
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
