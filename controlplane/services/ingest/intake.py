"""Taking one batch: who sent it, which names it uses, one statement, and what has to follow."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from recloser.core.types import State

from controlplane import clock
from controlplane.evidence.outcomes import failures
from controlplane.evidence.rows import Row
from controlplane.services.ingest import names as naming
from controlplane.services.ingest import statement
from controlplane.services.ingest.caps import CallCap
from controlplane.services.ingest.claims import Claims, claims_of, pairs
from controlplane.services.ingest.hints import keep_hints
from controlplane.services.ingest.home import at_home
from controlplane.services.ingest.local import keep_overrides
from controlplane.services.ingest.names import Caller, Names
from controlplane.services.ingest.wire import Batch
from controlplane.threads import Threads

Pool = AsyncConnectionPool[psycopg.AsyncConnection[dict[str, Any]]]

KEPT_SESSIONS = 20_000
KEPT_REFUSALS = 10_000


class Foreign(Exception):
    """The session id is another key's or another instance's."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A server asked to wait: it may put an open circuit's deadline off."""

    dependency_id: int
    until: float


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a batch, and what has to follow now that it is committed."""

    ack: int
    repeat: bool
    now: float
    epoch: str
    config: int
    circuits_version: int
    circuits: dict[str, dict[str, Any]]
    notes: dict[str, str]
    rows: list[Row]
    """To be counted; of a repeat, those that may or may not have been."""
    consider: set[int]
    """Dependencies whose circuits have to be considered: something failing or slow was counted."""
    waits: list[Wait]


class Intake:
    """One process's door for batches: it remembers names and sessions, so that most batches cost one statement."""

    def __init__(self, pool: Pool, threads: Threads) -> None:
        self._pool = pool
        self._threads = threads
        self.cap = CallCap()
        self._names: dict[int, Names] = {}
        self._refused: dict[tuple[int, str, str], tuple[str, int]] = {}
        self._sessions: OrderedDict[UUID, tuple[int, str, int]] = OrderedDict()

    async def take(self, caller: Caller, batch: Batch) -> Taken:
        """Take a batch once. Raises Foreign or Capped, with nothing taken; a repeat changes nothing."""
        try:
            return await self._take(caller, batch)
        except _Forgotten:
            self._forget(caller, batch)
            return await self._take(caller, batch)

    def worker_of(self, session: UUID) -> int | None:
        """The worker of a session that has just been heard."""
        known = self._sessions.get(session)
        return known[2] if known else None

    async def _take(self, caller: Caller, batch: Batch) -> Taken:
        worker_id = await self._worker(caller, batch)
        names, batch = await self._known_names(caller, batch)
        claims = claims_of(batch, names, caller, self.cap)
        if batch.overrides:
            await self._keep_overrides(caller, batch, worker_id, claims)
        if batch.hints:
            await self._threads.run(keep_hints, caller, batch.hints)
        found = await self._execute(caller, batch, worker_id, claims)
        if (found["epoch"], found["config"]) != names.version:
            names = await self._read_names(caller.environment_id)
        return self._taken(caller, batch, worker_id, claims, names, found)

    async def _worker(self, caller: Caller, batch: Batch) -> int:
        known = self._sessions.get(batch.session)
        if known is not None:
            if known[:2] != (caller.key_id, batch.instance):
                raise Foreign
            return known[2]
        asked = {"key": caller.key_id, "instance": batch.instance, "session": batch.session}
        owner = await self._one(statement.OWNER, asked)
        if owner is not None and not owner["own"]:
            raise Foreign
        worker_id = await self._threads.run(naming.worker, caller, batch.instance)
        self._sessions[batch.session] = (caller.key_id, batch.instance, worker_id)
        if len(self._sessions) > KEPT_SESSIONS:
            self._sessions.popitem(last=False)
        return worker_id

    async def _keep_overrides(self, caller: Caller, batch: Batch, worker_id: int, claims: Claims) -> None:
        """Before the batch is acknowledged; each has an id, so a batch that has to come again tells nothing twice."""
        kept = await self._threads.run(keep_overrides, caller, worker_id, batch.instance, batch.overrides)
        if not kept:
            claims.notes["overrides_capped"] = "more local overrides than one key may tell of in an hour: not kept"

    async def _known_names(self, caller: Caller, batch: Batch) -> tuple[Names, Batch]:
        """The names of the batch, the new ones discovered, and the batch with its evidence where it belongs."""
        names = self._names.get(caller.environment_id) or await self._read_names(caller.environment_id)
        home = at_home(batch, names)
        if not self._missing(names, caller, home):
            return names, home
        names = await self._read_names(caller.environment_id)
        home = at_home(batch, names)
        if missing := self._missing(names, caller, home):
            await self._threads.run(naming.discover, caller, missing)
            names = await self._read_names(caller.environment_id)
            self._remember_refusals(names, caller, missing)
        return names, home

    def _missing(self, names: Names, caller: Caller, batch: Batch) -> set[tuple[str, str]]:
        unknown = names.unknown(pairs(batch), caller.key_id)
        return {pair for pair in unknown if self._refused.get((caller.key_id, *pair)) != names.version}

    def _remember_refusals(self, names: Names, caller: Caller, wanted: set[tuple[str, str]]) -> None:
        """What a cap refused is not asked for again until the environment's names change."""
        if len(self._refused) > KEPT_REFUSALS:
            self._refused.clear()
        for pair in names.unknown(wanted, caller.key_id):
            self._refused[caller.key_id, *pair] = names.version

    async def _read_names(self, environment_id: int) -> Names:
        self._names[environment_id] = await self._threads.run(naming.read, environment_id)
        return self._names[environment_id]

    async def _execute(self, caller: Caller, batch: Batch, worker_id: int, claims: Claims) -> dict[str, Any]:
        try:
            take = statement.TAKE_REPORTS if batch.trips or batch.runs else statement.TAKE
            found = await self._one(take, _parameters(caller, batch, worker_id, claims))
        except psycopg.errors.ForeignKeyViolation:
            raise _Forgotten from None
        if found is None:
            raise _Forgotten
        if not found["rose"]:
            asked = {"session": batch.session, "key": caller.key_id, "worker": worker_id}
            found |= await self._one(statement.FAR, asked) or {"own": False}
            if not found["own"]:
                raise Foreign
        return found

    async def _one(self, query: statement.Statement, parameters: dict[str, Any]) -> dict[str, Any] | None:
        values = [None if value is None else str(value) for value in query.values(parameters)]
        async with self._pool.connection() as connection:
            cursor = psycopg.AsyncRawCursor(connection, row_factory=dict_row)
            await cursor.execute(query.text, values, prepare=True)
            return await cursor.fetchone()

    def _taken(
        self, caller: Caller, batch: Batch, worker_id: int, claims: Claims, names: Names, found: dict[str, Any]
    ) -> Taken:
        by_id = {known.id: known for known in names.dependencies.values()}
        circuits = msgspec.json.decode(found["circuits_named"])
        stored = msgspec.json.decode(found["stored"]) if found["rose"] else _repeated(claims, found["now"])
        rows = [_row(caller, worker_id, batch.session, each, by_id[each["dependency_id"]].window_s)
                for each in stored if each["dependency_id"] in by_id]  # fmt: skip
        trusted = found["rose"] and not found["key_quarantined"] and not found["worker_quarantined"]
        return Taken(
            ack=batch.seq if found["rose"] else found["last_seq"],
            repeat=not found["rose"],
            now=found["now"],
            epoch=found["epoch"],
            config=found["config"],
            circuits_version=found["circuits"],
            circuits={
                slug: _entry(circuits.get(str(pk)), by_id[pk].delivery if pk in by_id else "enforce")
                for slug, pk in claims.dependencies.items()
            },
            notes=claims.notes | _distrust(found) | _foreign(found),
            rows=rows,
            consider={row.dependency_id for row in rows if row.counted and (row.failures or row.slow_calls)}
            if found["rose"]
            else set(),
            waits=[wait for row in rows if trusted and (wait := _wait(row, circuits))],
        )

    def _forget(self, caller: Caller, batch: Batch) -> None:
        self._names.pop(caller.environment_id, None)
        self._sessions.pop(batch.session, None)


