"""What it means when a prober's work ends in an exception."""

import ssl
from collections.abc import Iterator

import httpcore
import httpx
from recloser.core.probe import Fault

from controlplane import egress
from workers.probers.answer import Fell


def fault_of(error: BaseException, time_limit_s: float) -> tuple[Fault, str]:
    """The kind of failure, and our own words for it."""
    for each in _chain(error):
        if known := _known(each):
            return known
    if isinstance(error, TimeoutError | httpx.TimeoutException | httpcore.TimeoutException):
        return Fault.TIMEOUT, f"no full answer within {time_limit_s:g} s"
    if any(isinstance(each, ssl.SSLError) for each in _chain(error)):
        return Fault.CONNECT, "no TLS connection"
    if isinstance(error, httpx.ConnectError | httpcore.ConnectError | ConnectionRefusedError):
        return Fault.CONNECT, "no connection"
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return Fault.SPEC, "the request cannot be sent as written"
    return Fault.BROKEN, f"the answer broke off or was malformed ({type(error).__name__})"


def _known(error: BaseException) -> tuple[Fault, str] | None:
    match error:
        case Fell():
            return error.fault, error.detail
        case ssl.SSLCertVerificationError():
            return Fault.CERTIFICATE, error.verify_message
        case egress.Blocked():
            return Fault.REFUSED_ADDRESS, f"{error}: {egress.MENDING}"
        case egress.Unresolvable():
            return Fault.RESOLVE, str(error)
        case egress.ProxyRefused():
            return Fault.GATE, str(error)
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
