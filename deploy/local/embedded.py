"""A Postgres and a Valkey for whoever asks: `ensure("run")` keeps its data, `ensure("test")` throws them away."""

import atexit
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Literal

from deploy.local.lock import Lock
from deploy.local.places import Places, data_folder, lasting, run_root, throwaway
from deploy.local.postgres import Postgres
from deploy.local.problem import Problem
from deploy.local.valkey import Valkey
from deploy.local.wait import until

# How a test session's Postgres is handed to its child processes (pytest-xdist's, for one).
INHERITED = "RECLOSER_TEST_SESSION"

PATIENCE_S = 10.0

Server = Postgres | Valkey


class Servers:
    """Addresses of the two servers, and a hand on those that are ours."""

    def __init__(
        self,
        *,
        database_url: str,
        redis_url: str,
        postgres: Postgres | None = None,
        valkey: Valkey | None = None,
        lock: Lock | None = None,
        sockets: Path | None = None,
        litter: Path | None = None,
    ) -> None:
        self.database_url = database_url
        self.redis_url = redis_url
        self.postgres = postgres
        self.valkey = valkey
        self._lock = lock
        self._sockets = sockets
        self._litter = litter

    def ours(self) -> list["Server"]:
        """The servers that this process started."""
        return [server for server in (self.postgres, self.valkey) if server]

    def stop(self) -> None:
        """End the servers that we started; others' servers are left alone. May be called twice."""
        for server in reversed(self.ours()):
            server.stop()
        if self._sockets:
            with suppress(OSError):  # not empty: somebody else's file is not ours to remove
                self._sockets.rmdir()
        if self._litter:
            shutil.rmtree(self._litter, ignore_errors=True)
        if self._lock:
            self._lock.release()

    def kill_redis(self) -> None:
        """End Valkey as a crash would."""
        self._own_valkey().kill()

    def start_redis(self) -> None:
        """Start Valkey again, at the same address."""
        self._own_valkey().start()

    def _own_valkey(self) -> Valkey:
        if self.valkey is None:
            raise Problem(f"{self.redis_url} is not ours to stop or start: unset REDIS_URL")
        return self.valkey


def ensure(purpose: Literal["run", "test"], data_dir: Path | None = None) -> Servers:
    """Servers that answer; DATABASE_URL and REDIS_URL win where set. Call it from the main thread.

    `run`: data in `data_dir` (else `places.data_folder()`) last; servers that already run there are shared.
    `test`: nothing is synced to disk, and all is gone at exit. Without `data_dir` child processes share
    this process' Postgres (each has a Valkey of its own); with it, the servers are never shared.
    """
    if purpose == "run":
        return _lasting(data_dir or data_folder())
    if data_dir:
        return _begin(lasting(data_dir), for_test=True, stop_at_exit=True)
    return _throwaway()


def _lasting(data: Path) -> Servers:
    """Start the servers of a data folder, or share them with the process that did."""
    database_url, redis_url = _given("DATABASE_URL"), _given("REDIS_URL")
    if database_url and redis_url:
        return Servers(database_url=database_url, redis_url=redis_url)
    return _begin(lasting(data), for_test=False, stop_at_exit=False)


def _begin(places: Places, *, for_test: bool, stop_at_exit: bool) -> Servers:
    lock = Lock(places.data / "servers.lock")
    postgres = None if _given("DATABASE_URL") else Postgres(places, throwaway=for_test)
    valkey = None if _given("REDIS_URL") else Valkey(places, throwaway=for_test)
    if not lock.take():
        return _shared(postgres, valkey, lock)
    return _started(postgres, valkey, lock, sockets=places.run, stop_at_exit=stop_at_exit)


