"""A fixed cast: prod with the agent `research` and its key, staging, and the edge in this process."""

import pytest
from django.db import connection

from controlplane import clock
from controlplane.delivery import versions
from controlplane.evidence import live, store
from controlplane.models import Agent, Environment
from controlplane.services import access
from tests.edge import harness


@pytest.fixture(autouse=True)
def _fresh(transactional_db):
    """Django empties only the tables that it manages; and what is remembered of them goes too."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE observation")
    live._cache.clear()
    store.forget()


@pytest.fixture
def prod():
    return _environment("prod")


@pytest.fixture
def staging():
    return _environment("staging")


def _environment(slug):
    row = Environment.objects.create(slug=slug, name=slug.title(), created_at=clock.now())
    versions.of(row.pk)
    return row


@pytest.fixture
def research(prod):
    return Agent.objects.create(environment=prod, slug="research", name="Research", created_at=clock.now())


@pytest.fixture
def issue(prod, research):
    """Issue another key: (row, token)."""
    return lambda: access.issue_key(environment=prod, agent=research, label="", actor="ann", now=clock.now())


@pytest.fixture
def key(issue):
    row, row.token = issue()
    return row


@pytest.fixture
def edge():
    server = harness.InProcess()
    yield server
    server.close()


@pytest.fixture
def agent(edge, key):
    return harness.Agent(edge, key.token)


@pytest.fixture
def servers():
    """Start real edge processes; they end with the test."""
    started = []

    def start(number, **environment):
        started.extend(harness.Server(**environment) for _ in range(number))
        return [server.wait() for server in started[-number:]]

    yield start
    for server in started:
        server.close()
