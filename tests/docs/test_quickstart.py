"""The quickstart as its reader does it: the real `make up`, the page's own file, the page's own commands."""

import os
import re
import subprocess
import sys

import httpx
import pytest

from tests.deploy.conftest import Up, clean_environment
from tests.docs.marked import ROOT, blocks, one
from tests.workers.processes import until

pytestmark = pytest.mark.e2e

PAGE = "quickstart.md"


class Reader:
    """Somebody with two terminals. What differs from the page: the port, the data folder, where files are saved."""

    def __init__(self, ground):
        self.ground, self.home = ground, ground.data.parent
        self.environment = clean_environment(
            RECLOSER_DATA_DIR=str(ground.data), RECLOSER_PORT=str(ground.port), XDG_CACHE_HOME=str(self.home / "cache")
        )

    def starts(self):
        up = Up([sys.executable, "-m", "deploy.local", "up"], self.environment)
        self.ground.started.append(up)
        up.until("the dashboard is at")
        return up

    def saves(self, name):
        (self.home / name).write_text(one(PAGE, name), "utf-8")

    def runs(self, command, *, before=""):
        text = f"{before}\n{command}"
        for theirs, ours in (
            *((":8000", f":{self.ground.port}"), (".recloser/", f"{self.ground.data}/")),
            *((".venv/bin/python", sys.executable), (" agent.py", f" {self.home}/agent.py")),
        ):
            text = text.replace(theirs, ours)
        done = subprocess.run(
            ["bash", "-euc", text], cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def calls(said):
    return [(company, int(n)) for company, n in re.findall(r"^(\w+): (\d+) real calls\.", said, re.MULTILINE)]


def test_ten_minutes_of_a_reader(ground):
    reader = Reader(ground)
    up = reader.starts()
    reader.saves("agent.py")
    exports = next(block.text for block in blocks(PAGE) if block.kind == "run" and not block.name)

    alone = reader.runs(one(PAGE, "one worker"), before=exports)

    assert calls(alone) == [("ACME", 3), ("Globex", 2), ("Initech", 0), ("Umbrella", 0), ("Hooli", 0)]
    assert alone.count("This answer was made without web_search, which was unavailable.") == 5

    token = reader.runs(f"{one('operate.md', 'by hand')}\n.venv/bin/python manage.py issue_token admin").splitlines()[
        -1
    ]
    api = httpx.Client(
        base_url=f"http://127.0.0.1:{ground.port}/api/v1/environments/prod",
        headers={"Authorization": f"Bearer {token}"},
    )
    with api:
        assert api.get("circuits/web_search").json()["state"] == "closed", "one worker alone is no proof"
        runs = api.get("runs").json()["results"]
        assert len(runs) == 5 and all(run["degraded"] for run in runs)

        two = reader.runs(one(PAGE, "two workers"), before=exports)
        assert min(n for _, n in calls(two)) == 0, two
        until(lambda: api.get("circuits/web_search").json()["state"] == "open", 20, f"the circuit opens, after\n{two}")
        third = reader.runs(one(PAGE, "third worker"), before=exports)

    assert {n for _, n in calls(third)} == {0}, third
    assert up.end() == 0


def test_a_field_key_of_the_operators_page_is_one():
    from cryptography.fernet import Fernet

    command = one("operate.md", "field key").replace("python3", sys.executable)
    made = subprocess.run(["bash", "-euc", command], capture_output=True, text=True, timeout=60, env=os.environ)

    Fernet(made.stdout.strip())
