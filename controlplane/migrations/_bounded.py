"""Limits for migrations that run while the previous version still serves."""

from collections.abc import Sequence

from django.db.migrations.operations import RunSQL
from django.db.migrations.operations.base import Operation


def bounded(*operations: Operation, lock_ms: int = 4_000, statement_ms: int = 5_000) -> Sequence[Operation]:
    """Give up on a lock or a slow statement; for atomic migrations on Postgres."""
    limits = [
        f"SET LOCAL lock_timeout = {int(lock_ms)}",
        f"SET LOCAL statement_timeout = {int(statement_ms)}",
    ]
    return [RunSQL(limits, RunSQL.noop), *operations]
