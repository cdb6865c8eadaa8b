"""One stored observation, as the windows count it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """What one session saw of one (tool, dependency, generation) in a slice of time. Instants are POSIX seconds.

    `window_s` is the dependency's resolved one: it decides the bucket. `received_at` is the stored row's own.
    """

    environment_id: int
    dependency_id: int
    generation: int
    worker_id: int
    session: str
    window_s: float
    at: float
    received_at: float
    ok: int = 0
    empty: int = 0
    failures: int = 0
    slow: int = 0
    streak: int = 0
    operation: str = ""
    retry_after_s: float | None = None
    counted: bool = True

    @property
    def calls(self) -> int:
        """Calls that say something about health."""
        return self.ok + self.empty + self.failures

    @property
    def succeeded(self) -> bool:
        """The slice holds a success, so that it ends every streak before it."""
        return self.ok + self.empty > 0

    @property
    def trailing(self) -> int:
        """Failures since the last success inside the slice; never more than there were."""
        return min(self.streak, self.failures)

    @property
    def slow_calls(self) -> int:
        """Slow calls among those that count."""
        return min(self.slow, self.calls)
