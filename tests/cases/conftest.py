"""The cast, at noon or now; real servers, and agents that talk to them by the SDK."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client as Browser
from recloser import Client, Pace

from controlplane import clock
from controlplane.evidence import live, store
from tests import factories
from tests.conftest import NOON
from tests.edge import harness

FAST = Pace(flush_s=0.2, poll_config_s=0.3, poll_circuits_s=0.2, poll_live_s=0.5, retry_base_s=0.05, retry_cap_s=0.2)


@pytest.fixture
def cast(db, frozen_clock):
    """Everybody at noon, when time stands still."""
    store.forget()
    return factories.cast(NOON)


@pytest.fixture
def fleet(transactional_db):
    """Everybody, now."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE observation")
    live._cache.clear()
    store.forget()
    return factories.cast(clock.now())


@pytest.fixture
def server(fleet):
    """A real one on the test database."""
    running = harness.Server().wait()
    yield running
    running.close()


@pytest.fixture
def agent(server):
    """`agent("pod-1")`: the SDK in a worker of that name, attached to the server."""
    made = []

    def attach(instance, url=None):
        client = Client(url or server.url, factories.RESEARCH_TOKEN, instance=instance, cache_dir=False, pace=FAST)
        made.append(client)
        harness.until(lambda: client.status()["config"]["source"] == "server", within=20, what="the first config")
        return client

    yield attach
    for client in made:
        client.close(1.0)


@pytest.fixture
def page(settings, tmp_path):
    """`page("ann", "/runs/")`: the text of a page as that person sees it."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }

    def look(person, address):
        browser = Browser()
        browser.force_login(person, backend="controlplane.permissions.RoleBackend")
        return browser.get(address).content.decode()

    return look
