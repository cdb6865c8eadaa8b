"""Real servers to probe, one for each kind, on loopback: each gives the port that it listens on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

NAME = "vendor.example"


def _socket_of(url: str) -> tuple[str, str]:
    """The folder or path of a server's socket, and the name of its database."""
    parts = urlsplit(url)
    host = parse_qs(parts.query).get("host", [""])[0]
    return host or parts.path, parts.path.strip("/")


def postgres_socket() -> str:
    return _socket_of(os.environ["DATABASE_URL"])[0] + "/.s.PGSQL.5432"


def postgres_database() -> str:
    return _socket_of(os.environ["DATABASE_URL"])[1]


def valkey_socket() -> str:
    return _socket_of(os.environ["REDIS_URL"])[0]


@contextlib.asynccontextmanager
async def listening(handle, tls: ssl.SSLContext | None = None):
    """A server whose connections are handed to `handle(reader, writer)`; gives its port."""
    tasks: set[asyncio.Task] = set()

    async def taken(reader, writer):
        tasks.add(asyncio.current_task())
        try:
            await handle(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            tasks.discard(asyncio.current_task())

    server = await asyncio.start_server(taken, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def pipe(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def joined(reader, writer, onward):
    """Carry both ways until both have ended."""
    far_reader, far_writer = onward
    try:
        await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))
    finally:
        far_writer.close()


def to_socket(path: str):
    async def handle(reader, writer):
        await joined(reader, writer, await asyncio.open_unix_connection(path))

    return handle


def postgres_over_tls(context: ssl.SSLContext):
    """Postgres as one that offers TLS: the test's own server has none built in."""

    async def handle(reader, writer):
        assert await reader.readexactly(8) == b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
        writer.write(b"S")
        await writer.drain()
        async with asyncio.timeout(5):
            await writer.start_tls(context)
        await joined(reader, writer, await asyncio.open_unix_connection(postgres_socket()))

    return handle


async def silent(reader, writer):
    """Accepts and says nothing."""
    await asyncio.sleep(60)


async def resetting(reader, writer):
    await reader.read(1)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00" + b"\x00" * 4)
    writer.transport.abort()


async def babbling(reader, writer):
    """Answers everything with what no protocol begins with."""
    await reader.read(1)
    writer.write(b"\x00\x01 what a day \r\n\r\n" * 2000)
    await writer.drain()
    await asyncio.sleep(60)


def greeting(text: bytes):
    async def handle(reader, writer):
        writer.write(text)
        await writer.drain()
        await reader.read(1)

    return handle


@dataclass
class Proxy:
    """An HTTP proxy that only knows CONNECT; what it was asked for, and with which credentials."""

    status: int = 200
    targets: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)

    async def handle(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        self.targets.append(first.split(" ")[1])
        self.credentials += [line.split(": ", 1)[1] for line in lines if line.startswith("Proxy-Authorization")]
        writer.write(f"HTTP/1.1 {self.status} Whatever\r\nVia: us\r\n\r\n".encode())
        await writer.drain()
        if self.status == 200:
            host, _, port = self.targets[-1].rpartition(":")
            await joined(reader, writer, await asyncio.open_connection(host.strip("[]"), int(port)))


class Names:
    """A name server, over UDP and TCP on one port; each name is a fault of its own."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.lost = 0

    def answer(self, wire: bytes, over: str) -> list[bytes]:
        query = dns.message.from_wire(wire)
        name = query.question[0].name.to_text()
        self.asked.append((over, name))
        reply = dns.message.make_response(query)
        kind = name.split(".")[0]
        if kind == "refused":
            reply.set_rcode(dns.rcode.REFUSED)
        elif kind == "broken":
            reply.set_rcode(dns.rcode.SERVFAIL)
        elif kind == "nowhere":
            reply.set_rcode(dns.rcode.NXDOMAIN)
        elif kind == "long" and over == "udp":
            reply.flags |= dns.flags.TC
        elif kind != "empty":
            reply.answer.append(dns.rrset.from_text(name, 60, "IN", "A", "192.0.2.7", "192.0.2.8"))
        if kind == "forged":
            other = dns.message.make_response(dns.message.make_query(name, "A"))
            other.answer.append(dns.rrset.from_text(name, 60, "IN", "A", "203.0.113.66"))
            return [other.to_wire(), b"\x00nonsense", reply.to_wire()]
        return [reply.to_wire()]

    @contextlib.asynccontextmanager
    async def serving(self):
        names = self

        class Udp(asyncio.DatagramProtocol):
            def connection_made(self, transport):
                self.transport = transport

            def datagram_received(self, data, addr):
                if names.lost:
                    names.lost -= 1
                    return
                for each in names.answer(data, "udp"):
                    self.transport.sendto(each, addr)

        async def tcp(reader, writer):
            length = int.from_bytes(await reader.readexactly(2), "big")
            [reply, *_] = self.answer(await reader.readexactly(length), "tcp")
            writer.write(len(reply).to_bytes(2, "big") + reply)
            await writer.drain()

        async with listening(tcp) as port:
            udp, _ = await asyncio.get_running_loop().create_datagram_endpoint(Udp, local_addr=("127.0.0.1", port))
            try:
                yield port
            finally:
                udp.close()


class McpServer:
    """A server from the official SDK, with both transports, in a thread."""

    def __enter__(self) -> McpServer:
        import uvicorn
        from mcp.server.mcpserver import MCPServer
        from mcp.server.transport_security import TransportSecuritySettings
        from starlette.applications import Starlette
        from starlette.routing import Mount

        server = MCPServer("casts", log_level="ERROR")
        self.called: list[str] = []

        @server.tool()
        def search(query: str) -> str:
            self.called.append(query)
            return f"results for {query}"

        @server.tool()
        def fail() -> str:
            raise ValueError("no")

        known = TransportSecuritySettings(allowed_hosts=[f"{NAME}:*"])
        streaming = server.streamable_http_app(transport_security=known)
        sse = server.sse_app(transport_security=known)
        app = Starlette(routes=[*streaming.routes, Mount("/", sse)], lifespan=lambda _: server.session_manager.run())
        self._server = uvicorn.Server(
            uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", timeout_graceful_shutdown=1)
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        ends = threading.Event()
        for _ in range(200):
            if self._server.started:
                break
            ends.wait(0.05)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(10)


class GrpcServer:
    """A server with the standard health service, in the clear and over TLS."""

    def __init__(self, certificate) -> None:
        self._certificate = certificate

    def __enter__(self) -> GrpcServer:
        import grpc
        from grpc_health.v1 import health, health_pb2, health_pb2_grpc

        self._states = health_pb2.HealthCheckResponse
        self.health = health.HealthServicer()
        self._server = grpc.server(ThreadPoolExecutor(4))
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        made = grpc.ssl_server_credentials([(self._certificate.key, self._certificate.pem)])
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self.tls_port = self._server.add_secure_port("127.0.0.1:0", made)
        self.set("", serving=True)
        self.set("search", serving=True)
        self._server.start()
        return self

    def set(self, service: str, *, serving: bool) -> None:
        self.health.set(service, self._states.SERVING if serving else self._states.NOT_SERVING)

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait(10)
