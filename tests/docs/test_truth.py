"""What the pages say of the code is so: names of files and functions, snippets, figures."""

import hashlib
import hmac
import re

import pytest
import recloser
from recloser.core.policy import CircuitPolicy, RunPolicy
from recloser.core.types import Cause, DegradedBehaviour, Mode, SideEffectClass, State

from controlplane.edge import sign_ins
from controlplane.permissions import GRANTS
from controlplane.services import alerts
from controlplane.services.ingest import caps
from dashboard.words import CAUSES
from tests.docs.marked import DOCS, ROOT, fenced, one, prose

ROOMS = prose(DOCS / "architecture.md").split("## The rooms")[1].split("## The services")[0]
SERVICES = prose(DOCS / "architecture.md").split("## The services")[1]


def defines(path, name):
    text = path.read_text("utf-8")
    return re.search(
        rf"^(?:async )?(?:def|class) {name}\b|^{name}\b.*=|^from .* import .*\b{name}\b|^    {name},$",
        text,
        re.MULTILINE,
    )


def doors():
    for row in ROOMS.splitlines():
        cells = [cell.strip() for cell in row.split("|")]
        found = re.match(r"`([\w./]+)`$", cells[1]) if len(cells) > 3 else None
        if found:
            yield found[1], re.findall(r"`([a-z_]+)\.(?!py`)([A-Za-z_]+)`", cells[3])


def test_every_room_and_its_door_exist():
    rooms = dict(doors())

    assert len(rooms) > 10
    for room, names in rooms.items():
        assert (ROOT / room).exists(), room
        for module, name in names:
            inside = ROOT / room / f"{module}.py"
            if inside.exists():
                assert defines(inside, name), f"{room}: {module}.{name}"
            else:
                assert (ROOT / module / f"{name}.py").exists(), f"{room}: {module}.{name}"


def test_every_service_named_exists():
    files = re.findall(r"`(services/\w+(?:\.py)?|evidence/\w+\.py)`", SERVICES)
    rows = re.findall(r"^\| `(services/\w+\.py)` \|(.*)\|$", SERVICES, re.MULTILINE)
    circuits = re.findall(r"^- `([a-z_/ ]+)\s*\(", SERVICES, re.MULTILINE)

    assert len(files) > 10 and rows and len(circuits) > 4
    assert [name for name in files if not (ROOT / "controlplane" / name).exists()] == []
    for path, text in rows:
        for name in re.findall(r"`([a-z_]+)`", text):
            assert defines(ROOT / "controlplane" / path, name) or name in ("ingest",), f"{path}: {name}"
    for names in circuits:
        for name in names.split("/"):
            assert defines(ROOT / "controlplane/services/circuits.py", name.strip()), name


def test_the_operators_pages_name_every_word_of_the_domain():
    page = prose(DOCS / "on-call.md").lower()

    assert {
        mode
        for mode in Mode
        if {"auto": "auto", "forced_open": "held open", "forced_closed": "held closed"}[mode] not in page
    } == set()
    assert {state for state in State if state.value.replace("_", "-") not in page} == set()
    assert {cause for cause in Cause if CAUSES[cause.value] not in page} == set()
    assert {one.value for one in (*SideEffectClass, *DegradedBehaviour)} - set(
        re.findall(r"\w+", prose(DOCS / "product-owner.md"))
    ) == set()


@pytest.mark.parametrize("page", ["on-call.md", "product-owner.md"])
def test_a_default_that_a_page_states_is_the_default(page):
    stated = re.findall(r"`(\w+)` \(([\d.,]+)(?: ?s)?\)", prose(DOCS / page))

    assert stated
    for name, figure in stated:
        holder = CircuitPolicy() if hasattr(CircuitPolicy(), name) and not name.startswith("short") else RunPolicy()
        assert float(figure.replace(",", "")) == float(getattr(holder, name)), name


