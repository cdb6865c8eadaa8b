"""Database connections of threads that mostly wait: given back to the pool before waiting, never in a transaction."""

from django.db import connections


def release() -> None:
    """Give this thread's connections back; the next query takes one again."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
