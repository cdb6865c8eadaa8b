"""The servers by hand, and the command that removes the data."""

import subprocess
import sys

import pytest

from deploy.local.places import PROJECT
from tests.deploy.conftest import clean_environment


@pytest.fixture
def command(folder):
    """Run one of deploy.local's modules on a data folder of its own."""

    def run(module, *arguments, text="", **environment):
        return subprocess.run(
            [sys.executable, "-m", f"deploy.local.{module}", *arguments],
            cwd=PROJECT,
            env=clean_environment(RECLOSER_DATA_DIR=str(folder / "data"), **environment),
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
        )

    yield run
    run("servers", "stop")


def test_env_starts_the_servers_once_and_prints_what_to_export(command):
    first, second = command("servers", "env"), command("servers", "env")

    assert [line.partition("=")[0] for line in first.stdout.splitlines()] == ["export DATABASE_URL", "export REDIS_URL"]
    assert first.stdout == second.stdout
    assert command("servers", "status").stdout.startswith("held by process")


def test_stop_ends_them_and_says_so_when_none_run(command):
    command("servers", "start")

    assert command("servers", "stop").returncode == 0
    assert command("servers", "status").stdout.startswith("not running")
    assert command("servers", "stop").stderr.startswith("recloser: no servers run in")


def test_run_gives_a_command_throwaway_servers_and_returns_its_code(command):
    done = command(
        "servers", "run", sys.executable, "-c", "import os; print(os.environ['REDIS_URL']); raise SystemExit(5)"
    )

    assert done.stdout.startswith("unix:///tmp/rcl-test-")
    assert done.returncode == 5


def test_an_unknown_word_shows_the_usage(command):
    done = command("servers", "begin")

    assert done.returncode == 2
    assert done.stderr.startswith("usage:")


def test_reset_asks_and_removes_only_what_is_ours(command, folder):
    command("servers", "start")
    command("servers", "stop")
    (folder / "data" / "notes.txt").write_text("mine")

    refused = command("reset", text="no\n")
    assert refused.stderr == "recloser: nothing was removed: type yes, or run `make reset YES=1`\n"
    assert (folder / "data" / "postgres").exists()

    assert command("reset", text="yes\n").returncode == 0
    assert not (folder / "data" / "postgres").exists()
    assert (folder / "data" / "notes.txt").read_text() == "mine"


def test_reset_refuses_while_something_runs(command, folder):
    command("servers", "start")

    refused = command("reset", "--yes")

    assert refused.returncode == 1
    assert "something runs on" in refused.stderr
    assert (folder / "data" / "postgres").exists()
