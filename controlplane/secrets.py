"""Secrets at rest: sealed under the newest of `settings.FIELD_KEYS`, readable under any of them."""

import json
from collections.abc import Mapping

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from controlplane.masking import MASK, masked

__all__ = ["MASK", "Unreadable", "masked", "renew", "seal", "seal_values", "unseal", "unseal_values"]

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


def _keys() -> MultiFernet:
    try:
        return MultiFernet([Fernet(key) for key in settings.FIELD_KEYS])
    except ValueError:
        raise ImproperlyConfigured(
            "RECLOSER_FIELD_KEYS holds no usable key: give one or more Fernet keys, newest first, separated by commas"
        ) from None
