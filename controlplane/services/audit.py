"""The audit: append-only, one linear chain of hashes. Record before a version row is locked."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from django.db import connection, transaction
from django.db.models import Model

from controlplane import clock
from controlplane.models import AuditAnchor, AuditEntry, Environment
from controlplane.services.errors import Refused

P = ParamSpec("P")
T = TypeVar("T")

CHAIN = 7_265_636_002
"""The advisory lock that orders the chain; held until the caller's transaction ends."""

through: ContextVar[str] = ContextVar("through", default="")
"""What the actor acts through, where it is not the dashboard: the token by its prefix. It goes into each entry."""

_INSERT = """
INSERT INTO audit_entry (at, environment_id, actor, action, target, accepted, reason, detail, previous_hash, hash)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


@transaction.atomic
def record(
    *,
    actor: str,
    action: str,
    target: str,
    accepted: bool,
    environment_id: int | None = None,
    reason: str = "",
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Append one entry, in the caller's transaction if there is one: it stands or falls with what it records."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CHAIN])
        previous = _last_hash()
        plain = json.loads(json.dumps({**(detail or {}), **_through()}, default=str))
        entry = [clock.now(), environment_id, actor, action, target[:500], accepted, reason[:1000], plain, previous]
        values = [*entry[:7], json.dumps(plain), previous, _hash(*entry)]
        cursor.execute(_INSERT, values)


_within: ContextVar[bool] = ContextVar("within", default=False)
"""Whether a service that another service calls is at work: what it refuses is the outer one's refusal."""

_SUBJECTS = (
    *("tool", "dependency", "key", "worker", "channel", "trip", "delivery_id", "agent", "person", "token"),
    *("network", "slug", "name", "username", "environment"),
)
"""Arguments by which services name what they are about, the most telling first.

Never an address: it may hold a secret, and be refused for just that.
"""


def refusals(
    action: str, *, target: Callable[[Mapping[str, Any]], str] | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Whatever the service refuses is on record, once, after its own transaction is undone: decorate outermost."""

    def wrap(service: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(service)
        def recorded(*args: P.args, **kwargs: P.kwargs) -> T:
            if _within.get():
                return service(*args, **kwargs)
            held = _within.set(True)
            try:
                return service(*args, **kwargs)
            except Refused as refused:
                _record_refusal(action, refused, kwargs, (target or _subject)(kwargs))
                raise
            finally:
                _within.reset(held)

        return recorded

    return wrap


def _record_refusal(action: str, refused: Refused, given: Mapping[str, Any], target: str) -> None:
    record(
        actor=str(given.get("actor") or given.get("person") or ""),
        action=action,
        target=_printable(target),
        accepted=False,
        environment_id=_environment_id(given),
        reason=_printable(refused.message),
        detail={"code": refused.code, "field": refused.field},
    )


def _subject(given: Mapping[str, Any]) -> str:
    subject: object = next((given[name] for name in _SUBJECTS if given.get(name)), "")
    if isinstance(subject, Model) and type(subject).__str__ is Model.__str__:
        return str(getattr(subject, "name", subject.pk))
    return str(subject)


def _environment_id(given: Mapping[str, Any]) -> int | None:
    for value in given.values():
        if isinstance(value, Environment):
            return value.pk
        if (found := getattr(value, "environment_id", None)) is not None:
            return int(found)
    return None


def _printable(text: str) -> str:
    """As Postgres takes it: what was refused may be no text that it would."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:1000])


def _through() -> dict[str, str]:
    return {"through": named} if (named := through.get()) else {}


def _last_hash() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT hash FROM audit_entry ORDER BY id DESC LIMIT 1")
        row = cursor.fetchone()
    return row[0] if row else _anchor()


def _anchor() -> str:
    anchor = AuditAnchor.objects.order_by("-last_id").first()
    return anchor.hash if anchor else ""


def _hash(
    at: datetime,
    environment_id: int | None,
    actor: str,
    action: str,
    target: str,
    accepted: bool,
    reason: str,
    detail: Any,
    previous: str,
) -> str:
    told = [at.astimezone(UTC).isoformat(), environment_id, actor, action, target, accepted, reason, detail, previous]
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a walk along the chain found."""

    entries: int
    broken_at: int | None
    """Id of the first entry that does not fit; None if all do."""


def verify() -> Verdict:
    """Walk the whole chain from the last dropped entry on: each hash covers its entry and the one before it."""
    previous, walked = _anchor(), 0
    for entry in _entries():
        if entry.previous_hash != previous or entry.hash != _hash_of(entry):
            return Verdict(walked, entry.id)
        previous, walked = entry.hash, walked + 1
    return Verdict(walked, None)


def _entries() -> Iterator[AuditEntry]:
    return AuditEntry.objects.order_by("id").iterator(chunk_size=2000)


def _hash_of(entry: AuditEntry) -> str:
    return _hash(
        entry.at,
        entry.environment_id,
        entry.actor,
        entry.action,
        entry.target,
        entry.accepted,
        entry.reason,
        entry.detail,
        entry.previous_hash,
    )
