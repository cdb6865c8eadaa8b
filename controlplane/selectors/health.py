"""What is up: Postgres, Redis, the scheduler and the Celery workers, each with how long ago it was heard."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import redis
from django.db import Error as DatabaseError

from controlplane import clock, redis_clients
from controlplane.models import ProcessBeat

SILENT_S = {"scheduler": 10.0, "worker": 60.0, "edge": 20.0}
"""A process that has not been heard for so long is taken for away."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The processes of one kind: up if one of them was heard lately, and of schedulers one that leads."""

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
        beats = list(ProcessBeat.objects.filter(kind__in=SILENT_S))
    except DatabaseError:
        return Health(postgres="away", redis=heard)
    kinds = {kind: _kind(kind, (beat for beat in beats if beat.kind == kind), now) for kind in SILENT_S}
    return Health(postgres="up", redis=heard, **kinds)


def _kind(kind: str, beats: Iterable[ProcessBeat], now: datetime) -> Kind:
    age_of = {beat: (now - beat.beat_at).total_seconds() for beat in beats}
    live = [beat for beat, age in age_of.items() if age <= SILENT_S[kind]]
    working = [beat for beat in live if _is_at_work(beat)]
    ages = [age for beat, age in age_of.items() if _is_at_work(beat)]
    youngest = round(max(0.0, min(ages)), 1) if ages else None
    failing = {job for beat in working for job in beat.detail.get("failing", [])}
    return Kind("up" if working else "away", youngest, len(live), sorted(failing))


def _is_at_work(beat: ProcessBeat) -> bool:
    """A scheduler that stands by dispatches nothing."""
    return beat.kind != "scheduler" or beat.detail.get("leader") is True


def _redis() -> str:
    try:
        redis_clients.blocking().ping()
    except (redis.RedisError, OSError):
        return "away"
    return "up"
