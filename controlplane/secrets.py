"""Secrets at rest: sealed under the newest of `settings.FIELD_KEYS`, readable under any of them."""

import json
from collections.abc import Mapping
from urllib.parse import quote

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

MASK = "********"
SHORTEST_MASKED = 4
"""A value shorter than this would blot out half of every text; it hides nothing either."""

_LOST = "no key in RECLOSER_FIELD_KEYS opens this secret: put the old key back, or enter it anew"


class Unreadable(Exception):
    """A stored secret that no key of this installation opens."""


def seal(text: str) -> str:
    """Encrypt; nothing stays nothing."""
    return _keys().encrypt(text.encode()).decode() if text else ""


def unseal(sealed: str) -> str:
    """The inverse of `seal`; raise Unreadable if its key is gone."""
    try:
        return _keys().decrypt(sealed.encode()).decode() if sealed else ""
    except InvalidToken:
        raise Unreadable(_LOST) from None


def seal_values(values: Mapping[str, str]) -> str:
    """Encrypt named values."""
    return seal(json.dumps(dict(values), sort_keys=True)) if values else ""


def unseal_values(sealed: str) -> dict[str, str]:
    """The inverse of `seal_values`."""
    return json.loads(unseal(sealed)) if sealed else {}


def renew(sealed: str) -> str:
    """The same secret under the newest key."""
    try:
        return _keys().rotate(sealed.encode()).decode() if sealed else ""
    except InvalidToken:
        raise Unreadable(_LOST) from None


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


def _keys() -> MultiFernet:
    try:
        return MultiFernet([Fernet(key) for key in settings.FIELD_KEYS])
    except ValueError:
        raise ImproperlyConfigured(
            "RECLOSER_FIELD_KEYS holds no usable key: give one or more Fernet keys, newest first, separated by commas"
        ) from None
