"""The cases that any implementation must pass, against a real server: the same verdicts as the core's, case by case."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from recloser.conformance import run_cases

from controlplane import clock
from controlplane.models import Agent, Environment
from controlplane.services import access
from tests.edge import harness

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "sdk" / "tests" / "vectors"

WRONG = {
    "id": "W1",
    "scope": "dependency",
    "policy": {"min_calls": 2},
    "events": [{"t": 1, "worker": "w1", "tool": "search", "outcome": "retryable"}],
    "expect": [{"t": 1, "state": "open"}],
}


@pytest.fixture
def token(transactional_db):
    """A key of the server, as whoever runs the command holds one."""
    environment = Environment.objects.create(slug="prod", name="Prod", created_at=clock.now())
    agent = Agent.objects.create(environment=environment, slug="cli", name="CLI", created_at=clock.now())
    return access.issue_key(environment=environment, agent=agent, label="", actor="ann", now=clock.now())[1]


@pytest.fixture
def server(token):
    """Starts a real one; it ends with the test."""
    started = []

    def start(**environment):
        started.append(harness.Server(**environment).wait())
        return started[-1]

    yield start
    for each in started:
        each.close()


def _command(server, token, path):
    command = [sys.executable, "-m", "recloser.cli", "conformance", str(path), "--url", server.url, "--key", token]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)


def test_every_case_ends_as_it_does_in_the_core(server, token, tmp_path):
    cases = [case for path in sorted(VECTORS.glob("*.json")) for case in json.loads(path.read_text("utf-8"))]
    every = tmp_path / "every.json"
    every.write_text(json.dumps([*cases, WRONG]), "utf-8")

    said = _command(server(RECLOSER_TEST_CLOCK="1"), token, every)

    assert said.stderr == ""
    assert said.stdout.splitlines() == list(run_cases([*cases, WRONG]).lines())
    assert said.returncode == 1, "the last case is wrong on purpose"


def test_a_server_that_does_not_rehearse_says_so_in_one_line(server, token):
    said = _command(server(), token, VECTORS / "own.json")

    assert said.returncode == 2
    assert "404" in said.stderr
    assert "RECLOSER_TEST_CLOCK=1" in said.stderr
    assert said.stderr.count("\n") == 1
