"""What the model reads: the notice about missing tools, and the results that stand in for a call. Pure functions.

Names come only from the run's own array, and never a word from a failing tool enters a notice. Nothing here invites a
retry.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recloser.core import texts
from recloser.core.policy import RunPolicy
from recloser.core.run import RunDecision
from recloser.core.types import Action, DegradedBehaviour, Outcome, Signal
from recloser.core.wording import inviting
from recloser.wire import clean

LONGEST = 400
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

_ADVICE: Mapping[Signal, str] = {
    Signal.SEMANTIC_FAILURES: "{tool} has rejected several calls in a row: change your approach, not only the wording.",
    Signal.CONSECUTIVE_FAILURES: "{tool} has failed several times in a row: go on without it where you can.",
    Signal.RUN_FAILURE_RATE: "{tool} fails often: go on without it where you can.",
    Signal.IDENTICAL_CALLS: "The same call of {tool} has brought the same result several times: use what you have.",
    Signal.OSCILLATION: "Your calls go round in a circle and change nothing: change your approach.",
    Signal.NO_PROGRESS: "Your last steps changed nothing: change your approach, or answer from what you have.",
    Signal.BUDGET_BURN: "This task spends far more than such tasks do: finish it with few further steps.",
    Signal.UNKNOWN_TOOL: "You have named tools that do not exist: call only those of your tools array.",
}

_ON_A_RESULT = frozenset(
    {Signal.SEMANTIC_FAILURES, Signal.CONSECUTIVE_FAILURES, Signal.RUN_FAILURE_RATE, Signal.UNKNOWN_TOOL}
)

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
    dependency: str | None = None
    why: str | None = None
    """Where one reads what took it."""


class StandIn(dict[str, Any]):
    """A result that stands in for a call. Awaited, it is itself: a loop need not know whether the tool is async."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, StandIn]:
        return self
        yield


def notice(
    losses: Iterable[Loss], *, ended: RunDecision | None = None, advice: Iterable[RunDecision] = ()
) -> str | None:
    """One block for the system prompt, at most 400 characters, or None when there is nothing to say."""
    held = list(losses)
    hints = list(dict.fromkeys(_advice(one) for one in advice))
    if ended is not None:
        hints = [f"{_ended(ended)} {_last_words()}"]
    if not held:
        return _within(hints)
    lines = [f"- {named(loss.tool)}: {_cause(loss)}. {way(loss)}" for loss in held]
    short = [f"- {named(loss.tool)}" for loss in held]
    tail = hints if ended is not None else [_TAIL]
    for attempt in ([*lines, *tail, *([] if ended is not None else hints)], [*lines, *tail], [*short, *tail]):
        if len(text := "\n".join([_HEAD, *attempt])) <= LONGEST:
            return text
    return _as_many_as_fit(short, tail[0])


def _within(hints: list[str]) -> str | None:
    """As many as there is room for."""
    while len(text := "\n".join(hints)) > LONGEST:
        hints = hints[:-1]
    return text or None


def _advice(decision: RunDecision) -> str:
    assert decision.signal is not None
    return _ADVICE.get(decision.signal, "Change your approach.").format(tool=named(decision.tool))


def _as_many_as_fit(names: list[str], tail: str) -> str:
    kept: list[str] = []
    for line in names:
        rest = f"- and {len(names) - len(kept) - 1} more, absent from your tools"
        if len("\n".join([_HEAD, *kept, line, rest, tail])) > LONGEST:
            break
        kept.append(line)
    return "\n".join([_HEAD, *kept, f"- and {len(names) - len(kept)} more, absent from your tools", tail])


def way(loss: Loss) -> str:
    """What to do instead: the product owner's words where they can be said, else ours."""
    if (words := _own_words(loss)) is not None:
        return clean(words, LONGEST)
    if loss.instead is not None:
        return f"Use {named(loss.instead)} instead."
    return _WAYS.get(loss.policy.degraded_behaviour, "Find another way or answer without it.")