def test_the_caps_and_lives_stated_are_those_of_the_code(settings):
    page = prose(DOCS / "operate.md").replace("\n", " ")

    assert f"{caps.NEW_WORKERS_A_MINUTE} new workers a minute" in page
    assert f"{caps.DISCOVERED_TOOLS} discovered tools and {caps.DISCOVERED_DEPENDENCIES} dependencies" in page
    assert f"{caps.CALLS_A_SECOND:,} calls a second" in page
    assert f"ends after {settings.SESSION_COOKIE_AGE // 3600} hours" in page
    assert f"within {sign_ins.CHECK_S:.0f} seconds of its end" in page
    assert (settings.AXES_FAILURE_LIMIT, settings.AXES_COOLOFF_TIME) == (8, 0.25)
    assert "Eight wrong passwords" in page and "15 minutes" in page
    for name in ("OBSERVATIONS_HOURS", "RUNS_DAYS", "STEP_LOGS_DAYS", "AUDIT_DAYS"):
        assert f"`RECLOSER_KEEP_{name}` | `{getattr(settings, f'KEEP_{name}')}`" in page


def test_the_table_of_roles_is_the_table_of_the_code():
    rows = re.findall(
        r"^\| ([\w -]+) \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", prose(DOCS / "operate.md"), re.MULTILINE
    )
    said = {
        row[0]: tuple("yes" in cell for cell in row[1:])
        for row in rows
        if row[0] in ("viewer", "on-call", "product owner", "admin")
    }
    wanted = (
        "controlplane.view",
        "controlplane.operate_circuit",
        "controlplane.edit_policy",
        "controlplane.administer",
    )

    assert said == {
        role.replace("_", " ").replace("on call", "on-call"): tuple(name in held for name in wanted)
        for role, held in GRANTS.items()
    }


def test_every_setting_named_is_read_somewhere():
    named = set(re.findall(r"`(RECLOSER_\w+)`", (DOCS / "operate.md").read_text("utf-8")))
    folders = ("controlplane", "deploy", "sdk/src")
    source = "\n".join(path.read_text("utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py"))
    kept = {name for name in named if name.removeprefix("RECLOSER_").startswith("KEEP")}

    assert {name for name in named if f'"{name}"' not in source and name not in kept} == set()


def test_the_receivers_snippet_knows_our_signature():
    from workers.notifiers.webhook import signature

    space = {"hmac": hmac, "hashlib": hashlib}
    exec(next(fenced(DOCS / "alerts.md", "python")), space)
    header = signature("secret", 1_790_000_000, b"{}")

    assert space["is_from_recloser"]("secret", header, b"{}")
    assert not space["is_from_recloser"]("another", header, b"{}")
    assert alerts.MAX_ATTEMPTS == 10
    assert [alerts.wait_s(attempt, None, 0.0) for attempt in (1, 2, 3, 10)] == [5, 10, 20, 15 * 60]


class Reply:
    """What a model answers: first a call, then a text."""

    def __init__(self, text, calls):
        self.text, self.tool_calls, self.message = text, calls, {"role": "assistant"}
        self.usage, self.seconds, self.cost = self, 0.1, 0.01
        self.total = 10


class Call:
    name, args, id = "search", {"query": "x"}, "call-1"


def outage(query):
    raise ConnectionError(query)


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "sdk.md"], ids=["README", "sdk"])
def test_the_ten_lines_run_as_they_stand(page, monkeypatch):
    for name in ("URL", "KEY"):
        monkeypatch.delenv(f"RECLOSER_{name}", raising=False)
    asked = []

    def answer(*_, tools, **__):
        asked.append([tool["name"] for tool in tools])
        return Reply("", [Call()]) if tools else Reply("Done.", [])

    answer.create = answer
    space = {
        **{"model": answer, "SYSTEM": "Be brief.", "TOOLS": [{"name": "search"}], "FUNCTIONS": {"search": outage}},
        "tool_result": lambda id, result: {"id": id, "content": result},
    }

    exec(next(fenced(page, "python")), space)
    text = space["brief"]("ACME")

    assert isinstance(space["client"], recloser.Client)
    assert asked[-1] == [] and len(asked) == 4, "three failures of an unknown tool, then it is not offered"
    assert text.startswith("Done.") and "without search" in text


def test_the_vectors_of_the_contributing_page_run():
    import shlex
    import subprocess
    import sys

    words = shlex.split(one("contributing.md", "vectors"))
    assert words[0] == ".venv/bin/recloser"
    done = subprocess.run(
        [sys.executable, "-m", "recloser.cli", *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"\d+ passed, 0 failed, \d+ skipped", done.stdout.splitlines()[-1])
