"""The product owner's texts: templates with a strict set of variables, whose values can say nothing of their own.

`{tool}`, `{fallback}`, `{dependency}` and `{since}` stand for what they say; a brace itself is written twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

VARIABLES: Mapping[str, str] = {
    "tool": "the tool that is gone",
    "fallback": "the tool offered instead, while it can be called",
    "dependency": "what the tool stands behind",
    "since": "the step from which on it is gone, such as 'step 4'",
}
FROM_THE_START = "the beginning"
LONGEST_VALUE = 64
SAMPLE: Mapping[str, str] = {"tool": "tool_a", "fallback": "tool_b", "dependency": "service", "since": "step 4"}

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_FOREIGN = re.compile(r"[^\w.:/@+-]")
"""What no name needs: a name of a tool or of a server is a word, never a sentence."""


class BadTemplate(ValueError):
    """A text that is no template; says what is wrong in it, and how to mend it."""

    def __init__(self, message: str, mend: str) -> None:
        super().__init__(f"{message}; {mend}")
        self.message = message
        self.mend = mend


def rendered(template: str, values: Mapping[str, str | None]) -> str | None:
    """The text with its values in place; None where one that it needs is missing. Raises BadTemplate."""
    parts = list(_parts(template, values))
    return None if None in parts else "".join(part for part in parts if part is not None)


def demand_template(template: str) -> None:
    """Raise BadTemplate where it names what there is not, or leaves a brace alone."""
    rendered(template, SAMPLE)


def variables(template: str) -> frozenset[str]:
    """The names that it uses, also those that there are not."""
    return frozenset(found[1].strip() for found in _PART.finditer(template) if found[1] is not None)


def name_of(value: str) -> str:
    """A name as a text may carry it: one word of limited length, whatever a server called its tool."""
    return _FOREIGN.sub("_", value[:LONGEST_VALUE])


def since(step: int | None) -> str:
    """`since`, of a tool that is gone from this step on."""
    return FROM_THE_START if not step else f"step {step}"


def _parts(template: str, values: Mapping[str, str | None]) -> Iterator[str | None]:
    end = 0
    for found in _PART.finditer(template):
        yield template[end : found.start()]
        yield _value(found, values)
        end = found.end()
    yield template[end:]


def _value(found: re.Match[str], values: Mapping[str, str | None]) -> str | None:
    if found[1] is None:
        if len(found[0]) == 1:
            raise BadTemplate(f"a lone {found[0]!r}", "write it twice, or name a variable such as {tool}")
        return found[0][0]
    name = found[1].strip()
    if name not in VARIABLES:
        known = ", ".join(f"{{{one}}}" for one in VARIABLES)
        raise BadTemplate(f"there is no variable {found[0][:40]!r}", f"use {known}, or write a brace twice")
    value = values.get(name)
    return None if value is None else value if name == "since" else name_of(value)
