"""What a window holds at one moment: the snapshot that a circuit is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from recloser.core.types import Signal


@dataclass(frozen=True, slots=True)
class WorkerEvidence:
    """One worker's own calls in the window.

    `ok` counts empty answers too. `calls` is the slow rate's denominator: ok and failures, nothing else.
    `last_failed`: its last observation failed and belongs to the present streak.
    """

    worker: str
    ok: int = 0
    failures: int = 0
    slow: int = 0
    calls: int = 0
    last_failed: bool = False


@dataclass(frozen=True, slots=True)
class OwnStreak:
    """One live session's own failures in a row, each step once; it had a call in the window."""

    worker: str
    session: str
    length: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All workers' calls in the window, of the circuit's present generation only.

    `workers` needs to hold only those that had a failing or slow call; totals are over all. `sessions` may hold
    the same by live session: they are the voices where all live sessions run on one instance.
    """

    ok: int = 0
    empty: int = 0
    failures: int = 0
    slow: int = 0
    calls: int = 0
    streak: int = 0
    """Failures since the last success from anywhere in the scope; the parallel calls of one step count once."""
    workers: tuple[WorkerEvidence, ...] = ()
    sessions: tuple[WorkerEvidence, ...] = ()
    own_streaks: tuple[OwnStreak, ...] = ()
    """Sessions in the midst of a streak of their own: at least those as long as the policy's limit."""
    active_sessions: int = 0
    """Sessions that had a call in the window: the denominator of how many are in a streak."""
    live_workers: int | None = None
    live_sessions: int | None = None
    completed_by_bad_sample: bool = True
    """The newest sample failed or was slow; no other may open a circuit."""
    operation: str | None = None
    """The one operation that all failures belong to; None if there are several, or it has no name."""
    retry_until: float | None = None
    """The latest moment until which a server asked us to wait."""

    @property
    def judged(self) -> int:
        """The failure rate's denominator."""
        return self.ok + self.empty + self.failures

    @property
    def voices(self) -> tuple[WorkerEvidence, ...]:
        """Who counts as a witness: workers, or sessions where all of them live on one instance."""
        return self.sessions if self._one_instance else self.workers

    @property
    def live_voices(self) -> int:
        """How many witnesses there could be."""
        if self._one_instance:
            return self.live_sessions or len(self.sessions)
        return len(self.workers) if self.live_workers is None else self.live_workers

    def witnesses_of(self, streaks: tuple[OwnStreak, ...]) -> tuple[str, ...]:
        """The distinct witnesses behind these streaks, in order of appearance."""
        names = (own.session if self._one_instance else own.worker for own in streaks)
        return tuple(dict.fromkeys(names))

    @property
    def _one_instance(self) -> bool:
        return self.live_workers == 1 and (self.live_sessions or len(self.sessions)) > 1


@dataclass(frozen=True, slots=True)
class Breach:
    """One rule that the evidence breaks: the value against its threshold, and who saw it."""

    signal: Signal
    value: float
    threshold: float
    calls: int
    failures: int
    slow: int
    witnesses: tuple[str, ...]
    enforced: bool
    """False: the policy only watches this signal."""
