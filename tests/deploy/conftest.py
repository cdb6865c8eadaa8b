"""Real servers and real supervisors in folders of their own; nothing of the test session's servers reaches them."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local.places import PROJECT

# A web entry that answers, and nothing else: starts in a fraction of the real one's time.
WEB = "web: {python} -u -m http.server --bind 127.0.0.1 {port}\n"

# One that says nothing more is killed, so that a test fails instead of waiting for ever.
PATIENCE_S = 120.0


def clean_environment(**more: str) -> dict[str, str]:
    """Ours, without what points to other servers."""
    hidden = ("DATABASE_URL", "REDIS_URL", "DJANGO_", "RECLOSER_", "PYTEST_")
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)} | more


class Up:
    """A running `python -m deploy.local up`."""

    def __init__(self, command: list[str], environment: dict[str, str], **options: object) -> None:
        self.lines: list[str] = []
        self._patience = threading.Timer(PATIENCE_S, lambda: self.process.kill())
        self.process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )
        self._patience.start()

    def until(self, pattern: str) -> re.Match[str]:
        """Read on to the line that matches; fail with all that was said when it never comes."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if found := re.search(pattern, line):
                return found
        pytest.fail(f"never said {pattern!r}:\n" + "\n".join(self.lines))

    def forget_patience(self) -> None:
        """The test is over; whoever ends it has patience of its own."""
        self._patience.cancel()

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal and read to the end; the exit code."""
        self.process.send_signal(number)
        return self.rest()

    def rest(self) -> int:
        """Read to the end; the exit code."""
        assert self.process.stdout
        self.lines += self.process.stdout.read().splitlines()
        self.process.stdout.close()
        self._patience.cancel()
        return self.process.wait(30)


class Ground:
    """A data folder, a free port and a list of processes to start."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self.programs = WEB.format(python=sys.executable, port=self.port)
        self.started: list[Up] = []
        self.servers = False  # most stand-ins need none, and the supervisor starts none that are given

    def up(self, *, options: dict[str, object] | None = None, **environment: str) -> Up:
        """Start a supervisor on this ground."""
        procfile = self.data.parent / "Procfile"
        procfile.write_text(self.programs)
        procfile.chmod(0o644)
        given = {"RECLOSER_DATA_DIR": str(self.data), "RECLOSER_PORT": str(self.port)} | environment
        if not self.servers:
            given |= {"DATABASE_URL": "postgresql://unused.example/", "REDIS_URL": "redis://unused.example/"}
        command = [sys.executable, "-m", "deploy.local", "up", "--procfile", str(procfile)]
        started = Up(command, clean_environment(**given), **(options or {}))
        self.started.append(started)
        return started

    def running(self, **environment: str) -> Up:
        """The same, once its web entry answers."""
        started = self.up(**environment)
        started.until("the dashboard is at")
        return started


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the servers' account can reach; pytest's own are closed to it."""
    with tempfile.TemporaryDirectory(prefix="rcl-deploy-", dir="/tmp", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o711)
        yield Path(made)


@pytest.fixture
def ground(folder: Path) -> Iterator[Ground]:
    made = Ground(folder / "data")
    yield made
    for started in made.started:
        started.forget_patience()
        if started.process.poll() is None:
            started.process.send_signal(signal.SIGINT)
            started.end(signal.SIGTERM)  # the second signal waits for nobody


@pytest.fixture
def whole_ground(ground: Ground) -> Ground:
    """One whose supervisor starts the embedded servers too."""
    ground.servers = True
    return ground


@pytest.fixture
def no_servers_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that start servers in this process: the session's own are not to be used."""
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def python(folder: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a few lines in a process of their own, with a clean environment."""

    def run(code: str, *, environment: dict[str, str] | None = None, program: str = sys.executable, **options: object):
        return subprocess.run(
            [program, "-c", code],
            cwd=PROJECT,
            env=clean_environment(**(environment or {})),
            capture_output=True,
            text=True,
            timeout=60,
            **options,
        )

    return run
