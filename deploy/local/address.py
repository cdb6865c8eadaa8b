"""Where the web entry listens, checked before anything starts."""

import errno
import os
import socket
from dataclasses import dataclass

from deploy.local.problem import Problem

EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 (we compare with it)


@dataclass(frozen=True)
class Address:
    """A host and a port to listen on."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """What a browser on this machine opens."""
        host = "127.0.0.1" if self.host in EVERYWHERE else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def answers(self) -> bool:
        """True when something accepts connections there."""
        host = "127.0.0.1" if self.host in EVERYWHERE else self.host
        try:
            socket.create_connection((host, self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def check_free(self) -> None:
        """Raise a Problem when we could not listen there."""
        if (error := self._bind()) is None:
            return
        if error.errno == errno.EADDRINUSE:
            raise Problem(
                f"port {self.port} is taken by another program:"
                f" set RECLOSER_PORT={self._next_free()}, or stop that program"
            )
        if error.errno == errno.EACCES:
            raise Problem(f"port {self.port} needs more rights than we have: set RECLOSER_PORT to one above 1023")
        raise Problem(
            f"cannot listen on {self.host} ({error.strerror or error}): set RECLOSER_HOST to an address of this machine"
        )

    def _bind(self) -> OSError | None:
        try:
            family, kind, proto, _, place = socket.getaddrinfo(
                self.host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, proto) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
        except OSError as error:
            return error
        return None

    def _next_free(self) -> int:
        later = (port for port in range(self.port + 1, 65536) if Address(self.host, port)._bind() is None)
        return next(later, 8000)


def from_environment() -> Address:
    """RECLOSER_HOST and RECLOSER_PORT, else 127.0.0.1:8000."""
    port = os.environ.get("RECLOSER_PORT") or "8000"
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise Problem(f"RECLOSER_PORT is {port!r}: set it to a number from 1 to 65535")
    return Address(os.environ.get("RECLOSER_HOST") or "127.0.0.1", int(port))
