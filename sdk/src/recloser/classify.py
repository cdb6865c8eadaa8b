"""What a finished call means: a reading of its exception or its result, by the tool's own map from answers to outcomes.

Nothing that a tool raises or returns may harm the run that called it: every attribute is asked for with care.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from recloser.core.outcomes import DEFAULT_RULES, Rule, classify, edited
from recloser.core.policy import RunPolicy
from recloser.core.types import Outcome

Classifier = Callable[[Any], "Outcome | str | None"]

FLAT = frozenset({str, list, tuple, int, float, bool, bytes})
"""Types whose values, when they are not empty, can mean nothing but success."""
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)
MAX_TEXT = 4096


class Reading:
    """One finished call, read."""

    __slots__ = ("at_fault", "attempts", "error", "outcome", "retry_after_s", "status", "text")

    def __init__(
        self,
        outcome: Outcome,
        *,
        error: str | None = None,
        text: str = "",
        status: int | None = None,
        retry_after_s: float | None = None,
        attempts: int = 1,
        at_fault: str | None = None,
    ) -> None:
        self.outcome = outcome
        self.error = error
        self.text = text
        self.status = status
        self.retry_after_s = retry_after_s
        self.attempts = attempts
        self.at_fault = at_fault


OK = Reading(Outcome.OK)
EMPTY = Reading(Outcome.EMPTY)
CANCELLED = Reading(Outcome.CANCELLED)


def rules_of(policy: RunPolicy) -> Mapping[str, Rule]:
    """The tool's own map over the default one."""
    return edited(dict(policy.outcomes)) if policy.outcomes else DEFAULT_RULES


def of_exception(problem: BaseException, policy: RunPolicy) -> Reading:
    """What an exception means. One that is no `Exception` means that the caller gave up."""
    if not isinstance(problem, Exception):
        return Reading(Outcome.CANCELLED, error=type(problem).__name__[:64])
    status, text = _status(problem), _text(problem)
    names = [base.__name__ for base in type(problem).__mro__]
    rule = classify(status=status, text=text, errors=names, rules=rules_of(policy))
    outcome = rule.outcome
    said = _asked(problem, "retryable")
    if status is None and said is False:
        outcome = Outcome.SEMANTIC_ERROR
    elif status is None and said is True and outcome is Outcome.SEMANTIC_ERROR:
        outcome = Outcome.RETRYABLE_ERROR
    return Reading(
        outcome,
        error=names[0][:64],
        text=text,
        status=status,
        retry_after_s=_wait(problem) if _wait(problem) is not None else rule.wait_s,
        attempts=_attempts(problem),
        at_fault=_name(_asked(problem, "dependency")),
    )


def of_result(result: Any, policy: RunPolicy, classifier: Classifier | None = None) -> Reading:
    """What a returned value means: success, nothing found, or an error that was returned and not raised."""
    if classifier is not None and (told := _told(classifier, result)) is not None:
        return told
    if result is None:
        return OK
    if isinstance(result, _SIZED):
        if not result:
            return EMPTY
        if isinstance(result, dict) and result.get("isError") is True:
            return _returned_error(result.get("content"), policy)
        return OK
    if _asked(result, "isError") is True:
        return _returned_error(_asked(result, "content"), policy)
    status = _asked(result, "status_code")
    if isinstance(status, int) and not isinstance(status, bool):
        return _returned_status(result, status, policy)
    return OK


def of_status(status: int, policy: RunPolicy) -> Reading:
    """What a bare status code means."""
    rule = classify(status=status, rules=rules_of(policy))
    return OK if rule.outcome is Outcome.OK else Reading(rule.outcome, status=status, retry_after_s=rule.wait_s)


def stated(outcome: Outcome | str) -> Outcome:
    """An outcome by its name; raises `ValueError` with the names there are."""
    try:
        return Outcome(outcome)
    except ValueError:
        raise ValueError(f"{outcome!r} is no outcome; use one of {', '.join(Outcome)}") from None


def _told(classifier: Classifier, result: Any) -> Reading | None:
    try:
        outcome = classifier(result)
        return None if outcome is None else Reading(Outcome(outcome))
    except Exception:  # a classifier that fails has no say
        return None


def _returned_error(content: Any, policy: RunPolicy) -> Reading:
    """An error in the shape of the tool protocol: text blocks that say what went wrong."""
    parts = content if isinstance(content, list | tuple) else []
    texts = [part.get("text") if isinstance(part, dict) else _asked(part, "text") for part in parts[:8]]
    text = " ".join(one for one in texts if isinstance(one, str))[:MAX_TEXT]
    rule = classify(text=text, rules=rules_of(policy))
    return Reading(rule.outcome, error="isError", text=text, retry_after_s=rule.wait_s)


def _returned_status(result: Any, status: int, policy: RunPolicy) -> Reading:
    rule = classify(status=status, rules=rules_of(policy))
    if rule.outcome is Outcome.OK:
        return OK
    wait = _header_wait(_asked(result, "headers"))
    return Reading(
        rule.outcome, error=f"http_{status}", status=status, retry_after_s=rule.wait_s if wait is None else wait
    )


def _status(problem: Exception) -> int | None:
    for holder in (problem, _asked(problem, "response")):
        for name in ("status_code", "status", "code"):
            value = _asked(holder, name)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return value
    return None


def _text(problem: Exception) -> str:
    """The error's code and message, for markers; never sent anywhere."""
    try:
        code = _asked(problem, "code")
        said = str(problem)[:MAX_TEXT]
        return f"{code[:200]} {said}" if isinstance(code, str) else said
    except Exception:
        return ""


def _wait(problem: Exception) -> float | None:
    for name in ("retry_after_s", "retry_after"):
        if (value := seconds(_asked(problem, name))) is not None:
            return value
    own = _header_wait(_asked(problem, "headers"))
    return own if own is not None else _header_wait(_asked(_asked(problem, "response"), "headers"))


def _header_wait(headers: Any) -> float | None:
    try:
        return seconds(headers.get("retry-after") or headers.get("Retry-After")) if headers is not None else None
    except Exception:
        return None


def seconds(value: Any) -> float | None:
    """A wait as somebody stated it, at most an hour; None where it is none."""
    try:
        wait_s = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        return None
    return min(wait_s, 3600.0) if math.isfinite(wait_s) and wait_s >= 0 else None


def _attempts(problem: Exception) -> int:
    value = _asked(problem, "attempts")
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1000 else 1


def _name(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _asked(holder: Any, name: str) -> Any:
    """An attribute of an object that may be hostile."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None
