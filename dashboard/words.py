"""What the pages say: states, causes and deeds in an operator's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recloser.core.policy import CircuitPolicy, RunPolicy

from controlplane.models import Transition, Trip
from controlplane.selectors.board import Instead
from controlplane.selectors.circuits import Callers, Standing
from controlplane.selectors.lines import TripLine
from controlplane.selectors.runs import Why

KINDS: Mapping[str, str] = {
    "closed": "Closed",
    "open": "Open",
    "half_open": "Half-open",
    "locked_out": "Locked out",
    "suspected": "Suspected",
    "forced": "Forced",
    "worker_fault": "Worker fault",
}
REVISIONS: Mapping[str, str] = {
    "draft": "draft",
    "in_review": "in review",
    "published": "in force",
    "superseded": "was in force",
    "approved": "approved",
    "rejected": "rejected",
    "withdrawn": "withdrawn",
}
MODES: Mapping[str, str] = {"auto": "auto", "forced_open": "held open", "forced_closed": "held closed"}
SIGNALS: Mapping[str, str] = {
    "consecutive_failures": "consecutive failures",
    "failure_rate": "failure rate",
    "slow_call_rate": "slow calls",
    "semantic_failures": "rejected arguments",
    "identical_calls": "identical calls",
    "oscillation": "oscillation",
    "no_progress": "no progress",
    "budget_burn": "budget burn",
    "unknown_tool": "unknown tool",
    "run_failure_rate": "failure rate in the run",
    "step_limit": "step limit",
    "token_budget": "token budget",
    "cost_budget": "cost budget",
    "wall_clock": "wall clock",
}
CAUSES: Mapping[str, str] = {
    "consecutive_failures": "failures in a row",
    "failure_rate": "failure rate",
    "slow_call_rate": "slow calls",
    "probe_started": "probe sent",
    "probe_passed": "probe passed",
    "probe_failed": "probe failed",
    "probe_inconclusive": "probe inconclusive",
    "ramp_started": "probe passed, ramp begun",
    "ramp_passed": "ramp passed",
    "ramp_failed": "ramp failed",
    "operator": "by hand",
    "override_expired": "override expired",
}
RATES: Mapping[str, str] = {
    "failure_rate": "of calls failed",
    "slow_call_rate": "of calls were slow",
    "run_failure_rate": "of the run's calls failed",
}
COUNTS: Mapping[str, str] = {
    "consecutive_failures": "failures in a row",
    "semantic_failures": "rejected calls in a row",
    "identical_calls": "identical calls",
    "oscillation": "rounds of the same circle",
    "no_progress": "steps without progress",
    "budget_burn": "times a healthy run's spending",
    "unknown_tool": "calls of tools that are not there",
    "step_limit": "steps",
    "token_budget": "tokens",
    "cost_budget": "spent",
    "wall_clock": "seconds",
}
TAKEN: Mapping[str, str] = {
    **SIGNALS,
    "failure_rate": "too many calls failed",
    "consecutive_failures": "failures in a row",
    "operator": "held open by hand",
}
OUTCOMES: Mapping[str, str] = {
    "ok": "ok",
    "empty": "empty",
    "retryable_error": "failed",
    "timeout": "timed out",
    "rate_limited": "rate limited",
    "semantic_error": "rejected arguments",
    "unknown_tool": "no such tool",
    "cancelled": "cancelled",
    "rejected": "turned away by us",
}
VERDICTS: Mapping[str, str] = {"good": "passed", "bad": "failed", "inconclusive": "inconclusive"}
FAULTS: Mapping[str, str] = {
    "timeout": "no answer in time",
    "connect": "no connection",
    "resolve": "the name did not resolve",
    "certificate": "the certificate was not trusted",
    "broken_answer": "the answer broke off",
    "refused_address": "an address that may not be reached",
    "refused_redirect": "a redirect that may not be followed",
    "gate": "stopped by our own gate",
    "spec": "the probe itself cannot be used",
    "bad_request": "the probe's own request was refused",
    "credentials": "the probe's own credentials were refused",
    "prober_suspect": "prober suspect: the control address does not answer either",
}
CLASSES: Mapping[str, str] = {
    "read_only": "read only",
    "idempotent_write": "idempotent write",
    "side_effect": "side effect",
    "destructive": "destructive",
    "unknown": "class unknown",
}
SCOPES: Mapping[str, str] = {"run": "this run", "worker": "one worker", "fleet": "the fleet"}
DELIVERIES: Mapping[str, str] = {"enforce": "acted upon", "observe": "only watched", "off": "off"}
MARKS: Mapping[str, str] = {"false": "marked as false", "unmarked": "not marked"}
FIGURES: Mapping[str, tuple[str, str]] = {
    "calls": ("calls in the window", "min_calls"),
    "failures": ("of them failed", ""),
    "slow": ("of them slow", ""),
    "streak": ("failures in a row", ""),
    "witnesses": ("workers that saw it", "min_workers"),
    "window_s": ("seconds in the window", ""),
    "step_limit": ("step limit", ""),
}
DELIVERED: Mapping[str, str] = {"pending": "waiting", "sent": "sent", "dead": "given up"}
EVENTS: Mapping[str, str] = {
    "opened": "opened",
    "locked_out": "locked out",
    "closed": "closed",
    "worker_fault": "worker fault",
    "quorum_short": "quorum out of reach",
    "heartbeat_failing": "heartbeat failing",
    "untestable": "nobody can test it",
    "scheduler_silent": "scheduler silent",
    "certificate": "a certificate is about to expire",
    "prober_suspect": "prober suspect",
    "question": "a run asks",
    "escalation": "a run hands over",
    "resolved": "resolved",
    "test": "test message",
}
MATTERS: Mapping[str, str] = {
    "scheduler_silent": "Nothing is probed, and no lease expires, until a scheduler runs again.",
    "prober_suspect": "The control address does not answer our probers either: nothing closes meanwhile.",
    "untestable": "Out of service, and no test has said anything for too long: it stays open.",
    "heartbeat_failing": "Closed, and its probe fails: it opens by agents' calls alone.",
    "worker_fault": "One worker fails alone while others succeed.",
    "certificate": "Once it has expired nobody gets a connection any more.",
    "quorum_short": "Too few workers live to open it for the fleet: each worker's own breaker protects.",
}
ENDS: Mapping[str, str] = {**SIGNALS, "no_viable_path": "no way on", "session_lost": "its session was lost"}
NOTHING: Mapping[str, str] = {}
ACTIONS: Mapping[str, str] = {
    "advise": "the model was advised",
    "block_call": "the call was blocked",
    "remove_tool": "the tool was withdrawn",
    "end_run": "the run was ended",
    "escalate": "a human was called",
}


def number(value: Any) -> float | None:
    """A finite figure, or None for what an agent should not have sent."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e15 else None


