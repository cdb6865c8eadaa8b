"""What the model reads: the notice about missing tools, and the results that stand in for a call. Pure functions.

Names come only from the run's own array, and never a word from a failing tool enters a notice. Nothing here invites a
retry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recloser.core.policy import RunPolicy
from recloser.core.run import RunDecision
from recloser.core.types import Action, DegradedBehaviour, Outcome, Signal
from recloser.core.wording import inviting
from recloser.wire import clean

LONGEST = 400
LONGEST_NAME = 64
LONGEST_DETAIL = 500

_CAUSES: Mapping[Signal | None, str] = {
    None: "taken out of service by an operator",
    Signal.CONSECUTIVE_FAILURES: "not answering",
    Signal.FAILURE_RATE: "failing",
    Signal.SLOW_CALL_RATE: "answering far too slowly",
    Signal.SEMANTIC_FAILURES: "rejecting every call",
    Signal.IDENTICAL_CALLS: "the same call brought nothing new",
    Signal.OSCILLATION: "calls went round in a circle",
    Signal.NO_PROGRESS: "its answers led nowhere",
    Signal.RUN_FAILURE_RATE: "failing",
}

_WAYS: Mapping[DegradedBehaviour, str] = {
    DegradedBehaviour.PARTIAL_ANSWER: "Give a partial answer without it.",
    DegradedBehaviour.ASK_USER: "Ask the user how to go on without it.",
    DegradedBehaviour.ESCALATE: "Hand this part over to a person.",
    DegradedBehaviour.END_RUN: "End the task and report what you have.",
}

_HEAD = "Out of service for the rest of this task, and not to be called:"
_TAIL = "Go on with the tools that remain. In your answer, say what you could not do."


@dataclass(frozen=True, slots=True)
class Loss:
    """One tool that is gone, and what its policy says to do without it."""

    tool: str
    decision: RunDecision
    policy: RunPolicy
    instead: str | None = None
    """The fallback, only where it can itself be called."""


def notice(losses: Iterable[Loss], *, ended: RunDecision | None = None) -> str | None:
    """One block for the system prompt, at most 400 characters, or None when nothing is missing."""
    held = list(losses)
    if not held:
        return None if ended is None else f"{_ended(ended)} {_last_words()}"
    lines = [f"- {named(loss.tool)}: {_cause(loss)}. {way(loss)}" for loss in held]
    short = [f"- {named(loss.tool)}" for loss in held]
    for attempt in (lines, short):
        if len(text := "\n".join([_HEAD, *attempt, _TAIL])) <= LONGEST:
            return text
    return _as_many_as_fit(short)


def _as_many_as_fit(names: list[str]) -> str:
    kept: list[str] = []
    for line in names:
        rest = f"- and {len(names) - len(kept) - 1} more, absent from your tools"
        if len("\n".join([_HEAD, *kept, line, rest, _TAIL])) > LONGEST:
            break
        kept.append(line)
    return "\n".join([_HEAD, *kept, f"- and {len(names) - len(kept)} more, absent from your tools", _TAIL])


def way(loss: Loss) -> str:
    """What to do instead: the product owner's words where they pass the wording check, else ours."""
    if loss.policy.model_text and not inviting(loss.policy.model_text):
        return clean(loss.policy.model_text, LONGEST)
    if loss.instead is not None:
        return f"Use {named(loss.instead)} instead."
    return _WAYS.get(loss.policy.degraded_behaviour, "Find another way or answer without it.")


def unavailable(loss: Loss, *, retry_after_s: float | None = None) -> dict[str, Any]:
    """The result of a call to a tool that is gone: of the usual shape, never an error of the framework."""
    name = named(loss.tool)
    result: dict[str, Any] = {
        "status": "unavailable",
        "tool": name,
        "message": f"{name} is unavailable for the rest of this task ({_cause(loss)}). Do not call it. {way(loss)} "
        "In your answer, say what you could not do.",
    }
    if retry_after_s is not None:
        result["retry_after_s"] = round(retry_after_s, 1)  # for schedulers, which start later runs
    return result


def blocked(decision: RunDecision) -> dict[str, Any]:
    """The result of a call that was not made because it repeats another."""
    name = named(decision.tool)
    if decision.ambiguous:
        message = (
            f"This call of {name} was made before and may have taken effect. It was not repeated. "
            "Check its effect another way, or hand it to a person; say in your answer that it is not certain."
        )
    else:
        message = (
            f"This call of {name} was already made with these arguments and was not repeated. "
            "Use the result you have, or change the approach."
        )
    return {"status": "blocked", "tool": name, "message": message}


def unknown(tool: str, known: Collection[str]) -> dict[str, Any]:
    """The result of a call to a name that is not there."""
    names = ", ".join(named(name) for name in list(known)[:20])
    message = "There is no tool of this name." + (f" The tools of this task: {names}." if names else "")
    return {"status": "unknown_tool", "tool": named(tool), "message": message}


def ended(decision: RunDecision, tool: str) -> dict[str, Any]:
    """The result of a call after the run has ended."""
    return {"status": "ended", "tool": named(tool), "message": f"{_ended(decision)} {_last_words()}"}


def failed(
    tool: str, outcome: Outcome, detail: str, decisions: Iterable[RunDecision], loss: Loss | None
) -> dict[str, Any]:
    """The result of a call that raised: what kind of failure it was, and what follows from it.

    The tool's own words are shown for rejected arguments only, because there alone they help; shortened, and marked as
    its own.
    """
    name = named(tool)
    result: dict[str, Any] = {"status": "error", "tool": name, "error": outcome.value}
    if loss is not None:
        result["message"] = unavailable(loss)["message"]
    elif outcome is Outcome.SEMANTIC_ERROR:
        result["message"] = f"{name} rejected the arguments."
        result["detail"] = clean(detail, LONGEST_DETAIL)
    else:
        result["message"] = f"{name} gave no result ({outcome.value}). The fault is not in the arguments."
    if loss is None and any(decision.signal is Signal.SEMANTIC_FAILURES for decision in decisions):
        result["message"] += " It has rejected several calls in a row: change your approach, not only the wording."
    return result


def _cause(loss: Loss) -> str:
    return _CAUSES.get(loss.decision.signal, "unavailable")


def named(tool: str) -> str:
    """A tool's name as a text may carry it."""
    return clean(tool, LONGEST_NAME)


def _ended(decision: RunDecision) -> str:
    limit = decision.action is Action.END_RUN and decision.signal is not None
    return f"This task has ended ({decision.signal.value})." if limit and decision.signal else "This task has ended."


def _last_words() -> str:
    return "Call no more tools: give your answer from what you have, and say in it what you could not do."
