"""What must be right before the control plane starts; each finding has an id and says how to mend it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from cryptography.fernet import Fernet
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured

from controlplane import clock

SHORTEST_KEY = 32


@register(Tags.security)
def secret_key(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Sessions and forms are signed with it."""
    hint = "Set RECLOSER_SECRET_KEY (or RECLOSER_SECRET_KEY_FILE) to 50 random characters; `make up` makes one."
    try:
        key = settings.SECRET_KEY
    except ImproperlyConfigured:
        return [Error("There is no secret key.", hint=hint, id="recloser.E001")]
    if len(key) < SHORTEST_KEY:
        return [Error(f"The secret key is shorter than {SHORTEST_KEY} characters.", hint=hint, id="recloser.E002")]
    return []


@register(Tags.database)
def database_url(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Where Postgres is."""
    hint = "Set DATABASE_URL to postgresql://user:password@host:5432/name, or …/name?host=/socket/folder."
    parts = urlsplit(settings.DATABASE_URL)
    if parts.scheme not in ("postgres", "postgresql"):
        return [Error("DATABASE_URL is no Postgres address.", hint=hint, id="recloser.E003")]
    if not parts.path.strip("/"):
        return [Error("DATABASE_URL names no database.", hint=hint, id="recloser.E004")]
    return []


@register()
def redis_url(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Where Redis or Valkey is."""
    if urlsplit(settings.REDIS_URL).scheme in ("redis", "rediss", "unix"):
        return []
    hint = "Set REDIS_URL to redis://host:6379/0, rediss://… or unix:///path/to/socket."
    return [Error("REDIS_URL is no Redis address.", hint=hint, id="recloser.E005")]


@register(Tags.security)
def field_keys(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Secrets of probes and channels are encrypted with them."""
    hint = "Set RECLOSER_FIELD_KEYS to Fernet keys, newest first, with commas between; `make up` makes one."
    if not settings.FIELD_KEYS:
        return [Warning("There is no field key: no probe or channel can keep a secret.", hint=hint, id="recloser.W001")]
    if all(_is_fernet(key) for key in settings.FIELD_KEYS):
        return []
    return [Error("A field key is not a Fernet key.", hint=hint, id="recloser.E006")]


@register(Tags.urls)
def public_url(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Links in alerts are made from it."""
    parts = urlsplit(settings.PUBLIC_URL)
    if parts.scheme in ("http", "https") and parts.hostname:
        return []
    hint = "Set RECLOSER_PUBLIC_URL to the address that people open, such as https://recloser.example.org."
    return [Error("RECLOSER_PUBLIC_URL is no web address.", hint=hint, id="recloser.E007")]


@register(Tags.urls)
def egress_proxy(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Probes and webhooks go out through it."""
    parts = urlsplit(settings.EGRESS_PROXY)
    if not settings.EGRESS_PROXY or (parts.scheme in ("http", "https") and parts.hostname):
        return []
    hint = "Set RECLOSER_EGRESS_PROXY to an address such as http://proxy.example.org:3128, or leave it out."
    return [Error("RECLOSER_EGRESS_PROXY is no proxy's address.", hint=hint, id="recloser.E009")]


@register(Tags.security)
def test_clock(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Whoever can move the clock can close every circuit."""
    if (why := clock.refusal()) is None:
        return []
    hint = "Unset RECLOSER_TEST_CLOCK; or rehearse on a database whose name begins with `test`."
    return [Error(f"RECLOSER_TEST_CLOCK is set, but {why}.", hint=hint, id="recloser.E008")]


def _is_fernet(key: str) -> bool:
    try:
        Fernet(key)
    except ValueError:
        return False
    return True
