"""Ending honestly: what a run had to do without, as data and as a sentence, and whether the reader was told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from recloser.core.run import RunState
from recloser.core.types import Scope

DEEPEST = 12
MOST = 200
LONGEST = 200
"""Of a block from another process: nesting, entries a list, characters a name."""


@dataclass(frozen=True, slots=True)
class MissingTool:
    """One declared tool that a run had to do without."""

    tool: str
    cause: str
    """The signal, or `operator`."""
    scope: Scope
    step: int | None = None
    """The step from which on it was gone; None: before the run began."""
    replaced_by: str | None = None
    calls_refused: int = 0


@dataclass(frozen=True, slots=True)
class Degradation:
    """The block that a run's final result carries. Without anything missing, `degraded` is false."""

    items: tuple[MissingTool, ...] = ()
    ended_by: str | None = None
    """The signal that ended the run, if one did."""
    children: tuple[tuple[str, Degradation], ...] = ()
    """The child runs that had to do without something, by id: what a part lacks, the whole lacks."""
    handover: str | None = None
    """What was passed on to people: a `question` or an `escalation`."""

    @property
    def degraded(self) -> bool:
        """Whether any step lacked a declared tool, the run was ended on purpose, or a child run had to say so."""
        return bool(self.items) or self.ended_by is not None or any(block.degraded for _, block in self.children)

    @property
    def tools(self) -> tuple[str, ...]:
        """Every missing tool once: its own first, then those of its children."""
        own = [item.tool for item in self.items]
        return tuple(dict.fromkeys([*own, *(tool for _, block in self.children for tool in block.tools)]))

    def to_dict(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {
            "children": [{"run": run, **block.to_dict()} for run, block in self.children],
            "degraded": self.degraded,
            "ended_by": self.ended_by,
            "handover": self.handover,
            "items": [
                {
                    "tool": item.tool,
                    "cause": item.cause,
                    "scope": str(item.scope),
                    "step": item.step,
                    "replaced_by": item.replaced_by,
                    "calls_refused": item.calls_refused,
                }
                for item in self.items
            ],
        }


def degradation(state: RunState, *, replaced_by: Mapping[str, str] | None = None) -> Degradation:
    """What a run lost, from its own memory; `replaced_by` names the fallbacks that really answered."""
    answered, refused = replaced_by or {}, state.refused
    items = tuple(
        MissingTool(
            tool=name,
            cause="operator" if lost.signal is None else str(lost.signal),
            scope=lost.scope,
            step=lost.step,
            replaced_by=answered.get(name),
            calls_refused=refused.get(name, 0),
        )
        for name, lost in state.withdrawn.items()
    )
    ended = state.ended
    cause = None if ended is None else "operator" if ended.signal is None else str(ended.signal)
    return Degradation(items, cause)


def block_of(given: Any, depth: int = DEEPEST) -> Degradation:
    """The inverse of `to_dict`, of whatever another process sent; what is no block of a known shape is left out."""
    if not isinstance(given, Mapping) or depth <= 0:
        return Degradation()
    children = [one for one in _list(given.get("children")) if isinstance(one, Mapping)]
    return Degradation(
        items=tuple(item for one in _list(given.get("items")) if (item := _item_of(one)) is not None),
        ended_by=_text(given.get("ended_by")),
        children=tuple((_text(one.get("run")) or "", block_of(one, depth - 1)) for one in children),
        handover=_text(given.get("handover")),
    )


def _item_of(given: Any) -> MissingTool | None:
    if not isinstance(given, Mapping) or (tool := _text(given.get("tool"))) is None:
        return None
    scope = given.get("scope")
    return MissingTool(
        tool=tool,
        cause=_text(given.get("cause")) or "unknown",
        scope=Scope(scope) if scope in set(Scope) else Scope.RUN,
        step=_number(given.get("step")),
        replaced_by=_text(given.get("replaced_by")),
        calls_refused=_number(given.get("calls_refused")) or 0,
    )


def _list(given: Any) -> list[Any]:
    return given[:MOST] if isinstance(given, list) else []


def _text(given: Any) -> str | None:
    return given[:LONGEST] if isinstance(given, str) and given else None


def _number(given: Any) -> int | None:
    return given if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else None


def disclosure(block: Degradation, own_words: Mapping[str, str] | None = None) -> str:
    """The sentence for the human reader; empty for a healthy run. `own_words`: the product owner's text by tool."""
    told = list(dict.fromkeys(_sentences(block, own_words or {}, set())))
    return " ".join(told)


def _sentences(block: Degradation, own_words: Mapping[str, str], known: set[str], part: str = "") -> Iterator[str]:
    for item in block.items:
        if item.tool not in known:
            known.add(item.tool)
            yield _sentence(item, own_words.get(item.tool, ""))
    for _, below in block.children:
        yield from _sentences(below, own_words, known, "A part of this task")
    if block.ended_by is not None:
        yield f"{part or 'This task'} was ended before it was finished."
    if block.handover is not None:
        yield _PASSED_ON.get(block.handover, _PASSED_ON["escalation"])


_PASSED_ON: Mapping[str, str] = {
    "question": "What to do instead was asked of the people who run this service.",
    "escalation": "The people who run this service were told to take over.",
}


def _sentence(item: MissingTool, own_words: str) -> str:
    if own_words:
        return own_words
    instead = f"; {item.replaced_by} was used instead" if item.replaced_by else ""
    return f"This answer was made without {item.tool}, which was unavailable{instead}."


_LIMITATION = re.compile(
    r"\b(unavailable|not available|out of service|without|could ?n[o']t|could not|can ?not|can't|unable|"
    r"was ?n[o']t able|not able|did not (?:work|respond)|failed|down|missing|incomplete|limited)\b",
    re.IGNORECASE,
)
_ENDING = re.compile(
    r"\b(ended|stopped|cut short|interrupted|incomplete|unfinished|ran out|(?:step|token|cost|time|budget) limit|"
    r"(?:could not|couldn't|cannot|can't|unable to|not able to) (?:be )?(?:finish|complete|conclude)\w*|"
    r"before (?:it|i|this|the task) (?:was|were|had|could)\b.{0,40}\b(?:finish|complete|done))\w*\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def disclosed(
    text: str,
    block: Degradation,
    *,
    consumer_shows_block: bool = False,
    own_words: Mapping[str, str] | None = None,
) -> bool:
    """Whether the reader learns of it: the consumer shows the block, or the delivered text says it.

    The text says it when it holds our sentence, or when for each missing tool one of its sentences names the tool
    beside a limitation, and, where the run was ended, one of them says that it ended early.
    """
    if not block.degraded or consumer_shows_block:
        return True
    if (sentence := disclosure(block, own_words)) and sentence.casefold() in text.casefold():
        return True
    parts = _SENTENCE_END.split(text[:200_000])
    if _was_ended(block) and not any(_ENDING.search(part) for part in parts):
        return False
    limited = [part.casefold() for part in parts if _LIMITATION.search(part)]
    return all(_named(tool, limited) for tool in block.tools)


def _was_ended(block: Degradation) -> bool:
    return block.ended_by is not None or any(_was_ended(below) for _, below in block.children)


def _named(tool: str, sentences: Iterable[str]) -> bool:
    name = tool.casefold()
    spoken = re.sub(r"[_\-./]+", " ", name).strip()
    return any(name in sentence or spoken in sentence for sentence in sentences)
