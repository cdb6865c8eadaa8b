"""Development servers by hand: `python -m deploy.local.servers env|start|stop|status`, or `run COMMAND`.

`eval "$(.venv/bin/python -m deploy.local.servers env)"`, and manage.py finds them.
"""

import os
import shlex
import signal
import subprocess
import sys

from deploy.local import embedded, secret
from deploy.local.lock import Lock
from deploy.local.places import PROJECT, data_folder
from deploy.local.problem import Problem
from deploy.local.wait import until

USAGE = """usage: python -m deploy.local.servers env|start|stop|status
       python -m deploy.local.servers run COMMAND...   (with throwaway servers)"""


def main(arguments: list[str]) -> int:
    """Do what the first argument says; errors are one line on stderr."""
    commands = {"env": show_env, "start": start, "stop": stop, "status": status, "hold": hold}
    try:
        match arguments:
            case ["run", _, *_]:
                return run(arguments[1:])
            case [name] if name in commands:
                commands[name]()
            case _:
                print(USAGE, file=sys.stderr)
                return 2
    except Problem as problem:
        print(f"recloser: {problem}", file=sys.stderr)
        return 1
    return 0


def run(command: list[str]) -> int:
    """Run one command with servers that are gone afterwards; return its exit code."""
    servers = embedded.ensure("test")
    given = {"DATABASE_URL": servers.database_url, "REDIS_URL": servers.redis_url}
    # Enough for Django to load; nothing is kept that these could protect.
    secrets = {name: make() for name, make in secret.MADE.items()}
    return subprocess.run(command, env=secrets | os.environ | given).returncode


def show_env() -> None:
    """Start the servers if need be and print what a shell must export to use them."""
    start()
    servers = embedded.ensure("run")
    for name, value in (("DATABASE_URL", servers.database_url), ("REDIS_URL", servers.redis_url)):
        print(f"export {name}={shlex.quote(value)}")


def start() -> None:
    """Leave a process in the background that holds the servers, unless one does already."""
    if not _held():
        _begin_holding()


def _begin_holding() -> None:
    data_folder().mkdir(parents=True, exist_ok=True)
    with (data_folder() / "servers.log").open("wb") as log:
        holder = subprocess.Popen(
            [sys.executable, "-m", "deploy.local.servers", "hold"],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert holder.stdout
    if holder.stdout.readline() != b"ready\n":
        raise Problem((data_folder() / "servers.log").read_text().strip().removeprefix("recloser: "))


def hold() -> None:
    """Keep the servers until SIGTERM; says `ready` when they answer."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    servers = embedded.ensure("run")
    try:
        os.write(1, b"ready\n")
        signal.pause()
    finally:
        servers.stop()


def stop() -> None:
    """End the process that holds the servers."""
    lock = Lock(data_folder() / "servers.lock")
    holder = lock.holder()
    if not _held() or not holder:
        raise Problem(f"no servers run in {data_folder()}")
    os.kill(holder[0], signal.SIGTERM)
    if not until(lambda: not _held(), 20):
        raise Problem(f"process {holder[0]} does not end: kill it with `kill -9 {holder[0]}`")


def status() -> None:
    """Say whether servers run, and under whom."""
    holder = Lock(data_folder() / "servers.lock").holder()
    print(f"held by process {holder[0]}" if _held() and holder else "not running", f"({data_folder()})")


def _held() -> bool:
    """True while a living process has the servers' lock."""
    lock = Lock(data_folder() / "servers.lock")
    if not lock.path.exists():
        return False
    free = lock.take()
    lock.release()
    return not free


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
