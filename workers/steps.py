"""A clock that steps, told from one that runs: database time beside this machine's monotonic clock."""

TOLERANCE_S = 1.0


class ClockSteps:
    """Remembers how far the two were apart at the last look."""

    def __init__(self) -> None:
        self._apart: tuple[float, float] | None = None

    def since_last_look(self, database_s: float, before_s: float, after_s: float) -> float:
        """By how much the database clock has stepped; 0 if it only ran.

        The monotonic clock is read before and after asking: what a slow answer leaves uncertain is no step.
        """
        low, high = database_s - after_s, database_s - before_s
        last, self._apart = self._apart, (low, high)
        if last is None or (low <= last[1] + TOLERANCE_S and high >= last[0] - TOLERANCE_S):
            return 0.0
        return (low + high - last[0] - last[1]) / 2
