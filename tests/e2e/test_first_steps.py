"""An empty installation leads to the first key and the ten lines, and waits until they report."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from django.core.management import call_command
from playwright.sync_api import expect

AROUND = """
from types import SimpleNamespace as Of

SYSTEM, messages = "", []
FUNCTIONS = {{"web_search": lambda query: "found it"}}
TOOLS = [{{"name": name, "input_schema": {{"type": "object"}}}} for name in FUNCTIONS]
replies = [Of(message="m1", text="", tool_calls=[Of(name="web_search", args={{"query": "competitors"}}, id="c1")]),
           Of(message="m2", text="They have competitors.", tool_calls=[])]

def model(messages, *, system, tools):
    return replies.pop(0)

def tool_result(id, result):
    return (id, result)

def agent():
{lines}

assert "competitors" in agent()
"""
SDK = Path(__file__).parents[2] / "sdk" / "src"


def run_agent(lines: str, settings: str, folder: Path) -> None:
    """Do what the page says: its settings, its lines, in a process of their own."""
    told = dict(re.findall(r"export (RECLOSER_\w+)=(\S+)", settings))
    env = {
        **os.environ,
        **told,
        "PYTHONPATH": str(SDK),
        "RECLOSER_CACHE_DIR": str(folder),
        "RECLOSER_INSTANCE": "pod-1",
    }
    code = AROUND.format(lines=textwrap.indent(lines, "    "))
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_from_an_empty_installation_to_the_first_run(server, still, page, tmp_path, monkeypatch):
    for name in ("RECLOSER_DATA_DIR", "RECLOSER_ADMIN_USER", "RECLOSER_ADMIN_PASSWORD", "RECLOSER_AGENT_KEY"):
        monkeypatch.delenv(name, raising=False)
    told = io.StringIO()
    call_command("bootstrap", stdout=told)
    user, password = re.search(r"user (\S+), password (\S+)", told.getvalue()).groups()
    assert "first agent key: rcl_" in told.getvalue()

    page.goto(server)
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Waiting for your first agent")).to_be_visible()
    page.get_by_role("link", name="Add an agent with a key of its own").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Short name").fill("billing")
    sheet.get_by_label("Name", exact=True).fill("Billing")
    sheet.get_by_role("button", name="Add").click()
    expect(sheet.get_by_role("status")).to_contain_text("Waiting for the first report of billing")
    lines = sheet.get_by_role("region", name="Ten lines of Python").inner_text()
    settings = sheet.get_by_role("region", name="Settings of the agent").inner_text()

    run_agent(lines, re.sub(r"RECLOSER_URL=\S+", f"RECLOSER_URL={server}", settings), tmp_path)

    expect(sheet.get_by_role("status")).to_contain_text("billing reports, first", timeout=15_000)
    sheet.get_by_role("link", name="Done").click()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Board").click()
    expect(page.get_by_role("heading", name="All quiet")).to_be_visible()
    expect(page.locator(".fleet")).to_contain_text("web_search")


def test_the_board_itself_stops_waiting_when_the_first_agent_reports(server, still, page, tmp_path, monkeypatch):
    monkeypatch.delenv("RECLOSER_DATA_DIR", raising=False)
    monkeypatch.setenv("RECLOSER_ADMIN_PASSWORD", "correct horse battery staple")
    told = io.StringIO()
    call_command("bootstrap", stdout=told)
    key = re.search(r"rcl_\S+", told.getvalue())[0]
    page.goto(f"{server}/sign-in/")
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill("correct horse battery staple")
    page.get_by_role("button", name="Sign in").click()
    lines = page.get_by_role("region", name="Ten lines of Python").inner_text()

    run_agent(lines, f"export RECLOSER_URL={server}\nexport RECLOSER_KEY={key}", tmp_path)

    expect(page.get_by_role("heading", name="All quiet")).to_be_visible(timeout=15_000)
    expect(page.get_by_role("heading", name="Waiting for your first agent")).to_be_hidden()
