"""What one answer to a probe proves: the verdict, its cause, and whether the probe itself is at fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from recloser.core.outcomes import classify
from recloser.core.types import Outcome, Verdict


class Fault(StrEnum):
    """Why a probe got no answer that its conditions could be held against."""

    TIMEOUT = "timeout"
    CONNECT = "connect"
    RESOLVE = "resolve"
    CERTIFICATE = "certificate"
    BROKEN = "broken_answer"
    REFUSED_ADDRESS = "refused_address"
    REFUSED_REDIRECT = "refused_redirect"
    GATE = "gate"
    SPEC = "spec"
    BAD_REQUEST = "bad_request"
    """The other side understood us and refused what was asked, in a protocol without HTTP's statuses."""
    CREDENTIALS = "credentials"
    PROBER_SUSPECT = "prober_suspect"
    """The control address did not answer either: it is the prober that is cut off."""


class Ruling(NamedTuple):
    """What follows for the round."""

    verdict: Verdict
    cause: str
    """`passed`, `status`, `bad_request`, the name of the first condition that failed, or a fault."""
    misconfigured: bool = False
    """The probe says more about itself than about the dependency: show it to whoever wrote it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a status (None without one), and each condition's name with whether it held."""

    status: int | None = None
    conditions: Mapping[str, bool] | None = None
    fault: Fault | None = None


_BY_FAULT: Mapping[Fault, Ruling] = {
    Fault.TIMEOUT: Ruling(Verdict.BAD, "timeout"),
    Fault.CONNECT: Ruling(Verdict.BAD, "connect"),
    Fault.RESOLVE: Ruling(Verdict.BAD, "resolve"),
    Fault.CERTIFICATE: Ruling(Verdict.BAD, "certificate"),
    Fault.BROKEN: Ruling(Verdict.BAD, "broken_answer"),
    Fault.REFUSED_REDIRECT: Ruling(Verdict.BAD, "refused_redirect"),
    Fault.REFUSED_ADDRESS: Ruling(Verdict.INCONCLUSIVE, "refused_address", misconfigured=True),
    Fault.GATE: Ruling(Verdict.INCONCLUSIVE, "gate"),
    Fault.SPEC: Ruling(Verdict.INCONCLUSIVE, "spec", misconfigured=True),
    Fault.BAD_REQUEST: Ruling(Verdict.INCONCLUSIVE, "bad_request", misconfigured=True),
    Fault.CREDENTIALS: Ruling(Verdict.INCONCLUSIVE, "credentials", misconfigured=True),
    Fault.PROBER_SUSPECT: Ruling(Verdict.INCONCLUSIVE, "prober_suspect"),
}

_OWN_CREDENTIALS = frozenset({401, 407})
"""To an agent's call these are failures; to a probe they say that *its* key is wrong."""


def ruling(answer: Answer) -> Ruling:
    """Judge one answer. A request that was refused as a bad one proves nothing, unless the probe expects that."""
    if answer.fault is not None:
        return _BY_FAULT[answer.fault]
    failed = [name for name, held in (answer.conditions or {}).items() if not held]
    if not failed:
        return Ruling(Verdict.GOOD, "passed")
    if "status" in failed and _asked_badly(answer.status):
        return Ruling(Verdict.INCONCLUSIVE, "bad_request", misconfigured=True)
    return Ruling(Verdict.BAD, failed[0])


def prober_suspect(said: Ruling, control: Ruling) -> bool:
    """Whether a bad answer is the prober's own fault, going by what the control address said just then."""
    return said.verdict is Verdict.BAD and control.verdict is Verdict.BAD


def _asked_badly(status: int | None) -> bool:
    if status is None:
        return False
    return status in _OWN_CREDENTIALS or classify(status=status).outcome is Outcome.SEMANTIC_ERROR


CERTIFICATE_WARNINGS: tuple[int, ...] = (30, 14, 3)
"""Days left at which people are told that a certificate is about to expire."""


def certificate_warning(
    days_left: float, warned_at: int | None, thresholds: tuple[int, ...] = CERTIFICATE_WARNINGS
) -> int | None:
    """The threshold to warn of now, or None: each once for one certificate, and of several passed only the last.

    `warned_at` is the threshold that this very certificate was last warned of; a renewed one has none.
    """
    passed = [each for each in thresholds if days_left <= each]
    if not passed or (warned_at is not None and min(passed) >= warned_at):
        return None
    return min(passed)


HEARTBEATS_TO_WARN = 2
"""Bad heartbeats of a closed circuit, in a row, at which people are told."""


def heartbeat_streak(bad: int, verdict: Verdict) -> int:
    """How many heartbeats in a row were bad, with this one; what proves nothing neither extends nor ends them."""
    if verdict is Verdict.INCONCLUSIVE:
        return bad
    return bad + 1 if verdict is Verdict.BAD else 0
