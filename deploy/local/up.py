"""`make up`: servers, secrets, preparation, then the processes of a control plane until Ctrl-C."""

import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from deploy.local import address as addresses
from deploy.local import embedded, secret
from deploy.local.address import Address
from deploy.local.embedded import Servers
from deploy.local.lock import Lock
from deploy.local.log import Log
from deploy.local.places import PROJECT, data_folder, own_folder
from deploy.local.problem import Problem
from deploy.local.program import Program, from_procfile, preparation, standing
from deploy.local.roster import Roster
from deploy.local.supervisor import Stopped, Supervisor

# One stream is one file, and 256 (macOS) or 1024 are soon reached.
OPEN_FILES = 65_536


def up(procfile: Path | None = None) -> None:
    """Run until told to stop; raises a Problem when it cannot begin. `procfile`: other processes than ours."""
    address = addresses.from_environment()
    data = data_folder()
    own_folder(data)
    lock = Lock(data / "supervisor.lock")
    if not lock.take(address.url):
        raise _already_running(lock)
    try:
        _supervise(address, data, procfile)
    finally:
        lock.release()


def _already_running(lock: Lock) -> Problem:
    pid, url = lock.holder() or (0, "an address of its own")
    return Problem(f"already running at {url} (process {pid}): stop it there with Ctrl-C, or with `kill {pid}`")


def _supervise(address: Address, data: Path, procfile: Path | None) -> None:
    log, roster = Log(), Roster(data / "processes.json")
    for name in roster.end_leftovers():
        log.say(f"ended what an earlier start left behind: {name}")
    address.check_free()
    if os.geteuid() == 0:
        log.say("running as root: well enough for a trial, use an ordinary user for anything else")
    _raise_limits()
    watch = Watch(address, log)
    supervisor = Supervisor(log=log, roster=roster, folder=PROJECT)
    supervisor.listen()
    try:
        watch.servers = servers = embedded.ensure("run", data)
        log.say(_where(servers, data))
        supervisor.environment = _environment(address, data, servers)
        for program in () if procfile else preparation():
            supervisor.run_to_end(program)
        supervisor.run(_programs(address, procfile), watch.turn)
    except Stopped:
        log.say("stopping")
    finally:
        supervisor.stop()
        if watch.servers:
            watch.servers.stop()
    log.say("stopped: the data are kept, `make up` goes on from here")


class Watch:
    """What the supervisor looks after besides its children: the address and the servers."""

    RETRY_S = 5.0

    def __init__(self, address: Address, log: Log) -> None:
        self.servers: Servers | None = None
        self._address = address
        self._log = log
        self._told = False
        self._retry_at = 0.0

    def turn(self) -> None:
        """Called about twice a second."""
        if self._log.broken:
            raise Stopped
        if not self._told and self._address.answers():
            self._told = True
            self._log.say(f"the dashboard is at {self._address.url}/ (Ctrl-C stops everything)")
        for server in self.servers.ours() if self.servers else ():
            if not server.alive() and time.monotonic() >= self._retry_at:
                self._revive(server)

    def _revive(self, server: embedded.Server) -> None:
        self._log.say(f"{type(server).__name__} ended: started again")
        try:
            server.start()
        except (Problem, OSError) as problem:  # a full disk may be emptied
            self._retry_at = time.monotonic() + self.RETRY_S
            self._log.say(str(problem))


def _programs(address: Address, procfile: Path | None) -> Sequence[Program]:
    return from_procfile(procfile) if procfile else standing(address)


def _where(servers: Servers, data: Path) -> str:
    ours = [type(server).__name__ for server in servers.ours()]
    return f"{' and '.join(ours)} started, data in {data}" if ours else f"using the servers given, data in {data}"


def _environment(address: Address, data: Path, servers: Servers) -> dict[str, str]:
    """Ours for the children, with what they need to find; what is set already wins."""
    defaults = {
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        "RECLOSER_PUBLIC_URL": address.url,
        "RECLOSER_STATIC_ROOT": str(data / "static"),
    }
    fixed = {
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
        "RECLOSER_DATA_DIR": str(data),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONUNBUFFERED": "1",
    }
    # Their files have been read; left in place they would win over what we hand on.
    read = {"DATABASE_URL_FILE", "REDIS_URL_FILE"}
    given = {name: value for name, value in os.environ.items() if value and name not in read}
    return defaults | given | secret.missing(data, os.environ) | fixed


def _raise_limits() -> None:
    """As many open files as we may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