def _shared(postgres: Postgres | None, valkey: Valkey | None, lock: Lock) -> Servers:
    """Addresses of servers that another process holds."""
    for server in (postgres, valkey):
        # It may just be starting.
        if server and not until(server.answers, PATIENCE_S):
            pid = (lock.holder() or (0, ""))[0]
            raise Problem(
                f"process {pid} holds the servers of {lock.path.parent} and {type(server).__name__} does not answer:"
                f" end it with `kill {pid}` and try again"
            )
    return Servers(database_url=_database_url(postgres), redis_url=_redis_url(valkey))


def _started(
    postgres: Postgres | None,
    valkey: Valkey | None,
    lock: Lock,
    *,
    stop_at_exit: bool,
    sockets: Path | None = None,
    litter: Path | None = None,
) -> Servers:
    servers = Servers(
        database_url=_database_url(postgres),
        redis_url=_redis_url(valkey),
        postgres=postgres,
        valkey=valkey,
        lock=lock,
        sockets=sockets,
        litter=litter,
    )
    try:
        for server in servers.ours():
            server.start()
    except BaseException:
        servers.stop()
        raise
    if stop_at_exit:
        atexit.register(_stop_in, os.getpid(), servers)
    return servers


def _throwaway() -> Servers:
    """Servers for this process; its children find the Postgres by an environment variable."""
    _sweep_litter()
    places = throwaway()
    lock = Lock(places.data / "servers.lock")
    if not lock.take():  # a sweep was faster
        return _throwaway()
    parent = _parent_session()
    _forget_parents_urls(parent)
    postgres = None if _given("DATABASE_URL") or parent else Postgres(places, throwaway=True)
    valkey = None if _given("REDIS_URL") else Valkey(places, throwaway=True)
    servers = _started(postgres, valkey, lock, stop_at_exit=True, litter=places.data)
    if not parent:
        os.environ[INHERITED] = json.dumps({"owner": os.getpid()} | _addresses(postgres, valkey))
    return servers


def _addresses(postgres: Postgres | None, valkey: Valkey | None) -> dict[str, str]:
    """Of the servers that are ours; those that were given to us are given to our children too."""
    named = {"DATABASE_URL": postgres, "REDIS_URL": valkey}
    return {name: server.url for name, server in named.items() if server}


def _parent_session() -> dict[str, str]:
    """What the test session that started us has told, if it still lives; else nothing."""
    try:
        told = json.loads(os.environ.get(INHERITED, "{}"))
        os.kill(int(told["owner"]), 0)
    except (ValueError, KeyError, TypeError, OSError):
        return {}
    return {name: str(told[name]) for name in ("DATABASE_URL", "REDIS_URL") if name in told}


def _forget_parents_urls(parent: dict[str, str]) -> None:
    """A session exports its addresses for Django; to us they are no order to use its Valkey."""
    for name, url in parent.items():
        if os.environ.get(name) == url:
            del os.environ[name]


def _sweep_litter() -> None:
    """Remove what test sessions left that were killed: their lock is free, their servers died with them."""
    for folder in run_root().glob(f"rcl-test-{os.geteuid()}-*"):
        lock = Lock(folder / "servers.lock")
        # No lock file yet: that session is just beginning.
        if lock.path.exists() and lock.take():
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()


def _stop_in(pid: int, servers: Servers) -> None:
    """A forked child runs our exit handlers too, and must not end its parent's servers."""
    if os.getpid() == pid:
        servers.stop()


def _database_url(postgres: Postgres | None) -> str:
    return postgres.url if postgres else _given("DATABASE_URL") or _parent_session().get("DATABASE_URL", "")


def _redis_url(valkey: Valkey | None) -> str:
    return valkey.url if valkey else _given("REDIS_URL")


def _given(name: str) -> str:
    """What the file named by NAME_FILE holds, else NAME (the order that the settings keep); empty without either."""
    path = os.environ.get(f"{name}_FILE")
    try:
        return Path(path).read_text().strip() if path else os.environ.get(name, "")
    except OSError as error:
        raise Problem(f"cannot read {path} ({error.strerror}): mend or unset {name}_FILE") from None
