"""What a tool does to the world, as far as its hints and its name tell: a claim, which an operator confirms.

Hints are a server's own word, and names are anybody's. So a claim may tighten how a tool is handled until a person has
looked; it loosens only where that person has said to trust the server (`handled`). What cannot be read is `unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recloser.core import words
from recloser.core.resolve import STRICTNESS, handled_as, strictest
from recloser.core.types import SideEffectClass

MAX_NAME = 200


class Basis(StrEnum):
    """What a claim rests on."""

    HINTS = "hints"
    NAME = "name"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Claim:
    """A class that was read off a tool, and why."""

    side_effect: SideEffectClass
    basis: Basis
    because: str

    def handled(self, *, trusted: bool = False) -> SideEffectClass:
        """The class whose rules hold until an operator confirms one."""
        return handled_as(self.side_effect, confirmed=trusted and self.basis is Basis.HINTS)


READ_ONLY, IDEMPOTENT, SIDE_EFFECT, DESTRUCTIVE, UNKNOWN = (
    SideEffectClass.READ_ONLY,
    SideEffectClass.IDEMPOTENT_WRITE,
    SideEffectClass.SIDE_EFFECT,
    SideEffectClass.DESTRUCTIVE,
    SideEffectClass.UNKNOWN,
)


def claim(name: str, hints: Any = None, *, server: str = "", trusted: bool = False) -> Claim:
    """What hints and name say together: of a trusted server its hints, of any other the stricter of the two."""
    by_name = of_name(name, server=server)
    by_hints = of_hints(hints)
    if by_hints is None:
        return by_name
    if trusted and not _destroys_unasked(by_name, hints):
        return by_hints
    stricter = strictest((by_hints.side_effect, by_name.side_effect))
    return by_hints if stricter is by_hints.side_effect else by_name


def claim_of_all(name: str, told: Iterable[Any]) -> Claim:
    """What a name and the hints that several agents tell of it say together: the strictest. No agent is trusted."""
    claims = [claim(name, hints) for hints in told] or [of_name(name)]
    return max(claims, key=lambda each: STRICTNESS.index(each.side_effect))


def stated(hints: Any) -> dict[str, bool]:
    """The hints of MCP that are given as plain yes or no, by their names there; everything else says nothing."""
    given = hints if isinstance(hints, Mapping) else {}
    return {name: given[name] for name in HINTS if isinstance(given.get(name), bool)}


def _destroys_unasked(by_name: Claim, hints: Mapping[str, Any]) -> bool:
    """The name destroys, of a tool that says it writes and leaves open whether it destroys."""
    open_ = not isinstance(hints.get("destructiveHint"), bool) and hints.get("readOnlyHint") is not True
    return open_ and by_name.side_effect is DESTRUCTIVE


def of_hints(hints: Any) -> Claim | None:
    """MCP's hints as a class; None where nothing is stated. A contradiction counts for the stricter word."""
    told = {name: value for name, value in stated(hints).items() if name != "openWorldHint"}
    if not told:
        return None
    return Claim(_class_of(told), Basis.HINTS, in_words(told))


def in_words(told: Mapping[str, bool]) -> str:
    """Stated hints, as one reads them."""
    return ", ".join(f"{name} {str(value).lower()}" for name, value in told.items())


HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""The last one says whom a tool may reach, and nothing of what it does there: it makes no class."""


def _class_of(stated: Mapping[str, bool]) -> SideEffectClass:
    if stated.get("destructiveHint"):
        return DESTRUCTIVE
    if stated.get("readOnlyHint"):
        return READ_ONLY
    return IDEMPOTENT if stated.get("idempotentHint") else SIDE_EFFECT


def of_name(name: str, *, server: str = "") -> Claim:
    """What a name says in any of the usual spellings; a server's name before it is no part of it."""
    tokens = tokens_of(name)
    body = [_lemma(word) for word in _without_prefix(tokens, tokens_of(server))]
    if not body:
        return _nothing("there is no word in it")
    found = _written(body)
    if found is not None:
        return found
    if not name.isascii() or len(name) > MAX_NAME:
        return _nothing("it has letters of another alphabet, or too many")
    return _read(body) or _nothing("no word in it says what it does")


_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+[0-9]*|[A-Z]+[0-9]*|[0-9]+|[^\W\d_a-zA-Z]+")


def tokens_of(name: str) -> list[str]:
    """The words of a name in lower case: snake_case, kebab-case, camelCase, HTTPServer, dots and blanks."""
    return [part.lower() for part in _PART.findall(name[: 2 * MAX_NAME])]


def _without_prefix(tokens: list[str], server: list[str]) -> list[str]:
    kept = tokens
    for word in server:
        if len(kept) > 1 and kept[0] == word and word not in _VERBS:
            kept = kept[1:]
    return kept


_READS = words.ASKS | words.LOOKS | words.FINDS
_WRITES = words.DESTROYS | words.SETS | words.ACTS
_NOUNS = words.NOUNS_TOO | words.VERBS_RATHER
_PURE = _WRITES - _NOUNS
_VERBS = _WRITES | words.MIXED | _READS
_HEADS = words.HEADS | words.SETTABLE_HEADS
_DECIDING = _PURE | words.MIXED | _READS


