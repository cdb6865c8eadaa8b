"""The DNS prober: one question to one name server, over UDP, or over TCP where the answer or the way out wants it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import httpcore
from recloser.core.probe import Fault

from controlplane.probe_spec.dns import DnsSpec
from workers.egress import GuardedBackend
from workers.probers.answer import Fell, Findings, Unmet
from workers.probers.stream import connection

RESEND_S = 1.0
"""UDP loses packets: after so long the question is sent again."""

_REFUSALS = frozenset({dns.rcode.REFUSED, dns.rcode.FORMERR, dns.rcode.NOTIMP, dns.rcode.NOTAUTH})


def asked(spec: DnsSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The question."""
    return {"method": f"DNS {spec.record}", "address": spec.shown_address, "name": spec.name}


async def converse(
    spec: DnsSpec, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
) -> None:
    """Ask, and list the records of the answer."""
    query = dns.message.make_query(spec.name, spec.record)
    answer = None if backend.proxy else await _over_udp(spec, query, backend)
    if answer is None or answer.flags & dns.flags.TC:
        answer = await _over_tcp(spec, query, backend, found)
    _hold(spec, answer, found)


def _hold(spec: DnsSpec, answer: dns.message.Message, found: Findings) -> None:
    code = answer.rcode()
    if code in _REFUSALS:
        raise Fell(Fault.BAD_REQUEST, f"the name server refused the question ({dns.rcode.to_text(code)})")
    wanted = dns.rdatatype.from_text(spec.record)
    records = {str(each) for rows in answer.answer if rows.rdtype == wanted for each in rows}
    if code != dns.rcode.NOERROR or not records:
        raise Unmet("answer", f"a record of kind {spec.record}", dns.rcode.to_text(code) if code else "none")
    found.seen.listed = frozenset(
        records | {each.removesuffix(".") for each in records} | {each.strip('"') for each in records}
    )


async def _over_udp(spec: DnsSpec, query: dns.message.Message, backend: GuardedBackend) -> dns.message.Message:
    [address, *_] = await backend.addresses(spec.server, spec.port)
    loop, wire = asyncio.get_running_loop(), query.to_wire()
    transport, heard = await loop.create_datagram_endpoint(_Heard, remote_addr=(address, spec.port))
    backend.connected()
    try:
        while True:
            transport.sendto(wire)
            try:
                async with asyncio.timeout(RESEND_S):
                    return await heard.answer_to(query)
            except TimeoutError:
                continue
    finally:
        transport.close()


class _Heard(asyncio.DatagramProtocol):
    """Datagrams as they come, from the one address that we are connected to."""

    def __init__(self) -> None:
        self._heard: asyncio.Queue[bytes | Exception] = asyncio.Queue(maxsize=100)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Keep it; a flood is not kept."""
        if not self._heard.full():
            self._heard.put_nowait(data)

    def error_received(self, exc: Exception) -> None:
        """Nobody listens there."""
        if not self._heard.full():
            self._heard.put_nowait(exc)

    async def answer_to(self, query: dns.message.Message) -> dns.message.Message:
        """The first that answers this question; others are somebody's forgery."""
        while True:
            heard = await self._heard.get()
            if isinstance(heard, Exception):
                raise heard
            try:
                answer = dns.message.from_wire(heard)
            except (dns.exception.DNSException, ValueError):
                continue
            if query.is_response(answer):
                return answer


async def _over_tcp(
    spec: DnsSpec, query: dns.message.Message, backend: GuardedBackend, found: Findings
) -> dns.message.Message:
    wire = query.to_wire()
    async with connection(backend, spec.server, spec.port, found) as stream:
        await stream.write(len(wire).to_bytes(2, "big") + wire)
        length = int.from_bytes(await _exactly(stream, 2), "big")
        answer = dns.message.from_wire(await _exactly(stream, length))
    if not query.is_response(answer):
        raise Fell(Fault.BROKEN, "the name server answered another question")
    return answer


async def _exactly(stream: httpcore.AsyncNetworkStream, length: int) -> bytes:
    heard = b""
    while len(heard) < length:
        more = await stream.read(length - len(heard))
        if not more:
            raise httpcore.ReadError("it ended early")
        heard += more
    return heard
