"""Figures of a stretch of time, each with its resolution: raw rows where it is short and recent, else sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from django.conf import settings
from django.db import connection
from django.db.models import Count, Sum

from controlplane.evidence.outcomes import FAILED, FAILURE_COLUMNS, JUDGED, SUCCEEDED
from controlplane.models import RollupMark, RunHour
from controlplane.models.rollup import BOUNDS_MS, BUCKETS, COUNTS
from controlplane.selectors.circuits import Calls

Group = Literal["dependency", "tool", "agent"]

SUMS = (*COUNTS, "latency_sum_ms")

LONGEST_RAW = timedelta(minutes=10)
LONGEST_BY_MINUTE = timedelta(hours=24)
LONGEST_BY_HOUR = timedelta(days=31)


@dataclass(frozen=True, slots=True)
class Level:
    """One table of figures, and how fine it is."""

    resolution: str
    table: str
    step: timedelta | None
    """None: every slice by itself."""
    unit: str = ""

    def begins(self, at: datetime) -> datetime:
        """The beginning of the bucket that `at` lies in."""
        if self.step is None:
            return at
        since_epoch = at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return at.astimezone(UTC) - since_epoch % self.step

    def ends(self, at: datetime) -> datetime:
        """The end of the last bucket that begins before `at`."""
        floor = self.begins(at)
        return at if self.step is None or floor == at else floor + self.step


RAW = Level("raw", "observation", None)
MINUTES = Level("1 min", "rollup_minute", timedelta(minutes=1), "minute")
HOURS = Level("1 h", "rollup_hour", timedelta(hours=1), "hour")
DAYS = Level("1 d", "rollup_day", timedelta(days=1), "day")


@dataclass(frozen=True, slots=True)
class Figure:
    """What one group's calls came to."""

    observations: int = 0
    ok: int = 0
    empty: int = 0
    retryable_error: int = 0
    timeout: int = 0
    rate_limited: int = 0
    semantic_error: int = 0
    unknown_tool: int = 0
    cancelled: int = 0
    rejected: int = 0
    attempts: int = 0
    slow: int = 0
    slow_failures: int = 0
    counted: int = 0
    not_counted: int = 0
    latency_sum_ms: float = 0.0
    latency_max_ms: float = 0.0
    latency_hist: tuple[int, ...] = (0,) * BUCKETS

    @property
    def failures(self) -> int:
        """What says that the dependency is ill."""
        return sum(getattr(self, name) for name in FAILURE_COLUMNS)

    @property
    def judged(self) -> int:
        """The failure rate's denominator."""
        return self.ok + self.empty + self.failures

    @property
    def failure_rate(self) -> float | None:
        """Share of failures; None without calls."""
        return self.failures / self.judged if self.judged else None

    @property
    def slow_rate(self) -> float | None:
        """Share of slow calls; None without calls."""
        return min(1.0, self.slow / self.judged) if self.judged else None

    @property
    def latency_mean_ms(self) -> float | None:
        """Of every call whose time was taken."""
        timed = sum(self.latency_hist)
        return self.latency_sum_ms / timed if timed else None

    def latency_ms(self, share: float) -> float | None:
        """The bound that at least this share of the calls took at most; the longest call where it has no bound."""
        timed, seen = sum(self.latency_hist), 0
        for bound, calls in zip((*BOUNDS_MS, None), self.latency_hist, strict=True):
            seen += calls
            if timed and seen >= share * timed:
                return self.latency_max_ms if bound is None else min(float(bound), self.latency_max_ms)
        return None


@dataclass(frozen=True, slots=True)
class Line:
    """One group, or one group in one bucket."""

    group: tuple[int, ...]
    """Ids, in the order that was asked for."""
    at: datetime | None
    """Beginning of the bucket; None: the whole stretch."""
    figure: Figure


@dataclass(frozen=True, slots=True)
class Figures:
    """The answer, and what it is worth."""

    resolution: str
    """raw, 1 min, 1 h or 1 d: since and until were moved outwards to the nearest such bucket."""
    since: datetime
    until: datetime
    rolled_up_at: datetime | None
    """Sums hold what had come in by then; None with raw rows, which hold everything."""
    lines: list[Line] = field(default_factory=list)

    @property
    def total(self) -> Figure:
        """All lines together."""
        return _together([line.figure for line in self.lines])


def figures(
    *,
    environment_id: int,
    since: datetime,
    until: datetime,
    now: datetime,
    by: Sequence[Group] = ("dependency",),
    dependency_ids: Iterable[int] | None = None,
    stepwise: bool = False,
    level: Level | None = None,
) -> Figures:
    """Figures of since <= at < until by group; `stepwise`: by bucket too (by the minute, where rows are raw).

    Slices count where they ended. Without `level` it is the finest one that still holds all of the time asked for.
    """
    chosen = level or level_of(since=since, until=until, now=now)
    begins, ends = chosen.begins(since), chosen.ends(until)
    asked: dict[str, Any] = {
        "environment": environment_id,
        "since": begins,
        "until": ends,
        "dependencies": None if dependency_ids is None else list(dependency_ids),
    }
    with connection.cursor() as cursor:
        cursor.execute(_query(chosen, by, stepwise), asked)
        lines = [_line(row, len(by)) for row in cursor.fetchall()]
    return Figures(chosen.resolution, begins, ends, None if chosen is RAW else rolled_up_at(), lines)


