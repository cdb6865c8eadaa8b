"""Observations of every shape, stored as the edge stores them; and the plain sums that rollups have to equal."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from controlplane.models import Observation, RollupDay, RollupHour, RollupMark, RollupMinute
from controlplane.models.rollup import COUNTS, OUTCOMES
from tests.factories import NOON

LEVELS = {
    RollupMinute: {"second": 0, "microsecond": 0},
    RollupHour: {"minute": 0, "second": 0, "microsecond": 0},
    RollupDay: {"hour": 0, "minute": 0, "second": 0, "microsecond": 0},
}
_COLUMNS = (
    *("received_at", "environment_id", "key_id", "agent_id", "worker_id", "session_id", "seq", "dependency_id"),
    *("tool_id", "generation", "operation", "at", "span_s", *OUTCOMES, "attempts", "slow", "slow_failures"),
    *("latency_sum_ms", "latency_max_ms", "latency_hist", "streak", "counted", "samples"),
)


@dataclass
class Slice:
    """One row; ended `age_s` before it was received."""

    age_s: float = 0.0
    dependency: int = 1
    tool: int = 1
    agent: int = 1
    environment: int = 1
    worker: int = 1
    counts: dict[str, int] = field(default_factory=lambda: {"ok": 1})
    attempts: int = 1
    slow: int = 0
    milliseconds: float = 100.0
    counted: bool = True
    received_at: datetime = NOON

    @property
    def at(self) -> datetime:
        return self.received_at - timedelta(seconds=self.age_s)

    def values(self) -> list[Any]:
        hist = [0] * 16
        hist[int(self.milliseconds) % 16] = sum(self.counts.values())
        outcomes = [self.counts.get(name, 0) for name in OUTCOMES]
        return [
            self.received_at, self.environment, 1, self.agent, self.worker, "00000000-0000-0000-0000-000000000001", 1,
            self.dependency, self.tool, 0, "search", self.at, 1.0, *outcomes, self.attempts, self.slow, 0,
            self.milliseconds, self.milliseconds, hist, 0, self.counted, "[]",
        ]  # fmt: skip


def store(*rows: Slice, through: Any = None) -> None:
    """Insert them in one statement each; `through` is another connection than Django's."""
    marks = ", ".join(["%s"] * len(_COLUMNS))
    with (through or connection).cursor() as cursor:
        for row in rows:
            cursor.execute(f"INSERT INTO observation ({', '.join(_COLUMNS)}) VALUES ({marks})", row.values())


def empty() -> None:
    """Nothing stored, nothing rolled up."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE observation, rollup_minute, rollup_hour, rollup_day")
    RollupMark.objects.all().delete()


def rolled(level: Any) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What a level holds."""
    return {(row.environment_id, row.dependency_id, row.tool_id, row.agent_id, row.at): _sums(row) for row in
            level.objects.all()}  # fmt: skip


def _sums(row: Any) -> dict[str, Any]:
    counts = {name: getattr(row, name) for name in COUNTS}
    return counts | {"max": row.latency_max_ms, "sum": round(row.latency_sum_ms, 3), "hist": row.latency_hist}


def expected(level: Any) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The same, added up slowly from every raw row."""
    found: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(
        lambda: dict.fromkeys(COUNTS, 0) | {"max": 0.0, "sum": 0.0, "hist": [0] * 16}
    )
    for row in Observation.objects.all():
        at = row.at.replace(**LEVELS[level])
        into = found[row.environment_id, row.dependency_id, row.tool_id, row.agent_id, at]
        judged = row.ok + row.empty + row.retryable_error + row.timeout + row.rate_limited
        into["observations"] += 1
        into["counted" if row.counted else "not_counted"] += judged
        for name in (*OUTCOMES, "attempts", "slow", "slow_failures"):
            into[name] += getattr(row, name)
        into["max"] = max(into["max"], row.latency_max_ms)
        into["sum"] = round(into["sum"] + row.latency_sum_ms, 3)
        into["hist"] = [a + b for a, b in zip(into["hist"], row.latency_hist, strict=True)]
    return dict(found)


def assert_equal_to_the_raw_rows() -> None:
    for level in LEVELS:
        assert rolled(level) == expected(level), level.__name__
