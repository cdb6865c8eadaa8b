"""From answers to outcomes: the map is data."""

import pytest
from recloser.core.outcomes import DEFAULT_RULES, Rule, classify, edited
from recloser.core.types import Outcome


@pytest.mark.parametrize(
    ("status", "outcome", "wait_s"),
    [
        (200, Outcome.OK, None),
        (304, Outcome.OK, None),
        (400, Outcome.SEMANTIC_ERROR, None),
        (401, Outcome.RETRYABLE_ERROR, None),
        (402, Outcome.RATE_LIMITED, 3600),
        (404, Outcome.SEMANTIC_ERROR, None),
        (408, Outcome.TIMEOUT, None),
        (422, Outcome.SEMANTIC_ERROR, None),
        (429, Outcome.RATE_LIMITED, None),
        (500, Outcome.RETRYABLE_ERROR, None),
        (503, Outcome.RETRYABLE_ERROR, None),
        (504, Outcome.TIMEOUT, None),
        (999, Outcome.RETRYABLE_ERROR, None),
    ],
)
def test_a_status_has_its_outcome(status, outcome, wait_s):
    assert classify(status=status) == Rule(outcome, wait_s)


def test_a_vendors_quota_marker_in_a_400_is_a_failure_with_a_long_wait():
    body = '{"error": {"type": "Insufficient_Quota"}}'
    assert classify(status=400, text=body) == Rule(Outcome.RATE_LIMITED, 3600)


def test_a_success_is_never_searched_for_markers():
    assert classify(status=200, text="an article about insufficient_quota").outcome is Outcome.OK


def test_an_exception_is_known_by_its_nearest_class():
    assert classify(errors=["ReadTimeout", "TimeoutError", "OSError"]).outcome is Outcome.TIMEOUT
    assert classify(errors=["ValueError", "Exception"]).outcome is Outcome.SEMANTIC_ERROR
    assert classify(errors=["Exception"]).outcome is Outcome.RETRYABLE_ERROR
    assert classify().outcome is Outcome.RETRYABLE_ERROR


def test_a_tools_own_entries_come_first():
    rules = edited({"404": Rule(Outcome.EMPTY), "marker:no seats": Rule(Outcome.SEMANTIC_ERROR)})
    assert classify(status=404, rules=rules).outcome is Outcome.EMPTY
    assert classify(status=500, text="No seats left", rules=rules).outcome is Outcome.SEMANTIC_ERROR
    assert classify(status=404).outcome is Outcome.SEMANTIC_ERROR
    assert edited({}) is DEFAULT_RULES


class Timeout(OSError):
    """As `requests` has it."""


class ConnectionFailed(OSError): ...


class ConnectTimeout(ConnectionFailed, Timeout): ...


class TimeoutException(Exception):
    """As `httpx` has it."""


class PoolTimeout(TimeoutException): ...


class ClientError(Exception): ...


class ServerTimeoutError(ClientError, TimeoutError):
    """As `aiohttp` has it."""


@pytest.mark.parametrize("kind", [Timeout, ConnectTimeout, TimeoutException, PoolTimeout, ServerTimeoutError])
def test_a_time_out_is_known_by_the_name_of_its_class(kind):
    names = [base.__name__ for base in kind.__mro__]
    assert classify(errors=names).outcome is Outcome.TIMEOUT


def test_a_tools_own_map_may_say_otherwise_of_a_time_out():
    rules = edited({"error:PoolTimeout": Rule(Outcome.RETRYABLE_ERROR)})
    names = [base.__name__ for base in PoolTimeout.__mro__]
    assert classify(errors=names, rules=rules).outcome is Outcome.RETRYABLE_ERROR