def level_of(*, since: datetime, until: datetime, now: datetime) -> Level:
    """The level that a stretch of time is told at."""
    span, age = until - since, now - since
    if span <= LONGEST_RAW and age <= timedelta(hours=settings.KEEP_OBSERVATIONS_HOURS):
        return RAW
    if span <= LONGEST_BY_MINUTE and age <= timedelta(days=settings.KEEP_MINUTES_DAYS):
        return MINUTES
    if span <= LONGEST_BY_HOUR and age <= timedelta(days=settings.KEEP_HOURS_DAYS):
        return HOURS
    return DAYS


def rolled_up_at() -> datetime | None:
    """When the sums last held everything; None: never yet."""
    return RollupMark.objects.filter(pk=1).values_list("rolled_at", flat=True).first()


_OF_ROWS = {
    "observations": "count(*)",
    "counted": f"sum({JUDGED}) FILTER (WHERE counted)",
    "not_counted": f"sum({JUDGED}) FILTER (WHERE NOT counted)",
}


def _query(level: Level, by: Sequence[Group], stepwise: bool) -> str:
    """Nothing but our own names goes into the text."""
    raw = level is RAW
    groups = [f"{name}_id" for name in by] + ([_bucket(level)] if stepwise else [])
    sums = [(_OF_ROWS.get(name) if raw else None) or f"sum({name})" for name in SUMS]
    hist = ", ".join(f"coalesce(sum(latency_hist[{place}]), 0)::bigint" for place in range(1, BUCKETS + 1))
    figures = [*(f"coalesce({each}, 0)" for each in sums), "coalesce(max(latency_max_ms), 0)", f"ARRAY[{hist}]"]
    received = "AND received_at >= %(since)s" if raw else ""
    grouped = f"GROUP BY {', '.join(groups)} ORDER BY {', '.join(groups)}" if groups else "HAVING count(*) > 0"
    return f"""
        SELECT {", ".join([*groups, *(["NULL"] if not stepwise else []), *figures])} FROM {level.table}
        WHERE environment_id = %(environment)s AND at >= %(since)s AND at < %(until)s {received}
          AND (%(dependencies)s::bigint[] IS NULL OR dependency_id = ANY(%(dependencies)s::bigint[]))
        {grouped}
    """  # noqa: S608


def _bucket(level: Level) -> str:
    return f"date_trunc('{level.unit or 'minute'}', at, 'UTC')"


def _line(row: Sequence[Any], width: int) -> Line:
    *sums, latency_sum, latency_max, hist = row[width + 1 :]
    counts = dict(zip(SUMS, (int(value) for value in sums), strict=False))
    figure = Figure(
        **counts, latency_sum_ms=float(latency_sum), latency_max_ms=float(latency_max), latency_hist=tuple(hist)
    )
    return Line(tuple(row[:width]), row[width], figure)


def _together(parts: Sequence[Figure]) -> Figure:
    sums: dict[str, Any] = {name: sum(getattr(part, name) for part in parts) for name in SUMS}
    hist = tuple(sum(column) for column in zip(*(part.latency_hist for part in parts), strict=True))
    longest = max((part.latency_max_ms for part in parts), default=0.0)
    return Figure(**sums, latency_max_ms=longest, latency_hist=hist or (0,) * BUCKETS)


_RECENT = f"""
SELECT d.id, sum(w.ok), sum(w.failures), sum(w.slow), sum(w.rejected), count(*), count(*) FILTER (WHERE w.failures > 0),
       max(w.last_ok)
FROM controlplane_dependency d CROSS JOIN LATERAL (
    SELECT sum({SUCCEEDED}) AS ok, sum({FAILED}) AS failures, sum(slow) AS slow,
           sum(rejected) AS rejected, max(at) FILTER (WHERE {SUCCEEDED} > 0) AS last_ok
    FROM observation o WHERE o.dependency_id = d.id AND o.received_at >= %s
    GROUP BY o.worker_id
) AS w
WHERE d.environment_id = %s
GROUP BY d.id
"""  # noqa: S608


def recent(environment_id: int, window_s: float, now: datetime) -> dict[int, Calls]:
    """By dependency, what came in during the last moments, whoever called; raw, and cheap by its index."""
    with connection.cursor() as cursor:
        cursor.execute(_RECENT, [now - timedelta(seconds=window_s), environment_id])
        return {key: _calls(*figures) for key, *figures in cursor.fetchall()}


def _calls(*figures: Any) -> Calls:
    *counts, last_ok_at = figures
    ok, failures, slow, rejected, workers, failing = (int(each) for each in counts)
    return Calls(ok, failures, slow, rejected, workers, failing, last_ok_at)


@dataclass(frozen=True, slots=True)
class Runs:
    """An agent's runs that began in one stretch of time; resolution: 1 h."""

    runs: int = 0
    degraded: int = 0
    undisclosed: int = 0

    @property
    def degraded_share(self) -> float | None:
        """Part that lacked a tool; None without runs."""
        return self.degraded / self.runs if self.runs else None

    @property
    def undisclosed_share(self) -> float | None:
        """Part that lacked one and did not say so."""
        return self.undisclosed / self.runs if self.runs else None


def runs(*, environment_id: int, since: datetime, until: datetime) -> dict[int, Runs]:
    """By agent, from whole hours: those that begin at or after `since` and before `until`."""
    rows = RunHour.objects.filter(environment=environment_id, at__gte=HOURS.begins(since), at__lt=until).order_by()
    found = rows.values_list("agent_id").annotate(Sum("runs"), Sum("degraded"), Sum("undisclosed"), Count("pk"))
    return {agent: Runs(*sums) for agent, *sums, _ in found}
