"""Personal tokens for the operator API: issued, recognised, revoked; never worth more than their person."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from controlplane.models import PersonalToken, User
from controlplane.permissions import GRANTS
from controlplane.services import audit
from controlplane.services.errors import Refused

LONGEST_LIFE = timedelta(days=366)
USUAL_LIFE = timedelta(days=90)
USE_NOTED_EVERY = timedelta(minutes=1)

SHAPE = re.compile(r"rcp_([0-9A-Za-z]{1,16})_([0-9A-Za-z_-]{32,128})", re.ASCII)

_APP = "controlplane."


def scopes_of(person: User) -> list[str]:
    """All that a token of this person may be given."""
    return sorted(permission.removeprefix(_APP) for permission in GRANTS.get(person.role, frozenset()))


def grants(token: PersonalToken, permission: str) -> bool:
    """True if the token was given this permission and its person's role still has it."""
    return permission.removeprefix(_APP) in token.scopes and token.user.has_perm(permission)


@audit.refusals("issue_token")
@transaction.atomic
def issue(
    *, person: User, name: str, scopes: Iterable[str], now: datetime, expires_at: datetime | None = None
) -> tuple[PersonalToken, str]:
    """A new token, and its text, which is shown this once and stored nowhere."""
    _demand_name(name)
    wanted = sorted(set(scopes))
    _demand_scopes(person, wanted)
    ends = expires_at or now + USUAL_LIFE
    if not now < ends <= now + LONGEST_LIFE:
        mend = f"choose an end within {LONGEST_LIFE.days} days"
        raise Refused("bad_field", "the end is past or too far away", mend, "expires_at")
    prefix, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    token = PersonalToken.objects.create(
        user=person, name=name.strip(), prefix=prefix, digest=_digest(secret), scopes=wanted, created_at=now,
        expires_at=ends,
    )  # fmt: skip
    _audit(person.get_username(), "issue_token", token, {"name": token.name, "scopes": wanted, "expires_at": ends})
    return token, f"rcp_{prefix}_{secret}"


@transaction.atomic
def revoke(*, token: PersonalToken, actor: str, now: datetime) -> bool:
    """End a token for good; False if it had been revoked before."""
    ended = PersonalToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now)
    if ended:
        _audit(actor, "revoke_token", token, {"name": token.name})
    return bool(ended)


def authenticate(*, text: str, now: datetime) -> PersonalToken:
    """The token that this text is; Refused if it is unknown, revoked or past its end, or its person switched off."""
    token = _known(text)
    if token is None or not token.user.is_active:
        raise Refused("bad_token", "this token is not known here", "make a new one, and send it whole")
    if token.revoked_at is not None:
        raise Refused("revoked_token", f"the token {token.prefix} was revoked", "make a new one")
    if token.expires_at <= now:
        raise Refused("expired_token", f"the token {token.prefix} has expired", "make a new one")
    _note_use(token, now)
    return token


def _known(text: str) -> PersonalToken | None:
    found = SHAPE.fullmatch(text)
    if found is None:
        return None
    token = PersonalToken.objects.select_related("user").filter(prefix=found[1]).first()
    return token if token is not None and hmac.compare_digest(token.digest, _digest(found[2])) else None


def _note_use(token: PersonalToken, now: datetime) -> None:
    """To the minute, so that a busy script does not write at every request."""
    before = now - USE_NOTED_EVERY
    if token.last_used_at is None or token.last_used_at <= before:
        stale = Q(last_used_at=None) | Q(last_used_at__lte=before)
        PersonalToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)


def _demand_name(name: str) -> None:
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise Refused("bad_field", "that is no name", "say in up to 100 characters what uses it", "name")


def _demand_scopes(person: User, wanted: list[str]) -> None:
    allowed = scopes_of(person)
    if not wanted:
        raise Refused("bad_field", "the token may do nothing", f"give some of {', '.join(allowed)}", "scopes")
    for scope in wanted:
        if scope not in allowed:
            mend = f"give some of {', '.join(allowed)}"
            raise Refused("bad_field", f"a {person.role} cannot give {scope[:40]!r}", mend, "scopes")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _audit(actor: str, action: str, token: PersonalToken, detail: dict[str, object]) -> None:
    audit.record(actor=actor, action=action, target=str(token), accepted=True, detail=detail)
