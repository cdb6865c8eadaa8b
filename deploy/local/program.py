"""What runs under the supervisor."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from deploy.local.address import Address
from deploy.local.problem import Problem


@dataclass(frozen=True)
class Program:
    """A name for the log and a command."""

    name: str
    command: tuple[str, ...]


def preparation() -> tuple[Program, ...]:
    """What must end well before anything starts; one process, since loading Django takes longer than the work."""
    return (Program("setup", (sys.executable, "manage.py", "bootstrap", "--migrate", "--collectstatic")),)


def standing(address: Address) -> tuple[Program, ...]:
    """The processes that make a control plane, in the order in which they stop."""
    return (
        Program("scheduler", (sys.executable, "manage.py", "run_scheduler")),
        Program(
            "web",
            (
                *(sys.executable, "-m", "uvicorn", "controlplane.asgi:application"),
                *("--host", address.host, "--port", str(address.port)),
                # Open streams would keep it from ever ending.
                *("--timeout-graceful-shutdown", "3"),
                *("--no-proxy-headers", "--no-server-header", "--no-access-log", "--no-use-colors"),
                *("--log-level", "warning"),
            ),
        ),
        Program(
            "worker",
            (
                # Celery's eight lines on running as root are said by us in one.
                *(sys.executable, "-W", "ignore:You're running the worker", "-m", "celery", "--quiet"),
                *("-A", "controlplane", "worker", "--pool", "threads", "--concurrency", "16"),
                *("--loglevel", "info", "--without-gossip", "--without-mingle"),
            ),
        ),
    )


def from_procfile(path: Path) -> tuple[Program, ...]:
    """Other processes than ours, one `name: command` a line."""
    try:
        lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    except OSError as error:
        raise Problem(f"cannot read {path} ({error.strerror}): name a file of lines `name: command`") from None
    return tuple(_parse(line) for line in lines)


def _parse(line: str) -> Program:
    name, colon, command = line.partition(":")
    if not colon or not command.strip():
        raise Problem(f"cannot use the line {line!r}: write `name: command`")
    return Program(name.strip(), tuple(shlex.split(command)))
