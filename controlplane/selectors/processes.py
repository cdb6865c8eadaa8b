"""Which of our own processes are alive, and which of them do their work: one rule for health, Board and scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.models import ProcessBeat

SILENT_AFTER: Mapping[str, timedelta] = {
    "scheduler": timedelta(seconds=10),
    "worker": timedelta(seconds=6),
    "edge": timedelta(seconds=20),
}
"""A process that has not been heard for so long is taken for gone: several of its beats are missing."""

_WORKS_WHEN = {"scheduler": "leader", "worker": "listening"}
"""A scheduler that stands by dispatches nothing; a Celery worker that waits for its broker takes nothing."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The processes of one kind."""

    alive: int = 0
    working: int = 0
    """Of those alive."""
    at_large: int = 0
    """Of those at work, without Celery workers that probe from a place of their own and do nothing else."""
    last_at: datetime | None = None
    """When one that did its work was last heard, however long ago."""
    failing: tuple[str, ...] = ()
    """Jobs that those at work could not do."""


def heard(kind: str, now: datetime) -> Heard:
    """What the processes of this kind have told."""
    return _summed(kind, ProcessBeat.objects.filter(kind=kind), now)


def all_heard(now: datetime) -> dict[str, Heard]:
    """The same of every kind, in one look."""
    beats = list(ProcessBeat.objects.filter(kind__in=SILENT_AFTER))
    return {kind: _summed(kind, (beat for beat in beats if beat.kind == kind), now) for kind in SILENT_AFTER}


def last_at_work(kind: str) -> datetime | None:
    """When one of this kind that did its work was last heard; None if none is known."""
    return _last(ProcessBeat.objects.filter(kind=kind))


def _summed(kind: str, beats: Iterable[ProcessBeat], now: datetime) -> Heard:
    known = list(beats)
    alive = [beat for beat in known if now - beat.beat_at < SILENT_AFTER[kind]]
    working = [beat for beat in alive if _works(beat)]
    return Heard(
        alive=len(alive),
        working=len(working),
        at_large=sum(not beat.detail.get("vantage") for beat in working),
        last_at=_last(known),
        failing=tuple(sorted({job for beat in working for job in beat.detail.get("failing", [])})),
    )


def _last(beats: Iterable[ProcessBeat]) -> datetime | None:
    return max((beat.beat_at for beat in beats if _works(beat)), default=None)


def _works(beat: ProcessBeat) -> bool:
    sign = _WORKS_WHEN.get(beat.kind)
    return sign is None or beat.detail.get(sign) is True
