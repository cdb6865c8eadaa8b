"""Edge processes tell each other what a key has claimed: one counter a key in Redis, out of every batch's way."""

from __future__ import annotations

import asyncio

import redis.asyncio

from controlplane.delivery.hub import cancelled
from controlplane.evidence import store
from controlplane.services.ingest.caps import CallCap

EVERY_S = 0.1
FORGET_S = 60
"""A key that claimed nothing for so long may claim all again anyway."""


class Sharing:
    """One process's part."""

    def __init__(self, cap: CallCap, client: redis.asyncio.Redis) -> None:
        self._cap = cap
        self._redis = client
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to tell and to hear."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            await cancelled([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            if (claimed := self._cap.claimed()) and not store.away():
                await self._exchange(claimed)

    async def _exchange(self, claimed: dict[int, int]) -> None:
        """Without Redis what was claimed here stays unknown elsewhere: each process caps for itself."""
        pipeline = self._redis.pipeline(transaction=False)
        for key_id, calls in claimed.items():
            pipeline.incrby(f"rcl:cap:{key_id}", calls)
            pipeline.expire(f"rcl:cap:{key_id}", FORGET_S)
        try:
            totals = (await pipeline.execute())[::2]
        except store.FAILURES as error:
            store.failed(error)
            return
        for (key_id, calls), total in zip(claimed.items(), totals, strict=True):
            self._cap.heard(key_id, calls, int(total))
