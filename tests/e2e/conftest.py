"""A real browser against a real server on the test database; skipped loudly where there is no Chromium."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from controlplane import clock
from controlplane.models import User
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


def is_foreign(url: str) -> bool:
    """Whether a page asks anybody but us."""
    return urlsplit(url).hostname not in ("127.0.0.1", None)


@pytest.fixture
def opened(browser, still) -> Iterator[Callable[..., BrowserContext]]:
    """`opened(**options)`: a browser profile of its own; a script error, a refused or a foreign resource fails it."""
    contexts: list[BrowserContext] = []
    troubles: list[str] = []

    def profile(**options: Any) -> BrowserContext:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.on("weberror", lambda error: troubles.append(str(error.error)))
        context.on(
            "console", lambda line: troubles.append(line.text) if "Content Security Policy" in line.text else None
        )
        context.on(
            "request", lambda request: troubles.append(f"asked {request.url}") if is_foreign(request.url) else None
        )
        contexts.append(context)
        return context

    yield profile
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def page(opened) -> Page:
    """A fresh person's tab."""
    return opened().new_page()


@pytest.fixture(scope="session")
def collecting(tmp_path_factory) -> tuple[Path, subprocess.Popen[bytes]]:
    """The files as a deployment serves them, hashed and compressed: collected while the database is made."""
    root = tmp_path_factory.mktemp("static")
    command = [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"]
    return root, subprocess.Popen(command, cwd=ROOT, env={**os.environ, "RECLOSER_STATIC_ROOT": str(root)})


@pytest.fixture(scope="session")
def serving(collecting, django_db_setup) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The web entry as it is run for people, on the test database, for all journeys: its address and process."""
    static_root, collected = collecting
    assert collected.wait(60) == 0
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
        yield address, process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(10)


def _wait_for(address: str, process: subprocess.Popen[bytes], within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended at once"
        try:
            with urllib.request.urlopen(address, timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"the server did not answer within {within_s} s")


@pytest.fixture(scope="session")
def server(serving) -> str:
    """The address at which the dashboard is served."""
    return serving[0]


@pytest.fixture
def still(serving, transactional_db) -> Iterator[None]:
    """From the end of one journey to the beginning of the next the server holds its breath.

    The tables are emptied meanwhile: a request that had just begun would meet that in a deadlock.
    """
    _, process = serving
    process.send_signal(signal.SIGCONT)
    yield
    deadline = time.monotonic() + 10
    process.send_signal(signal.SIGSTOP)
    while _at_work() and time.monotonic() < deadline:
        process.send_signal(signal.SIGCONT)
        time.sleep(0.02)
        process.send_signal(signal.SIGSTOP)


def _at_work() -> int:
    """How many other connections to the test database are in the middle of something."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"
        )
        (found,) = cursor.fetchone()
    return int(found)


@pytest.fixture
def cast(still):
    """Everybody, as of now."""
    return factories.cast(clock.now())


@pytest.fixture
def sign_in(server, page, cast):
    """`sign_in("otto")`: a tab of somebody who has signed in; the form itself has a journey of its own."""

    def enter(name: str, path: str = "/", on=None):
        tab = on or page
        tab.context.add_cookies([{"name": "sessionid", "value": session_of(name), "url": server}])
        tab.goto(f"{server}{path}")
        return tab

    return enter


def session_of(name: str) -> str:
    """The key of a session of that person, as signing in makes one."""
    person = User.objects.get(username=name)
    session = SessionStore()
    session[SESSION_KEY], session[HASH_SESSION_KEY] = str(person.pk), person.get_session_auth_hash()
    session[BACKEND_SESSION_KEY] = "controlplane.permissions.RoleBackend"
    session.create()
    return str(session.session_key)
