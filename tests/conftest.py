"""Fixtures that every test may use."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
from django.db import connection

from controlplane import clock

# A process that has met a gRPC server forks others later, which run a program of their own at once: its threads must
# not be begun anew in between. Read when gRPC is first imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def frozen_clock():
    """Time stands still at noon; `frozen_clock.advance(5)` moves it."""
    with clock.frozen(NOON) as hand:
        yield hand


@pytest.fixture(autouse=True)
def _tables_without_a_model_of_their_own(request, django_db_blocker):
    """Django empties only the tables it manages: what a test with real transactions left elsewhere goes here.

    The audit refuses to be emptied; as a replica would, this connection passes its triggers by.
    """
    yield
    marker = request.node.get_closest_marker("django_db")
    if "transactional_db" not in request.fixturenames and not (marker and marker.kwargs.get("transaction")):
        return
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("TRUNCATE audit_entry, observation")
        cursor.execute("SET session_replication_role = origin")


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker):
    """A process that a test ended may hold its connections a moment longer than the database is to live."""
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
