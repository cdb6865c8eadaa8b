"""People who sign in: added, given a role, switched off and on again; each with a reason to trust the audit."""

from __future__ import annotations

import secrets

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from controlplane import clock
from controlplane.models import PersonalToken, User
from controlplane.models.access import Role
from controlplane.services import audit
from controlplane.services.errors import Refused

PASSWORD_BYTES = 15
"""Twenty characters: typed once, then changed."""


@audit.refusals("add_person")
@transaction.atomic
def add(*, username: str, role: str, actor: str, email: str = "") -> tuple[User, str]:
    """A new person, and a first password, which is shown this once and stored nowhere in clear."""
    _demand_name(username)
    _demand_role(role)
    _demand_email(email)
    if User.objects.filter(username__iexact=username).exists():
        raise Refused("exists", f"there is a {username[:60]} already", "choose another name", "username")
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    person = User(username=username, role=role, email=email)
    person.set_password(password)
    person.save(force_insert=True)
    _audit("add_person", person, actor, role=role)
    return person, password


@audit.refusals("change_role")
@transaction.atomic
def change_role(*, person: User, role: str, actor: str) -> bool:
    """Trust a person with something else; False if the role was that already."""
    _demand_role(role)
    row = _locked(person)
    if row.role == role:
        return False
    if row.role == Role.ADMIN:
        _demand_another_admin(row)
    before, row.role = row.role, role
    row.save(update_fields=["role"])
    _audit("change_role", row, actor, role=role, before=before)
    return True


@audit.refusals("switch_off_person")
@transaction.atomic
def switch_off(*, person: User, actor: str) -> bool:
    """End a person's access at once, sign-ins and tokens for good; what they did stays on record."""
    row = _locked(person)
    if not row.is_active:
        return False
    if row.get_username() == actor:
        raise Refused("self", "this is your own account", "ask another admin to switch it off")
    _demand_another_admin(row)
    row.is_active = False
    row.save(update_fields=["is_active"])
    ended = PersonalToken.objects.filter(user=row, revoked_at=None).update(revoked_at=clock.now())
    _end_sign_ins(row)
    _audit("switch_off_person", row, actor, tokens_revoked=ended)
    return True


def _end_sign_ins(row: User) -> None:
    """For good: whoever is switched on again signs in anew."""
    alive = Session.objects.filter(expire_date__gt=clock.now())
    theirs = [one.pk for one in alive.iterator() if one.get_decoded().get(SESSION_KEY) == str(row.pk)]
    Session.objects.filter(pk__in=theirs).delete()


@transaction.atomic
def switch_on(*, person: User, actor: str) -> bool:
    """Let a person in again, with the old password and role; tokens they make anew."""
    row = _locked(person)
    if row.is_active:
        return False
    row.is_active = True
    row.save(update_fields=["is_active"])
    _audit("switch_on_person", row, actor)
    return True


@transaction.atomic
def new_password(*, person: User, actor: str) -> str:
    """A new password in place of a lost one, shown this once; every sign-in with the old one ends."""
    row = _locked(person)
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    row.set_password(password)
    row.save(update_fields=["password"])
    _audit("new_password", row, actor)
    return password


def _locked(person: User) -> User:
    """The row as it stands; all admins are locked in order, so that two of them cannot end each other."""
    list(User.objects.filter(role=Role.ADMIN).select_for_update(no_key=True).order_by("pk"))
    return User.objects.select_for_update(no_key=True).get(pk=person.pk)


def _demand_another_admin(row: User) -> None:
    others = User.objects.filter(role=Role.ADMIN, is_active=True).exclude(pk=row.pk)
    if row.role == Role.ADMIN and row.is_active and not others.exists():
        raise Refused("last_admin", "nobody else is an admin", "make somebody else an admin first", "role")


def _demand_name(username: str) -> None:
    try:
        UnicodeUsernameValidator()(username)
        fits = len(username) <= 150
    except ValidationError:
        fits = False
    if not fits:
        mend = "use up to 150 letters, digits and @ . + - _"
        raise Refused("bad_field", "that is no name to sign in with", mend, "username")


def _demand_role(role: str) -> None:
    if role not in Role.values:
        raise Refused("bad_field", "there is no such role", f"use one of {', '.join(Role.values)}", "role")


def _demand_email(email: str) -> None:
    try:
        if email:
            validate_email(email)
    except ValidationError:
        raise Refused("bad_field", "this is not an e-mail address", "write it as name@host", "email") from None


def _audit(action: str, person: User, actor: str, **detail: object) -> None:
    audit.record(actor=actor, action=action, target=person.get_username(), accepted=True, detail=detail)
