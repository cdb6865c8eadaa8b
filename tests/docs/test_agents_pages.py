"""The pages about testing and the command line as their readers use them: files saved, tests run, output compared."""

import os
import re
import subprocess
import sys

from recloser import testing
from recloser.cli import SUBCOMMANDS

from tests.docs.marked import DOCS, one, prose


def run(folder, *command, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RECLOSER", "PYTEST"))}
    return subprocess.run(
        command, cwd=folder, env=clean | environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_tests_on_the_testing_page_pass(tmp_path):
    for name in ("agent.py", "test_agent.py"):
        (tmp_path / name).write_text(one("testing.md", name), "utf-8")

    done = run(
        tmp_path, sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "recloser_pytest",
        "-p", "no:cacheprovider", "--rootdir", str(tmp_path), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )  # fmt: skip

    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_everything_that_is_public_in_testing_is_on_its_page():
    page = (DOCS / "testing.md").read_text("utf-8")
    left = {"FAST", "KEY", "NOW", "ScriptedTool", "config_document", "run_policy"}  # of the SDK's own tests

    assert {name for name in testing.__all__ if not re.search(rf"\b{name}\b", page)} <= left


def test_the_listing_on_the_page_is_classified_as_it_says(tmp_path):
    (tmp_path / "tools.jsonl").write_text(one("cli.md", "tools.jsonl"), "utf-8")
    command = one("cli.md", "classify").split()
    printed = re.search(
        r"<!-- output: classify -->\n```text\n(.*?)^```$", (DOCS / "cli.md").read_text("utf-8"), re.S | re.M
    )

    done = run(tmp_path, sys.executable, "-m", "recloser.cli", *command[1:])

    assert command[0] == "recloser" and done.stdout == printed[1], done.stdout + done.stderr


def test_every_command_is_on_the_page():
    import argparse

    commands = argparse.ArgumentParser().add_subparsers()
    for add in SUBCOMMANDS:
        add(commands)

    assert set(commands.choices) == set(re.findall(r"^\| `recloser (\w+)", prose(DOCS / "cli.md"), re.M))
