"""Circuits that a batch spoke against, judged beside the event loop: each by one thread at a time, none twice over."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from controlplane import clock
from controlplane.services import circuits
from controlplane.services.ingest.intake import Wait
from controlplane.threads import Threads

AT_ONCE = 4
JUST_AFTER_S = 0.01
REST = 3.0
"""Between two judgements of one circuit lies so many times what the first one took: at most a quarter is spent."""
LONGEST_REST_S = 0.25
AGAIN_S, MOST_FAILURES = 0.5, 6
"""A judgement that failed is asked for again, each time after twice as long, and so often at most in a row."""

log = structlog.get_logger(__name__)


class Considering:
    """What this process has still to judge. What it forgets by dying, the scheduler judges."""

    def __init__(self) -> None:
        self._threads = Threads(AT_ONCE, "consider")
        self._again: dict[int, bool] = {}
        self._settling: dict[int, asyncio.TimerHandle] = {}
        self._failures: dict[int, int] = {}
        self._closing = False
        self._tasks: set[asyncio.Task[Any]] = set()

    def ask(self, dependency_id: int) -> None:
        """Judge the circuit soon; whatever is asked while it is being judged leads to one more judgement."""
        if dependency_id in self._again:
            self._again[dependency_id] = True
            return
        self._again[dependency_id] = False
        self._start(self._work(dependency_id))

    def lengthen(self, wait: Wait) -> None:
        """Let a server's explicit wait put an open circuit's deadline off."""
        self._start(self._guarded(_lengthen, wait))

    async def quiet(self, within_s: float) -> None:
        """Wait until nothing is being judged; what has still to settle is not waited for."""
        async with asyncio.timeout(within_s):
            while self._tasks:
                await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Let what runs end, within a second; the scheduler judges what is left."""
        self._closing = True
        for timer in self._settling.values():
            timer.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=1.0)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self._threads.close()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, dependency_id: int) -> None:
        """Judge, and judge again while that is asked for; in between rest, so that batches get most of the time."""
        try:
            while True:
                began = time.monotonic()
                considered = await self._guarded(_consider, dependency_id)
                if considered is None:
                    considered = self._failed(dependency_id)
                else:
                    self._failures.pop(dependency_id, None)
                self._settle(dependency_id, considered)
                if self._closing or not self._again[dependency_id]:
                    return
                await asyncio.sleep(min(LONGEST_REST_S, REST * (time.monotonic() - began)))
                self._again[dependency_id] = False
        finally:
            del self._again[dependency_id]

    def _failed(self, dependency_id: int) -> _Judged:
        """When to ask again; not for ever, since the scheduler judges by rows."""
        failures = self._failures.pop(dependency_id, 0) + 1
        if failures >= MOST_FAILURES:
            return _Judged(None)
        self._failures[dependency_id] = failures
        return _Judged(AGAIN_S * 2 ** (failures - 1))

    def _settle(self, dependency_id: int, considered: _Judged) -> None:
        if (pending := self._settling.pop(dependency_id, None)) is not None:
            pending.cancel()
        if considered.settles_in_s is not None and not self._closing:
            later = asyncio.get_running_loop().call_later
            self._settling[dependency_id] = later(considered.settles_in_s, self.ask, dependency_id)

    async def _guarded(self, work: Any, argument: Any) -> Any:
        started = time.monotonic()
        try:
            return await self._threads.run(work, argument)
        except Exception as error:
            log.warning("not_considered", error=type(error).__name__, seconds=round(time.monotonic() - started, 3))
            return None


@dataclass(frozen=True, slots=True)
class _Judged:
    settles_in_s: float | None


def _consider(dependency_id: int) -> _Judged:
    now = clock.now()
    settles_at = circuits.consider(dependency_id=dependency_id, now=now).settles_at
    return _Judged(None if settles_at is None else max(0.0, (settles_at - now).total_seconds()) + JUST_AFTER_S)


def _lengthen(wait: Wait) -> None:
    until = datetime.fromtimestamp(wait.until, UTC)
    circuits.hear_wait(dependency_id=wait.dependency_id, until=until, now=clock.now())
