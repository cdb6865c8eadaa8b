"""Sums on the way to a core `Evidence`, wherever they were read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from recloser.core.circuit import Evidence, OwnStreak, WorkerEvidence
from recloser.core.window import Counts

from controlplane.evidence.live import Live, instances

Voice = tuple[str, str]
"""A worker's id and one of its sessions."""


def add(counts: Counts, name: str, value: int) -> None:
    """Add to one of its four sums, by its name."""
    setattr(counts, name, getattr(counts, name) + value)


@dataclass(slots=True)
class Tally:
    """A window in the making."""

    total: Counts = field(default_factory=Counts)
    voices: dict[Voice, Counts] = field(default_factory=dict)
    streak: int = 0
    witnesses: set[Voice] = field(default_factory=set)
    own_streaks: dict[Voice, int] = field(default_factory=dict)
    callers: set[Voice] = field(default_factory=set)
    """Who called this dependency lately, in whichever generation of its circuit."""
    active_sessions: int = 0
    operations: set[str] = field(default_factory=set)
    retry_until: float | None = None

    def voice(self, worker: str, session: str) -> Counts:
        """One session's sums."""
        return self.voices.setdefault((worker, session), Counts())

    @property
    def everyone(self) -> set[Voice]:
        """All who had a call in the window, or whose last one belongs to the streak."""
        return self.witnesses.union(self.voices)


def evidence_of(tally: Tally, live: Live, now: float, *, detailed: bool = True) -> Evidence:
    """The snapshot that a circuit is judged by; without detail, the totals alone. A worker is known by its instance."""
    total = tally.total
    waiting = tally.retry_until is not None and tally.retry_until > now
    at = _instances_of(tally)
    workers, sessions = living(tally.callers, live)
    return Evidence(
        ok=total.ok,
        empty=total.empty,
        failures=total.failures,
        slow=total.slow,
        calls=total.calls,
        streak=tally.streak,
        workers=_own(tally, {voice: at[voice[0]] for voice in tally.everyone}) if detailed else (),
        sessions=_own(tally, {voice: voice[1] for voice in tally.everyone}) if detailed else (),
        own_streaks=tuple(_own_streaks(tally, at)),
        active_sessions=tally.active_sessions,
        live_workers=workers,
        live_sessions=sessions,
        operation=_only(tally.operations),
        retry_until=tally.retry_until if waiting else None,
    )


def living(callers: Iterable[Voice], live: Live) -> tuple[int, int]:
    """How many instances and sessions could bear witness: those that live and called lately."""
    voices = [voice for voice in callers if voice[1] in live.sessions]
    return len(set(instances(worker for worker, _ in voices).values())), len({session for _, session in voices})


def _instances_of(tally: Tally) -> Mapping[str, str]:
    return instances(worker for worker, _ in (*tally.everyone, *tally.own_streaks))


def _own_streaks(tally: Tally, at: Mapping[str, str]) -> Iterable[OwnStreak]:
    for (worker, session), length in sorted(tally.own_streaks.items()):
        yield OwnStreak(at[worker], session, length)


def _own(tally: Tally, names: Mapping[Voice, str]) -> tuple[WorkerEvidence, ...]:
    """Everyone who had a failing or slow call, by the name that a voice goes under."""
    last_failed = {names[voice] for voice in tally.witnesses}
    sums = {name: Counts() for name in last_failed}
    for voice, own in tally.voices.items():
        sums.setdefault(names[voice], Counts()).merge(own)
    bad = ((name, own) for name, own in sums.items() if own.failures or own.slow or name in last_failed)
    return tuple(_evidence(name, own, name in last_failed) for name, own in sorted(bad))


def _evidence(name: str, own: Counts, last_failed: bool) -> WorkerEvidence:
    return WorkerEvidence(
        worker=name,
        ok=own.ok + own.empty,
        failures=own.failures,
        slow=own.slow,
        calls=own.calls,
        last_failed=last_failed,
    )


def _only(operations: Iterable[str]) -> str | None:
    names = set(operations)
    return (names.pop() or None) if len(names) == 1 else None
