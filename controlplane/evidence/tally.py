"""Sums on the way to a core `Evidence`, wherever they were read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from recloser.core.circuit import Evidence, OwnStreak, WorkerEvidence

from controlplane.evidence.live import Live


@dataclass(slots=True)
class Sums:
    """Calls by what became of them."""

    ok: int = 0
    empty: int = 0
    failures: int = 0
    slow: int = 0

    def add(self, name: str, value: int) -> None:
        """Add to one of the four."""
        setattr(self, name, getattr(self, name) + value)

    def merge(self, other: Sums) -> None:
        """Add all four."""
        self.ok += other.ok
        self.empty += other.empty
        self.failures += other.failures
        self.slow += other.slow

    @property
    def calls(self) -> int:
        """The slow rate's denominator."""
        return self.ok + self.empty + self.failures


@dataclass(slots=True)
class Tally:
    """A window in the making; a voice is a (worker, session)."""

    total: Sums = field(default_factory=Sums)
    voices: dict[tuple[str, str], Sums] = field(default_factory=dict)
    streak: int = 0
    witnesses: set[tuple[str, str]] = field(default_factory=set)
    own_streaks: dict[tuple[str, str], int] = field(default_factory=dict)
    active_sessions: int = 0
    operations: set[str] = field(default_factory=set)
    retry_until: float | None = None

    def voice(self, worker: str, session: str) -> Sums:
        """One session's sums."""
        return self.voices.setdefault((worker, session), Sums())


def evidence_of(tally: Tally, live: Live, now: float, *, detailed: bool = True) -> Evidence:
    """The snapshot that a circuit is judged by; without detail, the totals alone."""
    total = tally.total
    waiting = tally.retry_until is not None and tally.retry_until > now
    return Evidence(
        ok=total.ok,
        empty=total.empty,
        failures=total.failures,
        slow=total.slow,
        calls=total.calls,
        streak=tally.streak,
        workers=_own(tally, 0) if detailed else (),
        sessions=_own(tally, 1) if detailed else (),
        own_streaks=tuple(OwnStreak(*voice, length) for voice, length in sorted(tally.own_streaks.items())),
        active_sessions=tally.active_sessions,
        live_workers=live.workers,
        live_sessions=live.sessions,
        operation=_only(tally.operations),
        retry_until=tally.retry_until if waiting else None,
    )


def _own(tally: Tally, part: int) -> tuple[WorkerEvidence, ...]:
    """Everyone who had a failing or slow call, by worker (part 0) or by session (part 1)."""
    last_failed = {voice[part] for voice in tally.witnesses}
    sums = {name: Sums() for name in last_failed}
    for voice, own in tally.voices.items():
        sums.setdefault(voice[part], Sums()).merge(own)
    bad = ((name, own) for name, own in sums.items() if own.failures or own.slow or name in last_failed)
    return tuple(_evidence(name, own, name in last_failed) for name, own in sorted(bad))


def _evidence(name: str, own: Sums, last_failed: bool) -> WorkerEvidence:
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
