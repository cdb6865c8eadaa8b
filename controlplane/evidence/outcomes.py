"""Which columns of a stored observation speak for a dependency and which against it, read off the core."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any

from django.db.models import BigIntegerField, F, Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast
from recloser.core.types import FAILURES, SUCCESSES, Outcome

FAILURE_COLUMNS = tuple(outcome.value for outcome in Outcome if outcome in FAILURES)
SUCCESS_COLUMNS = tuple(outcome.value for outcome in Outcome if outcome in SUCCESSES)


def _added(columns: tuple[str, ...]) -> str:
    return f"({' + '.join(f'{column}::bigint' for column in columns)})"


FAILED = _added(FAILURE_COLUMNS)
SUCCEEDED = _added(SUCCESS_COLUMNS)
JUDGED = _added((*SUCCESS_COLUMNS, *FAILURE_COLUMNS))
"""In SQL: calls against it, for it, and both: the failure rate's denominator. Wide, since two columns may hold more
together than one of them can."""


def failed() -> Combinable:
    """Calls against it, for a query set."""
    return _sum_of(FAILURE_COLUMNS)


def succeeded() -> Combinable:
    """Calls for it, likewise."""
    return _sum_of(SUCCESS_COLUMNS)


def _sum_of(columns: tuple[str, ...]) -> Combinable:
    return functools.reduce(operator.add, (Cast(F(column), BigIntegerField()) for column in columns))


def any_of(columns: tuple[str, ...]) -> Q:
    """Rows that hold a call of one of these outcomes."""
    return functools.reduce(operator.or_, (Q(**{f"{column}__gt": 0}) for column in columns))


def failures(counts: Mapping[str, Any]) -> int:
    """Calls against it, of counts by outcome."""
    return sum(int(counts[column]) for column in FAILURE_COLUMNS)
