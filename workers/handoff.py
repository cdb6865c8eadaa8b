"""Claimed work goes to Celery at once; where Celery cannot take it, the scheduler does it itself."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import structlog
from celery import Task
from kombu.exceptions import KombuError
from kombu.exceptions import OperationalError as BrokerAway
from redis.exceptions import RedisError

from controlplane import redis_clients
from workers import database

BATCH = 20
OWN_THREADS = 8
LOOK_EVERY_S = 3.0
"""An absent broker costs its time-out at each look, and circuits wait meanwhile."""

OK, AWAY, NO_WORKER = "ok", "away", "no_worker"

log = structlog.get_logger(__name__)


class Handoff:
    """Where work goes, and how the broker stands."""

    def __init__(self) -> None:
        self._next_look_at = 0.0
        self._own = threading.BoundedSemaphore(OWN_THREADS)
        self.broker = OK

    def look(self, *, worker_lives: bool) -> None:
        """See whether Celery can take work; an absent broker is asked again every few seconds only."""
        if time.monotonic() >= self._next_look_at:
            answers = _broker_answers()
            self._next_look_at = time.monotonic() + LOOK_EVERY_S
        else:
            answers = self.broker != AWAY
        self._note((OK if worker_lives else NO_WORKER) if answers else AWAY)

    @property
    def room(self) -> bool:
        """Whether work that is claimed now would be done now."""
        if self.broker == OK:
            return True
        free = self._own.acquire(blocking=False)
        if free:
            self._own.release()
        return free

    def give(self, task: "Task[Any, Any]", items: Sequence[Any], *, expires_s: float, queue: str | None = None) -> None:
        """Have `task` called with these items, in batches; after `expires_s` they are somebody else's.

        What is for a `queue` of its own is for that place, and is never done here in its stead.
        """
        for start in range(0, len(items), BATCH):
            batch = list(items[start : start + BATCH])
            if not self._sent(task, batch, expires_s, queue) and queue is None:
                self._perform(task, batch)

    def _sent(self, task: "Task[Any, Any]", batch: list[Any], expires_s: float, queue: str | None) -> bool:
        if self.broker != OK:
            return False
        default = str(task.app.conf.task_default_queue)
        try:
            task.apply_async(args=(batch,), expires=max(expires_s, 1.0), retry=False, queue=queue or default)
        except (BrokerAway, KombuError, RedisError, OSError) as error:
            self._next_look_at = time.monotonic() + LOOK_EVERY_S
            self._note(AWAY, error=type(error).__name__)
            return False
        return True

    def _perform(self, task: "Task[Any, Any]", batch: list[Any]) -> None:
        """Do it here, beside the loop. Without a free hand it waits for its lease to run out, like any lost work."""
        if not self._own.acquire(blocking=False):
            log.warning("no free hand", task=task.name, items=len(batch))
            return
        threading.Thread(target=self._carry_out, args=(task, batch), daemon=True).start()

    def _carry_out(self, task: "Task[Any, Any]", batch: list[Any]) -> None:
        try:
            task.run(batch)
        except Exception:
            log.exception("own work failed", task=task.name)
        finally:
            database.release()
            self._own.release()

    def _note(self, broker: str, **detail: str) -> None:
        if broker != self.broker:
            log.warning("handing work to Celery" if broker == OK else "doing the work here", broker=broker, **detail)
        self.broker = broker


def _broker_answers() -> bool:
    try:
        return bool(redis_clients.blocking().ping())
    except (RedisError, OSError):
        return False
