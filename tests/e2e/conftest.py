"""A real browser against a real server on the test database; skipped loudly where there is no Chromium."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import connection
from playwright.sync_api import Browser, Page, sync_playwright

from tests import factories

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ROOT = Path(__file__).resolve().parent.parent.parent

# Playwright's loop runs in this thread; the ORM is used between its calls, never inside them.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these start processes; without a browser they say what is missing."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="NO BROWSER: put chromium on the PATH to run the journeys"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all journeys."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser) -> Iterator[Page]:
    """A fresh person's tab; a script error or a refused resource fails the journey."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    troubles: list[str] = []
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    tab.on("console", lambda line: troubles.append(line.text) if "Content Security Policy" in line.text else None)
    yield tab
    context.close()
    assert troubles == []


@pytest.fixture(scope="session")
def static_root(tmp_path_factory) -> Path:
    """The files as a deployment serves them: hashed and compressed."""
    root = tmp_path_factory.mktemp("static")
    command = [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "RECLOSER_STATIC_ROOT": str(root)}, check=True)
    return root


@pytest.fixture
def server(transactional_db, static_root) -> Iterator[str]:
    """The web entry as it is run for people; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
    env = {**os.environ, "DATABASE_URL": urlunsplit(url), "RECLOSER_STATIC_ROOT": str(static_root)}
    command = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)]
    command += ["--log-level", "warning", "--timeout-graceful-shutdown", "1"]
    process = subprocess.Popen(command, cwd=ROOT, env=env)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/sign-in/", process)
        yield address
    finally:
        process.terminate()
        process.wait(10)


def _wait_for(address: str, process: subprocess.Popen[bytes], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended at once"
        try:
            with urllib.request.urlopen(address, timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"the server did not answer within {within_s} s")


@pytest.fixture
def cast(transactional_db):
    """Everybody, as of now."""
    from controlplane import clock

    return factories.cast(clock.now())


@pytest.fixture
def sign_in(server, page):
    """`sign_in("otto")`: by the form, as a person does."""

    def enter(name: str, path: str = "/", on=page):
        on.goto(f"{server}{path}")
        on.get_by_label("Name").fill(name)
        on.get_by_label("Password").fill(factories.PASSWORD)
        on.get_by_role("button", name="Sign in").click()
        on.wait_for_url(f"{server}{path}")
        return on

    return enter
