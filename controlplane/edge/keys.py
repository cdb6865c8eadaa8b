"""Who calls: agent keys, looked up by prefix, compared by hash, remembered for a second."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass

from controlplane.edge.database import Pool
from controlplane.edge.http import Headers, Problem
from controlplane.services import access
from controlplane.services.ingest import Caller

KEEP_S = 1.0
"""So a revocation takes effect within about a second."""
KEPT = 20_000


@dataclass(frozen=True, slots=True)
class _Known:
    caller: Caller | None
    until: float


class Keys:
    """The keys that this process has seen in the last second."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Caller | None]] = {}

    async def caller(self, headers: Headers) -> Caller:
        """Whose key the request bears; Problem 401 if it is nobody's."""
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer":
            raise bad_key()
        token = token.strip()
        name = hashlib.sha256(token).digest()
        known = self._known.get(name)
        fresh = known is not None and time.monotonic() < known.until
        found = known.caller if known and fresh else await self._find(name, token)
        if found is None:
            raise bad_key()
        return found

    async def _find(self, name: bytes, token: bytes) -> Caller | None:
        if name not in self._asking:
            self._asking[name] = asyncio.create_task(self._learn(name, token))
        return await asyncio.shield(self._asking[name])

    async def _learn(self, name: bytes, token: bytes) -> Caller | None:
        """Look a key up, once for everyone who waits for it: a fleet that comes back bears few keys."""
        try:
            caller = await self._look_up(token)
        finally:
            del self._asking[name]
        self._known[name] = _Known(caller, time.monotonic() + KEEP_S)
        self._known.move_to_end(name)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return caller

    async def _look_up(self, text: bytes) -> Caller | None:
        token = access.read_token(text.decode("latin-1"))
        if token is None:
            return None
        async with self._pool.connection() as connection:
            row = await (await connection.execute(access.LOOKUP, [token.prefix], prepare=True)).fetchone()
        if row is None or not access.matches(token, row["digest"]):
            return None
        return Caller(row["id"], row["agent_id"], row["agent"], row["environment_id"], row["environment"])


def bad_key() -> Problem:
    """The answer to everyone without a valid key; it does not say what was wrong with it."""
    return Problem(401, "bad_key", "the key is missing, unknown or revoked", "send `Authorization: Bearer rcl_…`")
