"""What a model reads about a tool that is gone must not lead it to call again: the words that would, found."""

from __future__ import annotations

import re

_WHEN = (
    r"again|once more|one more time|another time|a second time|later|soon|shortly|every so often"
    r"|after a (?:while|moment)"
    r"|(?:in|after|every) (?:(?:about|another|a few|some|\w+) ){0,2}(?:second|minute|hour|moment|while)s?"
    r"|(?:a few|several|many|\w+) (?:more )?times"
)
_TAIL = rf"(?:[ ,]+(?:{_WHEN}))*"
_CALL = r"(?:call|use|invok|quer|request|run|search|fetch|send|poll|test)(?:y|e|es|s|d|ed|ied|ing|ning)?"
_IT = r"(?:it|this|that|them|they|(?:the|this|that) (?:\w+ )?\w+)"

_GAP = r"(?:(?!\b(?:and|but|then)\b)[^.,;:!?])"
"""What may stand between a verb and its "again": nothing that begins another clause."""

_INVITATIONS = (
    rf"try(?:ing)?\b{_GAP}{{0,30}}?\b(?:{_WHEN}){_TAIL}",
    r"(?:re-?(?:try|tries|tried|trying|attempt(?:s|ed|ing)?|run(?:ning)?|send(?:ing)?|submit(?:ting)?|invok(?:e|ing)))"
    + _TAIL,
    r"(?:keep|continue|go on|carry on) (?:on )?(?:\w*try|to try|\w+ing (?:it|this|the tool)|call|to call|poll|ask)\w*"
    + _TAIL,
    r"(?:not|\w+n't|never) (?:stop|give up|quit|cease)\b",
    r"(?:not|\w+n't|never) (?:hesitate|be afraid|forget|fail) to (?:re-?try|try|call|use)\b",
    rf"(?:until|till) (?:{_IT} )?(?:works?|succeeds?|responds?|answers?|recovers?|returns?|comes? back|is|are|gets?)\b",
    r"wait(?:ing)?\b[^.,;:!?]{0,60}(?:\b(?:and|then|before)|, (?:and )?then)\b[^.,;:!?]{0,20}"
    rf"\b(?:{_CALL}|try(?:ing)?|repeat(?:ing)?|ask(?:ing)?)\b(?: it)?{_TAIL}",
    rf"wait(?:ing)?\b{_GAP}{{0,25}}\b(?:second|minute|moment|while|bit)s?",
    rf"(?:repeat|redo|reissue)(?:ing|ed)?\b{_GAP}{{0,25}}\b(?:call|request|query|search|attempt|tool|it)\b{_TAIL}",
    rf"{_CALL}\b{_GAP}{{0,30}}?\b(?:{_WHEN}){_TAIL}",
    rf"check(?:ing)? (?:back|again|(?:it|this) (?:again|later)){_TAIL}",
    r"(?:once more|one more time|again and again|over and over)",
    r"(?:another|one more|(?:a )?(?:second|third|fresh|new|further)) (?:try|attempt|go|shot|chance)",
    rf"(?:once|when|as soon as) {_IT} (?:(?:is|comes|becomes|gets)"
    r" (?:back|available|up|online|reachable|restored|working|healthy)"
    r"|works|recovers|responds|answers)",
    rf"(?:available|working|reachable|ready|up|back|online) (?:again|{_WHEN})",
    r"temporar(?:y|ily)|moment(?:ary|arily)?|for now|later|shortly|soon|back (?:up|online)",
)
_INVITES = re.compile(r"\b(?:" + "|".join(f"(?:{one})" for one in _INVITATIONS) + r")(?<!\s)", re.IGNORECASE)

_FILLERS = (
    r"ever|even|just|simply|be|been|to|in|of|any|a|an|the|it|try|trying|attempt|attempting|bother|plan|expect|want"
    r"|second|further|more|for|on|under|circumstances"
)
_DENIED = re.compile(
    r"(?:\b(?:not|never|cannot|without|avoid|nor|neither|stop|no longer)|n't|\bno (?:need|point|use|reason|sense)"
    r"|\b(?:instead of|rather than|refrain from)|\bnot help|\bno)"
    rf"(?:\s+(?:{_FILLERS}))*\s*$",
    re.IGNORECASE,
)
"""What stands right before an invitation and makes it the contrary: "do not", "there is no point in"."""

_CLAUSE = re.compile(r"[.,;:!?()\n]|\b(?:and|but|then)\b", re.IGNORECASE)


def inviting(text: str) -> str | None:
    """The words that would lead a model to call again, or None. "Do not call it again" is no such words."""
    plain = re.sub(r"\s+", " ", text.replace("\u2019", "'"))
    found = (match for match in _INVITES.finditer(plain) if not _denied(plain[: match.start()]))
    return next((match[0] for match in found), None)


def _denied(before: str) -> bool:
    """Whether the clause so far turns what follows into its contrary."""
    return _DENIED.search(_CLAUSE.split(before)[-1]) is not None