class _Forgotten(Exception):
    """A row that this process remembers is gone: look again, once."""


def _parameters(caller: Caller, batch: Batch, worker_id: int, claims: Claims) -> dict[str, Any]:
    config, circuits = batch.config or (None, None), batch.circuits or (None, None)
    return {
        "now": clock.substitute(),
        "session": batch.session,
        "worker": worker_id,
        "key": caller.key_id,
        "agent": caller.agent_id,
        "environment": caller.environment_id,
        "seq": batch.seq,
        "sdk": batch.sdk,
        "pid": batch.pid,
        "feed": batch.feed,
        "config_epoch": config[0] or "",
        "config_version": config[1],
        "circuits_epoch": circuits[0] or "",
        "circuits_version": circuits[1],
        "stale_s": batch.stale_s,
        "dependencies": f"{{{','.join(map(str, claims.dependencies.values()))}}}",
        "observations": _json(claims.observations),
        "trips": _json(claims.trips),
        "runs": _json(claims.runs),
        "step_logs": _json(claims.step_logs),
    }


def _json(rows: list[dict[str, Any]]) -> str:
    return msgspec.json.encode(rows).decode()


def _row(caller: Caller, worker_id: int, session: UUID, stored: dict[str, Any], window_s: float) -> Row:
    return Row(
        environment_id=caller.environment_id,
        dependency_id=stored["dependency_id"],
        generation=stored["generation"],
        worker_id=worker_id,
        session=str(session),
        window_s=window_s,
        at=float(stored["at"]),
        received_at=float(stored["received"]),
        ok=stored["ok"],
        empty=stored["empty"],
        failures=failures(stored),
        slow=stored["slow"],
        streak=stored["streak"],
        operation=stored["operation"],
        retry_after_s=stored["retry_after_s"],
        counted=stored["counted"],
    )


