"""`make up` with stand-ins for the web entry and its companions."""

import os
import re
import shlex
import signal
import socket
import sys
import time
from pathlib import Path

import psycopg
import pytest


def program(name, code):
    """A line of the procfile: a few statements in a Python of their own."""
    return f"{name}: {sys.executable} -uc {shlex.quote(code)}\n"


def telling(variable):
    """A program that shows one of its environment variables, and lives on."""
    return program("teller", f"import os, signal; print(os.environ['{variable}']); signal.pause()")


STUBBORN = program(
    "stubborn", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready'); signal.pause()"
)


def pids_of(up):
    """The children of a supervisor, servers included."""
    return [int(pid) for pid in Path(f"/proc/{up.process.pid}/task/{up.process.pid}/children").read_text().split()]


def alive(pid):
    return Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() != b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything_in_order_within_seconds(whole_ground, number):
    up = whole_ground.running()
    children = pids_of(up)
    began = time.monotonic()

    code = up.end(number)

    assert code == 0
    assert time.monotonic() - began < 8
    assert len(children) == 3
    assert not any(alive(pid) for pid in children)
    assert "stopped: the data are kept" in up.lines[-1]


def test_lines_are_prefixed_with_who_said_them(ground):
    ground.programs += f'talker: {sys.executable} -uc \'import time; print("one"); print("two"); time.sleep(60)\'\n'
    up = ground.up()

    up.until(r"^talker +\| one$")
    up.until(r"^talker +\| two$")


def test_started_again_it_finds_its_data_and_its_secrets(whole_ground):
    whole_ground.programs += telling("DATABASE_URL")
    first = whole_ground.up()
    url = first.until(r"teller +\| (postgresql:.*)$")[1]
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    secrets = (whole_ground.data / "secrets.env").read_text()
    first.end()

    second = whole_ground.up()
    second.until(r"teller +\| postgresql:")

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
    assert (whole_ground.data / "secrets.env").read_text() == secrets


def test_secrets_are_private_handed_on_and_never_shown(ground):
    ground.programs += telling("RECLOSER_SECRET_KEY")
    up = ground.up()
    secret_key = up.until(r"teller +\| (\S+)$")[1]
    up.end()

    path = ground.data / "secrets.env"
    values = [line.partition("=")[2] for line in path.read_text().splitlines()]

    assert path.stat().st_mode & 0o777 == 0o600
    assert secret_key in values
    assert len(values) == 2
    assert not any(value in line for value in values for line in up.lines if "teller" not in line)


def test_a_secret_that_is_given_is_not_made(ground):
    up = ground.running(RECLOSER_SECRET_KEY="given", RECLOSER_FIELD_KEYS_FILE="/run/secrets/keys")
    up.end()

    assert not (ground.data / "secrets.env").exists()


def test_a_killed_supervisor_takes_its_children_along_and_the_next_start_works(whole_ground):
    whole_ground.programs += STUBBORN
    up = whole_ground.up()
    up.until(r"stubborn +\| ready")
    up.until("the dashboard is at")
    up.process.kill()
    up.process.wait()
    up.process.stdout.close()

    again = whole_ground.running()

    assert any("an earlier start left behind" in line for line in again.lines)


def test_a_second_start_says_where_the_first_one_runs(whole_ground):
    first = whole_ground.running()
    second = whole_ground.up()

    assert second.rest() == 1
    assert second.lines == [
        f"recloser: already running at http://127.0.0.1:{whole_ground.port} (process {first.process.pid}):"
        f" stop it there with Ctrl-C, or with `kill {first.process.pid}`"
    ]
    with psycopg.connect(f"postgresql://postgres@/recloser?host={socket_folder(whole_ground)}") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def socket_folder(ground):
    """Where the Postgres of this ground listens, as its pid file says."""
    return (ground.data / "postgres" / "postmaster.pid").read_text().splitlines()[4]


def test_a_port_that_is_taken_is_one_line_that_names_a_free_one(ground):
    with socket.create_server(("127.0.0.1", ground.port)):
        up = ground.up()

        assert up.rest() == 1

    assert len(up.lines) == 1
    assert up.lines[0].startswith(f"recloser: port {ground.port} is taken by another program: set RECLOSER_PORT=")
    assert not (ground.data / "postgres").exists()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("RECLOSER_PORT", "http", "RECLOSER_PORT is 'http': set it to a number from 1 to 65535"),
        ("RECLOSER_HOST", "203.0.113.7", "cannot listen on 203.0.113.7 .*: set RECLOSER_HOST to an address of this"),
    ],
)
def test_an_address_that_cannot_be_is_one_line(ground, name, value, told):
    up = ground.up(**{name: value})

    assert up.rest() == 1
    assert len(up.lines) == 1
    assert re.search(told, up.lines[0])


def test_a_child_that_ends_is_started_again_later_and_later(ground):
    ground.programs += program("flaky", "raise SystemExit(3)")
    up = ground.up()

    up.until(r"recloser +\| flaky ended with code 3: started again in 0.5 s")
    up.until(r"recloser +\| flaky ended with code 3: started again in 1 s")


def test_a_disk_that_takes_no_note_of_who_runs_ends_nobody(ground):
    (ground.data / "processes.json").mkdir(parents=True)  # as a full disk does, it refuses the file
    ground.programs += program("flaky", "raise SystemExit(3)")
    up = ground.up()

    up.until(r"recloser +\| flaky ended with code 3: started again in 1 s")
    assert up.end() == 0


def test_a_child_that_ends_in_the_middle_of_a_line_is_still_heard(ground):
    ground.programs += f'short: {sys.executable} -c \'print("last words", end="")\'\n'

    ground.up().until(r"short +\| last words$")


def test_a_second_signal_ends_a_child_that_would_not(ground):
    ground.programs += STUBBORN
    up = ground.up()
    up.until(r"stubborn +\| ready")
    up.until("the dashboard is at")
    up.process.send_signal(signal.SIGINT)
    up.until("stopping")
    began = time.monotonic()

    assert up.end() == 0
    assert time.monotonic() - began < 5


def test_a_server_that_is_killed_comes_back(whole_ground):
    up = whole_ground.running()
    os.kill(int((whole_ground.data / "postgres" / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)

    up.until("Postgres ended: started again")

    assert up.end() == 0


def test_without_a_reader_it_stops_instead_of_running_on_unseen(ground):
    up = ground.running()
    children = pids_of(up)
    up.process.stdout.close()
    # The next line that it would show is the request's.
    socket.create_connection(("127.0.0.1", ground.port)).close()
    os.kill(children[-1], signal.SIGKILL)  # which it would report

    assert up.process.wait(20) == 0
    assert not any(alive(pid) for pid in children)


def test_a_command_that_does_not_exist_stops_the_start(ground):
    ground.programs += "ghost: /nowhere/ghost\n"
    up = ground.up()

    assert up.rest() == 1
    assert "cannot start /nowhere/ghost" in up.lines[-1]
