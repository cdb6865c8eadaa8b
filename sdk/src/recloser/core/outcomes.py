"""From a status code or an error marker to an outcome: data that a product owner edits per tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recloser.core.types import Outcome

LONGEST_WAIT_S = 3600.0
"""The wait of an exhausted quota, and the longest wait that any server may ask of us."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What one answer means: its outcome, and the wait it implies when the server names none."""

    outcome: Outcome
    wait_s: float | None = None


_TIMEOUTS = (
    "TimeoutError",
    "Timeout",  # requests
    "TimeoutException",  # httpx
    "ReadTimeout",
    "WriteTimeout",
    "ConnectTimeout",
    "PoolTimeout",
    "ServerTimeoutError",  # aiohttp
    "ReadTimeoutError",  # urllib3, botocore
    "ConnectTimeoutError",
    "APITimeoutError",  # the model vendors' clients
    "DeadlineExceeded",
)
"""Classes that say by name that nobody answered in time: whether the call took effect is not known, of any of them."""

DEFAULT_RULES: Mapping[str, Rule] = {
    "2xx": Rule(Outcome.OK),
    "3xx": Rule(Outcome.OK),
    "4xx": Rule(Outcome.SEMANTIC_ERROR),
    "5xx": Rule(Outcome.RETRYABLE_ERROR),
    "401": Rule(Outcome.RETRYABLE_ERROR),  # a dead key: no choice of arguments will mend it
    "402": Rule(Outcome.RATE_LIMITED, LONGEST_WAIT_S),
    "407": Rule(Outcome.RETRYABLE_ERROR),
    "408": Rule(Outcome.TIMEOUT),
    "425": Rule(Outcome.RETRYABLE_ERROR),
    "429": Rule(Outcome.RATE_LIMITED),
    "504": Rule(Outcome.TIMEOUT),
    "524": Rule(Outcome.TIMEOUT),
    "529": Rule(Outcome.RATE_LIMITED),
    "marker:insufficient_quota": Rule(Outcome.RATE_LIMITED, LONGEST_WAIT_S),
    "marker:quota_exceeded": Rule(Outcome.RATE_LIMITED, LONGEST_WAIT_S),
    "marker:billing_hard_limit_reached": Rule(Outcome.RATE_LIMITED, LONGEST_WAIT_S),
    "marker:credit balance is too low": Rule(Outcome.RATE_LIMITED, LONGEST_WAIT_S),
    **{f"error:{name}": Rule(Outcome.TIMEOUT) for name in _TIMEOUTS},
    "error:ConnectionError": Rule(Outcome.RETRYABLE_ERROR),
    "error:OSError": Rule(Outcome.RETRYABLE_ERROR),
    "error:CancelledError": Rule(Outcome.CANCELLED),
    "error:ValueError": Rule(Outcome.SEMANTIC_ERROR),
    "error:TypeError": Rule(Outcome.SEMANTIC_ERROR),
    "error:LookupError": Rule(Outcome.SEMANTIC_ERROR),
}
"""Ours; a tool's own entries are looked at first. 402 and a vendor's quota marker are failures with a long wait."""

FALLBACK = Rule(Outcome.RETRYABLE_ERROR)
"""What nobody classified: a failure, because only a rejected argument is known to be the model's own doing."""


def edited(own: Mapping[str, Rule]) -> Mapping[str, Rule]:
    """The default map with one tool's own entries over it."""
    return {**DEFAULT_RULES, **own} if own else DEFAULT_RULES


def classify(
    *,
    status: int | None = None,
    text: str = "",
    errors: Iterable[str] = (),
    rules: Mapping[str, Rule] = DEFAULT_RULES,
) -> Rule:
    """What a finished call means.

    `status` is the HTTP status if there was one, `text` the error's code or body, `errors` the names of the
    exception's class and its bases, nearest first. A success is never searched for markers.
    """
    by_status = _by_status(status, rules)
    if by_status is not None and by_status.outcome is Outcome.OK:
        return by_status
    return _by_marker(text, rules) or by_status or _by_error(errors, rules) or FALLBACK


def _by_status(status: int | None, rules: Mapping[str, Rule]) -> Rule | None:
    if status is None:
        return None
    return rules.get(str(status)) or rules.get(f"{status // 100}xx")


def _by_marker(text: str, rules: Mapping[str, Rule]) -> Rule | None:
    if not text:
        return None
    low = text[:4096].casefold()
    for key, rule in rules.items():
        if key.startswith("marker:") and key[7:].casefold() in low:
            return rule
    return None


def _by_error(errors: Iterable[str], rules: Mapping[str, Rule]) -> Rule | None:
    for name in errors:
        if rule := rules.get(f"error:{name}"):
            return rule
    return None