def _own_words(loss: Loss) -> str | None:
    """None where there are none, where they invite a call, or where they offer what cannot be called."""
    if (text := said(loss.policy.model_text, loss)) is None or inviting(text):
        return None
    other = loss.policy.fallback_tool
    return None if other and loss.instead is None and other in text else text


def said(template: str, loss: Loss) -> str | None:
    """A text of the policy about this tool; None where there is none to say."""
    values = {
        "tool": loss.tool,
        "fallback": loss.instead,
        "dependency": loss.dependency or loss.decision.dependency or loss.tool,
        "since": texts.since(loss.decision.step),
    }
    try:
        return texts.rendered(template, values) or None
    except texts.BadTemplate:  # in force since before there were templates
        return None


def unavailable(loss: Loss, *, retry_after_s: float | None = None) -> StandIn:
    """The result of a call to a tool that is gone: of the usual shape, never an error of the framework."""
    name = named(loss.tool)
    result = StandIn(
        status="unavailable",
        tool=name,
        message=f"{name} is unavailable for the rest of this task ({_cause(loss)}). Do not call it. {way(loss)} "
        "In your answer, say what you could not do.",
    )
    if loss.why is not None:
        result["why"] = loss.why
    if retry_after_s is not None:
        result["retry_after_s"] = round(retry_after_s, 1)  # for schedulers, which start later runs
    return result


def blocked(decision: RunDecision) -> StandIn:
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
    return StandIn(status="blocked", tool=name, message=message)


def unknown(tool: str, known: Collection[str], decisions: Iterable[RunDecision] = ()) -> StandIn:
    """The result of a call to a name that is not there."""
    names = ", ".join(named(name) for name in list(known)[:20])
    message = "There is no tool of this name." + (f" The tools of this task: {names}." if names else "")
    message = " ".join([message, *(_advice(one) for one in decisions if advises(one))])
    return StandIn(status="unknown_tool", tool=named(tool), message=message)


def ended(decision: RunDecision, tool: str) -> StandIn:
    """The result of a call after the run has ended."""
    return StandIn(status="ended", tool=named(tool), message=f"{_ended(decision)} {_last_words()}")


def failed(tool: str, outcome: Outcome, detail: str, decisions: Iterable[RunDecision], loss: Loss | None) -> StandIn:
    """The result of a call that raised: what kind of failure it was, and what follows from it.

    The tool's own words are shown for rejected arguments only, because there alone they help; shortened, and marked as
    its own.
    """
    name = named(tool)
    result = StandIn(status="error", tool=name, error=outcome.value)
    if loss is not None:
        result |= {key: value for key, value in unavailable(loss).items() if key in ("message", "why")}
    elif outcome is Outcome.SEMANTIC_ERROR:
        result["message"] = f"{name} rejected the arguments."
        result["detail"] = clean(detail, LONGEST_DETAIL)
    else:
        result["message"] = f"{name} gave no result ({outcome.value}). The fault is not in the arguments."
    if loss is None and (advice := [_advice(one) for one in decisions if advises(one)]):
        result["message"] = " ".join([result["message"], *advice])
    return result


def advises(decision: RunDecision) -> bool:
    """Is it told to the model, and nothing more?"""
    return decision.enforced and decision.action is Action.ADVISE and decision.signal is not None


def advises_in_block(decision: RunDecision) -> bool:
    """Is there no failing result that its advice could stand on? Then the system block has it."""
    return advises(decision) and decision.signal not in _ON_A_RESULT


def _cause(loss: Loss) -> str:
    return _CAUSES.get(loss.decision.signal, "unavailable")


def named(tool: str) -> str:
    """A tool's name as a text may carry it: a word, whatever a server called it."""
    return texts.name_of(tool)


def _ended(decision: RunDecision) -> str:
    limit = decision.action is Action.END_RUN and decision.signal is not None
    return f"This task has ended ({decision.signal.value})." if limit and decision.signal else "This task has ended."


def _last_words() -> str:
    return "Call no more tools: give your answer from what you have, and say in it what you could not do."
