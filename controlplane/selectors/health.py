"""What is up: Postgres, Redis, the scheduler and the Celery workers, each with how long ago it was heard."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import redis
from django.db import Error as DatabaseError

from controlplane import clock, redis_clients
from controlplane.selectors import processes
from controlplane.selectors.processes import Heard


@dataclass(frozen=True, slots=True)
class Kind:
    """The processes of one kind: up if one of them was heard lately and does its work."""

    state: str
    age_s: float | None = None
    processes: int = 0
    failing: list[str] = field(default_factory=list)
    """Jobs that the leading scheduler could not do."""


@dataclass(frozen=True, slots=True)
class Health:
    """The truth about this control plane as one process sees it."""

    postgres: str
    redis: str
    scheduler: Kind = field(default_factory=lambda: Kind("unknown"))
    worker: Kind = field(default_factory=lambda: Kind("unknown"))
    edge: Kind = field(default_factory=lambda: Kind("unknown"))

    @property
    def ready(self) -> bool:
        """Without Postgres nothing can be answered; all else is only degraded."""
        return self.postgres == "up"

    @property
    def degraded(self) -> list[str]:
        """What is missing, though requests are answered."""
        kinds = {"scheduler": self.scheduler, "worker": self.worker}
        missing = [name for name, kind in kinds.items() if kind.state == "away"]
        return missing if self.redis == "up" else ["redis", *missing]

    def plain(self) -> dict[str, Any]:
        """As JSON tells it."""
        return {"ready": self.ready, "degraded": self.degraded, **asdict(self)}


def health() -> Health:
    """Ask everyone."""
    heard = _redis()
    try:
        now = clock.now()
        kinds = {kind: _kind(told, now) for kind, told in processes.all_heard(now).items()}
    except DatabaseError:
        return Health(postgres="away", redis=heard)
    return Health(postgres="up", redis=heard, **kinds)


def _kind(told: Heard, now: datetime) -> Kind:
    age_s = None if told.last_at is None else round(max(0.0, (now - told.last_at).total_seconds()), 1)
    return Kind("up" if told.working else "away", age_s, told.alive, list(told.failing))


def _redis() -> str:
    try:
        redis_clients.blocking().ping()
    except (redis.RedisError, OSError):
        return "away"
    return "up"
