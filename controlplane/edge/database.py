"""The hot routes' own small pool of Postgres connections, to whatever database Django uses."""

from __future__ import annotations

from typing import Any

import psycopg
from django.db import connections
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

SIZE = 6
WAIT_S = 1.0
"""A request that gets no connection by then is told to come again."""
WAITING = 200
STATEMENT_MS = 5_000

Pool = AsyncConnectionPool[psycopg.AsyncConnection[dict[str, Any]]]

AWAY = (psycopg.OperationalError, psycopg.InterfaceError)
"""Postgres is away, too slow, or the pool is full (psycopg_pool's errors are among them)."""


def pool() -> Pool:
    """A closed pool; whoever opens it closes it."""
    return AsyncConnectionPool(
        connection_class=psycopg.AsyncConnection[dict[str, Any]],
        kwargs=_parameters(),
        min_size=1,
        max_size=SIZE,
        timeout=WAIT_S,
        max_waiting=WAITING,
        reconnect_timeout=2.0,
        name="edge",
        open=False,
    )


def _parameters() -> dict[str, Any]:
    """libpq's parameters from Django's settings, read late: a test run gives its database another name."""
    settings = connections["default"].settings_dict
    own = {name: value for name, value in settings["OPTIONS"].items() if name != "pool"}
    named = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    given = {name: settings[key] for name, key in named.items() if settings[key]}
    limits = f"{own.get('options', '')} -c statement_timeout={STATEMENT_MS}".strip()
    session = {"options": limits, "connect_timeout": 3, "application_name": "recloser-edge"}
    return {**own, **given, **session, "autocommit": True, "row_factory": dict_row}
