"""Secret values taken out of texts that are stored, shown or logged."""

from collections.abc import Mapping
from urllib.parse import quote

MASK = "********"
SHORTEST_MASKED = 4
"""A value shorter than this would blot out half of every text; it hides nothing either."""


def masked(text: str, values: Mapping[str, str]) -> str:
    """`text` without any of the secret values, should somebody have sent one back to us."""
    for form in sorted({form for value in values.values() for form in _forms(value)}, key=len, reverse=True):
        text = text.replace(form, MASK)
    return text


def _forms(value: str) -> set[str]:
    """A value as it stands, each long word of it (`Bearer ...`), and all of these as a URL writes them."""
    parts = {value, *(word for word in value.split() if len(word) >= 2 * SHORTEST_MASKED)}
    forms = parts | {quote(part) for part in parts} | {quote(part, safe="") for part in parts}
    return {form for form in forms if len(form) >= SHORTEST_MASKED}