def _repeated(claims: Claims, now: float) -> list[dict[str, Any]]:
    """The rows of a batch that had been stored before, as far as its sender repeats them."""
    return [
        {**row, "at": now - row["age_s"], "received": now, "counted": row["countable"]} for row in claims.observations
    ]


def _entry(circuit: dict[str, Any] | None, delivery: str) -> dict[str, Any]:
    return {**(circuit or _PLAINLY_CLOSED), "delivery": delivery}


_PLAINLY_CLOSED = {
    "state": "closed",
    "mode": "auto",
    "generation": 0,
    "mode_expires_at": None,
    "cause": None,
    "opened_at": None,
    "due_at": None,
    "suspected": False,
    "operation": None,
    "tripped_by": None,
    "ramp_started_at": None,
    "probed": False,
}


def _distrust(found: dict[str, Any]) -> dict[str, str]:
    notes = {}
    if found["key_quarantined"]:
        notes["key_quarantined"] = "recorded, not counted"
    if found["worker_quarantined"]:
        notes["worker_quarantined"] = "recorded, not counted"
    return notes


def _foreign(found: dict[str, Any]) -> dict[str, str]:
    """What was not kept, since its id is taken: an id is one agent's, in one environment."""
    notes = {}
    if found["foreign_run"]:
        notes["foreign_run"] = "a run's id is another agent's or environment's: not kept; make a new id for each run"
    if found["foreign_trip"]:
        notes["foreign_trip"] = "a trip's id is another environment's: not kept; make a new id for each trip"
    return notes


def _wait(row: Row, circuits: dict[str, Any]) -> Wait | None:
    """What the row asks of a circuit that is open, however old the row is; a generation yet to come is nobody's."""
    circuit = circuits.get(str(row.dependency_id))
    if row.retry_after_s is None or not row.failures or circuit is None or circuit["state"] != State.OPEN:
        return None
    if row.generation > circuit["generation"]:
        return None
    return Wait(row.dependency_id, row.at + row.retry_after_s)