def _written(body: list[str]) -> Claim | None:
    """What a name says by the verb that writes, or may; None where none stands in a verb's place."""
    lead = next((at for at, word in enumerate(body) if word in _DECIDING), None)
    if lead is None or (body[lead] not in _PURE and _is_noun_before(body, lead)):
        return _acting_noun(body)
    if body[lead] in _PURE:
        return _writes(body[lead])
    if body[lead] in words.MIXED:
        return None if _is_thing(body, lead) else _mixed(body[lead])
    return _acting_first(body, lead) or _after_a_read(body, lead) or _free_query(body, lead)


def _is_noun_before(body: list[str], lead: int) -> bool:
    """`build` in `schedule_build`: what could be the verb is what the first word acts on."""
    noun = body[lead] in words.MIXED_NOUNS
    return noun and lead == len(body) - 1 and any(word in _NOUNS for word in body[:lead])


def _acting_noun(body: list[str]) -> Claim | None:
    """A verb that may be a noun, where no other verb stands: `star_repository`, `git_commit`; not `order_status`."""
    if body[0] in words.QUESTIONS or body == ["log"]:
        return None
    if len(body) > 1:
        acting = next((word for word in body[:2] if word in words.VERBS_RATHER), None)
        if acting is None and body[0] in words.ACTS_AS_VERB:
            acting = body[0]
        if acting is not None or body[-1] in _HEADS:
            return _writes(acting) if acting else None
    found = next((word for word in body if word in _WRITES), None)
    return _writes(found) if found else None


def _is_thing(body: list[str], lead: int) -> bool:
    """`run_list`, `process_status`: the mixed verb is a noun here."""
    asked = body[-1] in _HEADS or body[-1] in words.LAST_READS - {"search"}
    return asked and lead < len(body) - 1 and body[lead] in words.MIXED_NOUNS


def _acting_first(body: list[str], lead: int) -> Claim | None:
    """`schedule_health_check`, `post_preview`: a verb that may be a noun before a read that may be one."""
    before = next((word for word in body[: min(lead, 2)] if word in _NOUNS), None)
    if before is None or body[lead] in words.ASKS:
        return None
    is_verb = body[lead] in words.LAST_READS and (lead == len(body) - 1 or before in words.NOUNS_TOO)
    return None if is_verb else _writes(before)


def _after_a_read(body: list[str], lead: int) -> Claim | None:
    """A write behind a read: `get_or_create`, `search_replace`, `index_search_delete`."""
    rest = body[lead + 1 :]
    for at, word in enumerate(rest):
        if word in _WRITES and at > 0 and rest[at - 1] in words.JOINS:
            return _writes(word)
        is_verb = at == len(rest) - 1 or _is_compound(body[lead], at)
        if word in _PURE and is_verb and body[lead] not in words.ASKS:
            return _writes(word)
    return None


def _is_compound(read: str, at: int) -> bool:
    """`find_replace_text`, `read_write_file`, beside `list_create_options`."""
    return at == 0 and (read in words.FINDS or read == "read")


def _free_query(body: list[str], lead: int) -> Claim | None:
    """A free query to something that can also be written to in its language."""
    if body[lead] == "query" and (len(body) == 1 or any(word in words.ENGINES for word in body)):
        return Claim(UNKNOWN, Basis.NAME, "a query in such a language may write")
    return None


def _read(body: list[str]) -> Claim | None:
    """The verb, the question or the thing that says that a name only reads."""
    if body[0] in words.QUESTIONS:
        return _reads(body[0])
    verb = next((word for word in body if word in _READS), None)
    if verb is not None:
        return _reads(verb)
    is_thing = body[-1] in words.HEADS or (body[-1] in words.SETTABLE_HEADS and len(body) <= 2)
    return _reads(body[-1]) if is_thing else None


_GLUED_WRITE = re.compile(r"(create|delete|update|remove|insert|upload|cancel|publish)([a-z]{3,})")
_GLUED_READ = re.compile(r"(get|fetch|search)([a-z]{3,})")
_FORMS = ("d", "r", "s", "ion", "ions", "ing", "ed", "er", "ers", "or", "ors", "able", "ation", "ment")


def _lemma(word: str) -> str:
    """The verb that a word is glued to (`createuser`), else the word."""
    if word in _VERBS or word in _HEADS:
        return word
    for glued in (_GLUED_WRITE, _GLUED_READ):
        found = glued.fullmatch(word)
        if found and found[2] not in _FORMS:
            return found[1]
    return word


def _writes(word: str) -> Claim:
    kind = DESTRUCTIVE if word in words.DESTROYS else IDEMPOTENT if word in words.SETS else SIDE_EFFECT
    return Claim(kind, Basis.NAME, f"the word {word}")


def _reads(word: str) -> Claim:
    return Claim(READ_ONLY, Basis.NAME, f"the word {word}")


def _mixed(word: str) -> Claim:
    return Claim(UNKNOWN, Basis.NAME, f"the word {word} may stand for a read or a write")


def _nothing(because: str) -> Claim:
    return Claim(UNKNOWN, Basis.NOTHING, because)
