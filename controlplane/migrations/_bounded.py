"""Limits for migrations that run while the previous version still serves."""

from collections.abc import Mapping, Sequence

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db.migrations.operations import RunSQL
from django.db.migrations.operations.base import Operation
from django.db.models import Index


def bounded(*operations: Operation, lock_ms: int = 4_000, statement_ms: int = 5_000) -> Sequence[Operation]:
    """Give up on a lock or a slow statement; for atomic migrations on Postgres."""
    limits = [
        f"SET LOCAL lock_timeout = {int(lock_ms)}",
        f"SET LOCAL statement_timeout = {int(statement_ms)}",
    ]
    return [RunSQL(limits, RunSQL.noop), *operations]


def concurrently(indexes: Mapping[str, Sequence[Index]], *, lock_ms: int = 60_000) -> Sequence[Operation]:
    """Indexes by model, built while rows are written; for migrations with `atomic = False` and nothing else in them.

    However long a build takes, nobody waits for it; it waits for older transactions, and gives up on those after a
    minute. What a build that was stopped left behind goes first, so such a migration may be run again.
    """
    begin = [
        RunSQL(f"SET lock_timeout = {int(lock_ms)}", RunSQL.noop),
        RunSQL("SET statement_timeout = 0", RunSQL.noop),
    ]
    end = [RunSQL("RESET statement_timeout", RunSQL.noop), RunSQL("RESET lock_timeout", RunSQL.noop)]
    made = [_anew(model, each) for model, each_of in indexes.items() for each in each_of]
    return [*begin, *(one for pair in made for one in pair), *end]


def _anew(model: str, index: Index) -> tuple[Operation, Operation]:
    return (
        RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}", RunSQL.noop),
        AddIndexConcurrently(model_name=model, index=index),
    )
