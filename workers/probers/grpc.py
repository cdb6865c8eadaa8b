"""The gRPC prober: `grpc.health.v1.Health/Check` over HTTP/2, on a connection of the guard's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import httpcore
from recloser.core.probe import Fault

from controlplane.probe_spec.grpc import GrpcSpec
from workers.egress import GuardedBackend
from workers.probers.answer import Fell, Findings, Unmet
from workers.probers.stream import connection
from workers.probers.web import USER_AGENT, shown_headers

CHECK = "/grpc.health.v1.Health/Check"
SERVING = 1
STATES = {0: "unknown", 1: "serving", 2: "not serving", 3: "service unknown"}
OK, INVALID, NOT_FOUND, PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED = 0, 3, 5, 7, 12, 16
LONGEST_ANSWER = 4096


def asked(spec: GrpcSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The check, of which service."""
    told = {"method": "Health/Check", "address": spec.shown_address, "service": spec.service or "the whole server"}
    return told | ({"headers": shown_headers({}, secrets)} if secrets else {})


async def converse(
    spec: GrpcSpec, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
) -> None:
    """Ask for the service's health."""
    name = (spec.server_name or spec.host) if spec.tls else ""
    async with connection(backend, spec.host, spec.port, found, tls_name=name, protocols=("h2",)) as stream:
        answer = await _call(stream, _headers(spec, secrets), _request(spec.service))
    _hold(answer, found)


@dataclass
class _Answer:
    """What a call came to: headers and trailers, and the bytes of its message."""

    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    ended: bool = False


def _headers(spec: GrpcSpec, secrets: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (":method", "POST"),
        (":scheme", "https" if spec.tls else "http"),
        (":path", CHECK),
        (":authority", spec.server_name or spec.shown_address),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", USER_AGENT),
        *((name.casefold(), value) for name, value in secrets.items()),
    ]


def _request(service: str) -> bytes:
    """A message with one text field, behind its length."""
    name = service.encode()
    message = (b"\x0a" + _varint(len(name)) + name) if name else b""
    return b"\x00" + len(message).to_bytes(4, "big") + message


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


async def _call(stream: httpcore.AsyncNetworkStream, headers: list[tuple[str, str]], body: bytes) -> _Answer:
    talk = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    talk.initiate_connection()
    number = talk.get_next_available_stream_id()
    talk.send_headers(number, headers)
    talk.send_data(number, body, end_stream=True)
    answer = _Answer()
    try:
        while not answer.ended:
            await stream.write(talk.data_to_send())
            data = await stream.read(65_536)
            if not data:
                raise httpcore.ReadError("it ended early")
            for event in talk.receive_data(data):
                _take(event, talk, answer)
    except h2.exceptions.ProtocolError:
        raise Fell(Fault.BROKEN, "this is no HTTP/2 server") from None
    return answer


def _take(event: h2.events.Event, talk: h2.connection.H2Connection, answer: _Answer) -> None:
    match event:
        case h2.events.ResponseReceived() | h2.events.TrailersReceived():
            answer.headers |= {str(name): str(value) for name, value in event.headers or []}
        case h2.events.DataReceived():
            answer.body = (answer.body + (event.data or b""))[:LONGEST_ANSWER]
            talk.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        case h2.events.StreamEnded():
            answer.ended = True
        case h2.events.StreamReset() | h2.events.ConnectionTerminated():
            raise Fell(Fault.BROKEN, "the server broke off the call")


def _hold(answer: _Answer, found: Findings) -> None:
    status = answer.headers.get(":status", "")
    found.status = int(status) if status.isdigit() else None
    if found.status != 200:
        raise Unmet("status", "200", found.status)
    code = answer.headers.get("grpc-status", "")
    if not code.isdigit():
        raise Fell(Fault.BROKEN, "this is no gRPC server")
    _demand_ok(int(code))
    state = _state(answer.body)
    if state != SERVING:
        raise Unmet("serving", "serving", STATES.get(state, "unknown"))


def _demand_ok(code: int) -> None:
    if code in (UNAUTHENTICATED, PERMISSION_DENIED):
        raise Fell(Fault.CREDENTIALS, f"the server does not let the probe in (gRPC status {code})")
    if code in (INVALID, NOT_FOUND, UNIMPLEMENTED):
        mend = "it knows no such service" if code == NOT_FOUND else "it has no health check"
        raise Fell(Fault.BAD_REQUEST, f"{mend} (gRPC status {code})")
    if code != OK:
        raise Unmet("grpc_status", "0", code)


def _state(body: bytes) -> int:
    """The one field of the answer; none at all is its zero."""
    message = body[5:]
    return message[1] if len(message) > 1 and message[0] == 8 else 0
