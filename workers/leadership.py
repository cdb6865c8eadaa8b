"""Who leads: the one scheduler whose own connection holds an advisory lock in Postgres.

The lock dies with the connection, so a killed leader is succeeded as soon as its socket closes, and one whose machine
vanished as soon as the keepalives fail. One that hangs with its socket open is ended by whoever stands by, and finds
its connection gone before it acts again. Never through a transaction pooler: the lock belongs to a session.
"""

from datetime import datetime
from typing import Any

import psycopg
from django.db import connection as django_connection

from controlplane.services.system import DUE_CHANNEL

LOCK_KEY = int.from_bytes(b"recloser")
KEEPALIVES = {"keepalives": 1, "keepalives_idle": 2, "keepalives_interval": 1, "keepalives_count": 3}
LIMITS = {"connect_timeout": 3, "tcp_user_timeout": 5000}
_END_HOLDER = f"""
SELECT count(pg_terminate_backend(pid)) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid <> pg_backend_pid()
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND classid = {LOCK_KEY >> 32} AND objid = {LOCK_KEY & 0xFFFFFFFF}
"""  # noqa: S608
NOT_FOR_LIBPQ = ("pool", "cursor_factory", "context", "prepare_threshold", "server_side_binding", "isolation_level")


class Leadership:
    """A dedicated connection: the lock, the clock, and the notifications of due work."""

    def __init__(self) -> None:
        self._connection: psycopg.Connection[Any] | None = None
        self.held = False

    def now(self) -> datetime:
        """The database's time; raises when the connection, and with it the lock, is gone."""
        at: datetime = self._value("SELECT clock_timestamp()")
        return at

    def take(self) -> bool:
        """Become the leader unless another scheduler is."""
        if not self.held and self._value(f"SELECT pg_try_advisory_lock({LOCK_KEY})"):
            self._connected().execute(f"LISTEN {DUE_CHANNEL}")
            self.held = True
        return self.held

    def end_holder(self) -> bool:
        """End the connection of whoever holds the lock, and with it the lock; whether there was one to end."""
        return bool(self._value(_END_HOLDER))

    def wait(self, timeout_s: float) -> None:
        """Return at the first notification of due work, or when the time is up; several are one."""
        if list(self._connected().notifies(timeout=timeout_s, stop_after=1)):
            list(self._connected().notifies(timeout=0))

    def close(self) -> None:
        """Give up connection and lock."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self.held = None, False

    def _value(self, query: str) -> Any:
        row = self._connected().execute(query).fetchone()
        assert row is not None
        return row[0]

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = psycopg.connect(**_parameters(), autocommit=True)
        return self._connection


def _parameters() -> dict[str, Any]:
    """Django's own way to the database, without its pool."""
    given = django_connection.get_connection_params()
    ours = {name: value for name, value in given.items() if name not in NOT_FOR_LIBPQ}
    return {"application_name": "recloser scheduler", **KEEPALIVES, **LIMITS, **ours}