def percent(share: float | None) -> str:
    """`50 %`, unbroken; a share that is not none is never shown as none."""
    if share is None:
        return "—"
    if 0 < share < 0.01:
        return "<1\u00a0%"
    return f"{round(share * 100)}\u00a0%"


def figure(value: float) -> str:
    """A count as people read it: `12 000`, `0.41`."""
    return f"{value:,.0f}".replace(",", "\u00a0") if value == int(value) else f"{value:,.2f}".replace(",", "\u00a0")


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 worker`, `3 workers`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}".replace(",", " ")


def seconds(value: float | None) -> str:
    """A length of time in its largest sensible units: `40 s`, `12 min`, `3 h 20 min`, `5 d`."""
    if value is None:
        return "—"
    value = max(0.0, value)
    if value < 10 and value != int(value):
        return f"{value:.1f} s"
    if value < 100:
        return f"{round(value)} s"
    minutes = round(value / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{round(hours / 24)} d"


def names(given: Sequence[str], limit: int = 3) -> str:
    """`a, b and 4 more`."""
    shown, rest = list(given[:limit]), len(given) - limit
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def cause(trip: Trip | TripLine, policy: CircuitPolicy) -> str:
    """`7 of 9 calls failed in 60 s, from 3 workers; trips at 50 %`."""
    evidence = trip.evidence if isinstance(trip.evidence, dict) else {}
    limit = threshold(trip)
    calls, failures, slow = (number(evidence.get(name)) for name in ("calls", "failures", "slow"))
    seen = _witnesses(evidence)
    window = seconds(number(evidence.get("window_s")) or policy.window_s)
    if trip.signal == "failure_rate" and calls is not None and failures is not None:
        return f"{failures:.0f} of {calls:.0f} calls failed in {window}{seen}; trips at {percent(limit)}"
    if trip.signal == "slow_call_rate" and calls is not None and slow is not None:
        return f"{slow:.0f} of {calls:.0f} calls were slow in {window}{seen}; trips at {percent(limit)}"
    value = measured(trip)
    if value is None or limit is None:
        return f"{SIGNALS.get(trip.signal, 'a signal')}{seen}"
    if trip.signal in RATES:
        return f"{percent(value)} {RATES[trip.signal]}{seen}; trips at {percent(limit)}"
    counted = COUNTS.get(trip.signal, SIGNALS.get(trip.signal, trip.signal))
    return f"{figure(value)} {counted}{seen}; trips at {figure(limit)}"


def measured(trip: Trip | TripLine) -> float | None:
    """The value that the signal had when it tripped."""
    return _named(trip.evidence, trip.signal, "value", "streak")


def threshold(trip: Trip | TripLine) -> float | None:
    """The limit it was held against."""
    return _named(trip.threshold, trip.signal, "threshold", "value")


def figures(trip: Trip) -> list[tuple[str, str, str]]:
    """What else was measured when it tripped: name, value, and what was wanted of it where that is known."""
    seen = trip.evidence if isinstance(trip.evidence, dict) else {}
    limits = trip.threshold if isinstance(trip.threshold, dict) else {}
    rows = ((label, number(seen.get(name)), number(limits.get(wanted))) for name, (label, wanted) in FIGURES.items())
    return [
        (label, f"{value:g}", "" if limit is None else f"{limit:g}")
        for label, value, limit in rows
        if value is not None
    ]


def _named(values: Any, *keys: str) -> float | None:
    if not isinstance(values, dict):
        return number(values)
    found = (number(values.get(key)) for key in keys)
    return next((value for value in found if value is not None), None)


def _witnesses(evidence: Mapping[str, Any]) -> str:
    given = evidence.get("witnesses", evidence.get("workers"))
    count = len(given) if isinstance(given, list | tuple) else number(given)
    return f", from {plural(int(count), 'worker')}" if count else ""


def why(standing: Standing, trip: Trip | None, policy: CircuitPolicy) -> str:
    """Why a circuit stands as it does."""
    if standing.kind == "forced":
        held = "Held open" if standing.mode == "forced_open" else "Held closed"
        return f"{held} by {standing.core.actor or standing.row.actor or 'an operator'}"
    if standing.kind == "suspected":
        signal = SIGNALS.get(str(standing.core.suspected_signal), "evidence")
        return f"The {signal} rule has just become true; judged again within {seconds(policy.settle_s)}"
    if trip is not None and standing.core.tripped_by is not None:
        return sentence(cause(trip, policy))
    if standing.core.tripped_by is None and standing.kind != "closed":
        return f"Left open when the hold by {standing.core.actor or standing.row.actor or 'an operator'} ended"
    return "Calls pass"


def sentence(text: str) -> str:
    """With a capital."""
    return text[:1].upper() + text[1:]


def why_missing(found: Why) -> str:
    """Why a tool was not there for a run, in one sentence."""
    lack = found.lack or {}
    behind = str(lack.get("dependency") or "")[:200]
    if found.transition is not None and found.trip is None:
        return f"{found.transition.actor or 'An operator'} held {behind} open, so every run went without it."
    shown = cause(found.trip, CircuitPolicy()) if found.trip else str(TAKEN.get(str(lack.get("cause")), "a signal"))
    match lack.get("scope"):
        case "run":
            return f"This run's own breaker took it away: {shown}."
        case "worker":
            return f"The breaker of the worker that it ran on was open for {behind}: {shown}."
        case "fleet":
            return f"The circuit of {behind} was open for the whole fleet: {shown}."
    return f"It was taken away: {shown}."


def behaviour(policy: RunPolicy) -> str:
    """What a run does without the tool."""
    match policy.degraded_behaviour.value:
        case "fallback":
            return f"use {policy.fallback_tool}" if policy.fallback_tool else "use another tool"
        case "partial_answer":
            return "give a partial answer"
        case "ask_user":
            return "ask the user"
        case "escalate":
            return "escalate to a human"
        case "end_run":
            return "end the run"
    return "undecided"


def grouped(given: Sequence[Instead]) -> dict[str, list[str]]:
    """Tools by what is done without them: six tools behind one dependency are not six lines."""
    found: dict[str, list[str]] = {}
    for one in given:
        found.setdefault(behaviour(one.policy), []).append(one.tool.name)
    return found


def moved(row: Transition) -> str:
    """What a transition did: `Opened`, `Closed`, `Held open`."""
    if row.from_mode != row.to_mode:
        return {
            "forced_open": "Held open",
            "forced_closed": "Held closed",
            "auto": "Released",
        }[row.to_mode]
    if row.from_state == row.to_state:
        return {"closed": "Counters reset", "half_open": "Readmits step by step"}.get(row.to_state, "Stays open")
    if row.to_state == "half_open":
        return "Half-open"
    if row.to_state == "closed":
        return "Closed"
    return "Opened" if row.from_state == "closed" else "Re-opened"


def tone(row: Transition) -> str:
    """Which symbol and colour a transition gets."""
    if row.to_mode != "auto":
        return "forced"
    return row.to_state


def will_call(found: Callers) -> str:
    """Who calls again, for a confirmation."""
    if not found.agents:
        return "No agent has called it within the last hour"
    return f"{plural(found.workers, 'worker')} of {names(found.agents)}"
