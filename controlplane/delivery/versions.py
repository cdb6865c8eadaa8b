"""The versions of an environment's two documents: (epoch, n). The row is locked last in every transaction."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection, transaction

_RAISE = """
INSERT INTO controlplane_documentversion AS v (environment_id, epoch, config, circuits)
VALUES (%s, %s, 1, 1)
ON CONFLICT (environment_id) DO UPDATE
SET config = v.config + %s, circuits = v.circuits + %s
RETURNING epoch, config, circuits
"""
_RAISE_AND_STAMP = f"""
WITH v AS ({_RAISE}), stamped AS (
    UPDATE controlplane_circuit c SET version = v.circuits FROM v WHERE c.id = ANY(%s)
)
SELECT epoch, config, circuits FROM v
"""  # noqa: S608 (nothing but our own constant is put in)
_READ = "SELECT epoch, config, circuits FROM controlplane_documentversion WHERE environment_id = %s"


@dataclass(frozen=True, slots=True)
class Versions:
    """Where an environment's documents stand. Another epoch is another history: its n compare with none of ours."""

    epoch: str
    config: int
    circuits: int


def of(environment_id: int) -> Versions:
    """The current versions; an environment that has none yet gets its first."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, [environment_id])
        row = cursor.fetchone()
    return Versions(*row) if row else _raised(environment_id, config=0, circuits=0)


def all_known() -> dict[int, Versions]:
    """The versions of every environment that has any, by its id."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT environment_id, epoch, config, circuits FROM controlplane_documentversion")
        return {environment_id: Versions(*rest) for environment_id, *rest in cursor.fetchall()}


def bump_circuits(environment_id: int, *, carried: Sequence[int] = ()) -> int:
    """Raise the circuits version inside the caller's transaction, as its last lock; publish on commit.

    `carried`: the circuits, locked by the caller, that this version is the first to tell of.
    """
    _inside_a_transaction()
    if not carried:
        return _raised(environment_id, config=0, circuits=1).circuits
    with connection.cursor() as cursor:
        cursor.execute(_RAISE_AND_STAMP, [environment_id, _epoch(), 0, 1, list(carried)])
        return Versions(*cursor.fetchone()).circuits


def bump_config(environment_id: int) -> int:
    """Raise the config version likewise. The circuits version goes along: it carries each policy's delivery mode."""
    _inside_a_transaction()
    return _raised(environment_id, config=1, circuits=1).config


def new_epoch() -> int:
    """After a restore: agents accept the documents of a new epoch whatever their n. Returns how many environments."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE controlplane_documentversion SET epoch = %s", [_epoch()])
        return int(cursor.rowcount)


def _raised(environment_id: int, *, config: int, circuits: int) -> Versions:
    with connection.cursor() as cursor:
        cursor.execute(_RAISE, [environment_id, _epoch(), config, circuits])
        return Versions(*cursor.fetchone())


def _inside_a_transaction() -> None:
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("raise a version in the transaction that changes its document")


def _epoch() -> str:
    return secrets.token_hex(6)
