"""The PostgreSQL prober: one statement, read-only by the transaction, bounded in time and in what comes back."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpcore
import psycopg
from psycopg import sql, waiting
from psycopg.abc import PQGen
from recloser.core.probe import Fault

from controlplane.masking import MASK
from controlplane.probe_spec.postgres import PostgresSpec
from workers import egress
from workers.egress import BODY_CAP, GuardedBackend
from workers.probers.answer import Fell, Findings, Unmet

NOWHERE = "/nonexistent/recloser"
"""For files that libpq would otherwise look for in the home of whoever runs this."""

SSL_MODES = {"verify": "verify-full", "encrypt": "require", "off": "disable"}
_CERTIFICATE = ("certificate", "root certificate", "does not match host name")
_CREDENTIALS = ("authentication failed", "no pg_hba.conf entry", "password supplied", "permission denied")
_ASKED_BADLY = ("does not exist", "server does not support SSL")


def asked(spec: PostgresSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The statement, and as whom."""
    told = {"method": "SELECT", "address": spec.shown_address, "database": spec.database, "user": spec.user}
    return told | {"statement": spec.statement[:500]} | ({"password": MASK} if secrets.get("password") else {})


async def converse(
    spec: PostgresSpec, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
) -> None:
    """Ask for the first row, as JSON."""
    async with _way(spec, backend) as where:
        try:
            connection = await _Impatient.connect(**_parameters(spec, secrets, where, time_limit_s))
        except psycopg.OperationalError as error:
            raise _unconnected(str(error)) from None
        backend.connected()
        try:
            await connection.set_read_only(True)
            found.seen.body = await _first_row(connection, spec.statement, time_limit_s)
        except psycopg.Error as error:
            raise _failed(error.sqlstate or "") from None
        finally:
            with suppress(psycopg.Error):
                connection.pgconn.finish()


class _Impatient(psycopg.AsyncConnection[Any]):
    """One that is left at once when its time is over; the server ends the statement by its own limit."""

    async def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        """Without a cancellation that would have to be waited for."""
        try:
            return await waiting.wait_async(gen, self.pgconn.socket, interval=interval, timeout=timeout)
        except asyncio.CancelledError:
            self.pgconn.finish()
            raise


def _parameters(
    spec: PostgresSpec, secrets: Mapping[str, str], where: Mapping[str, str], time_limit_s: float
) -> dict[str, Any]:
    """Everything that libpq would otherwise take from its surroundings is said."""
    return {
        **where,
        "dbname": spec.database,
        "user": spec.user,
        "password": secrets.get("password") or "",
        "passfile": NOWHERE,
        "sslmode": SSL_MODES[spec.tls],
        "sslrootcert": egress.authorities(),
        "sslcert": NOWHERE,
        "sslkey": NOWHERE,
        "gssencmode": "disable",
        "client_encoding": "utf8",
        "options": "",
        "application_name": "recloser-probe",
        "connect_timeout": max(2, math.ceil(time_limit_s)),
        "target_session_attrs": "any",
    }


@asynccontextmanager
async def _way(spec: PostgresSpec, backend: GuardedBackend) -> AsyncIterator[dict[str, str]]:
    """The checked addresses; with an egress proxy a port of ours, behind which is the connection that it made."""
    if backend.proxy is None:
        addresses = await backend.addresses(spec.host, spec.port)
        every = {"host": spec.host, "hostaddr": "", "port": str(spec.port)}
        yield {name: ",".join([value] * len(addresses)) for name, value in every.items()} | {
            "hostaddr": ",".join(addresses)
        }
        return
    stream = await backend.connect_tcp(spec.host, spec.port)
    server = await asyncio.start_server(lambda reader, writer: _relay(reader, writer, stream), "127.0.0.1", 0)
    try:
        yield {"host": spec.host, "hostaddr": "127.0.0.1", "port": str(server.sockets[0].getsockname()[1])}
    finally:
        server.close()
        await stream.aclose()


async def _relay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: httpcore.AsyncNetworkStream
) -> None:
    back = asyncio.create_task(_back(stream, writer))
    try:
        while data := await reader.read(65_536):
            await stream.write(data)
    except (httpcore.WriteError, OSError):
        pass
    finally:
        back.cancel()
        writer.close()


async def _back(stream: httpcore.AsyncNetworkStream, writer: asyncio.StreamWriter) -> None:
    with suppress(httpcore.ReadError, OSError):
        while data := await stream.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _first_row(connection: psycopg.AsyncConnection[Any], statement: str, time_limit_s: float) -> str | None:
    """As JSON, cut at the cap. Prepared, the server takes one statement only; as a subquery, only one that reads."""
    limit = sql.Literal(int(time_limit_s * 1000))
    await connection.execute(sql.SQL("SET LOCAL statement_timeout = {}").format(limit))
    wrapped = f"SELECT left(row_to_json(q)::text, {BODY_CAP}) FROM (\n{statement}\n) AS q LIMIT 1"  # noqa: S608
    cursor = await connection.execute(wrapped.encode(), prepare=True)
    row = await cursor.fetchone()
    return row[0] if row else None


def _unconnected(said: str) -> Fell:
    """libpq gives no code at this point, only words; none of them are kept."""
    if any(words in said for words in _CERTIFICATE):
        wrong_name = "does not match host name" in said
        return Fell(Fault.CERTIFICATE, "it is another name's" if wrong_name else "the certificate is not trusted")
    if any(words in said for words in _CREDENTIALS):
        return Fell(Fault.CREDENTIALS, "the server does not let this user in")
    if any(words in said for words in _ASKED_BADLY):
        return Fell(Fault.BAD_REQUEST, "the server has no such database or user, or offers no TLS")
    return Fell(Fault.CONNECT, "no connection, or one that the server refused")


def _failed(code: str) -> Exception:
    """By the class of the server's code."""
    if code == "57014":
        return Fell(Fault.TIMEOUT, "the server stopped the statement at the time limit")
    if code == "42501":
        return Fell(Fault.CREDENTIALS, "this user may not read that")
    if code == "25006":
        return Fell(Fault.SPEC, "the statement would change something")
    if code[:2] in ("42", "22", "0A"):
        return Fell(Fault.BAD_REQUEST, f"the server refused the statement ({code})")
    if not code:
        return Fell(Fault.BROKEN, "the connection broke off")
    return Unmet("answer", "a row", code)
