"""The rows of long lists: each made once of all that it shows. Ages run on, so they are put in when a page is sent."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import datetime

from django.template.loader import get_template
from django.utils.safestring import SafeString, mark_safe

from controlplane.selectors.lines import RunLine, TripLine
from dashboard.templatetags.recloser_ui import AGE, past

REMEMBERED = 4096
"""By each process: some 8 MB of HTML."""


def of_trips(environment: str, trips: Sequence[TripLine], now: datetime) -> SafeString:
    """The body of the table of trips."""
    return _aged([(_trip(environment, each), each.at) for each in trips], now)


def of_runs(runs: Sequence[RunLine], now: datetime) -> SafeString:
    """The body of the table of runs."""
    return _aged([(_run(each), each.started_at) for each in runs], now)


_Row = tuple[str, str]
"""What stands before the age, and what after it."""


@functools.lru_cache(maxsize=REMEMBERED)
def _trip(environment: str, trip: TripLine) -> _Row:
    """All that it shows is in the key, so one that was kept is never out of date."""
    return _parted(get_template("dashboard/trips/_row.html").render({"trip": trip, "slug": environment}))


@functools.lru_cache(maxsize=REMEMBERED)
def _run(run: RunLine) -> _Row:
    return _parted(get_template("dashboard/runs/_row.html").render({"run": run}))


def _parted(html: str) -> _Row:
    before, _, after = html.partition(AGE)
    return before, after


def _aged(rows: list[tuple[_Row, datetime]], now: datetime) -> SafeString:
    """The parts are of our templates, which escaped what they show; an age is a figure of ours."""
    return mark_safe("".join(f"{before}{past(at, now)}{after}" for (before, after), at in rows))  # noqa: S308
