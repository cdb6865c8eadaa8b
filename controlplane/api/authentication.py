"""Who asks: a personal token, or the dashboard's own session with its CSRF token."""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from controlplane import clock
from controlplane.api.errors import Problem, unauthenticated
from controlplane.models import PersonalToken, User
from controlplane.services import tokens
from controlplane.services.errors import Refused

_SECRET = re.compile(r"rc[pl]_[0-9A-Za-z]{1,16}_[0-9A-Za-z_-]{16,}", re.ASCII)
_NAMES = frozenset({"token", "access_token", "api_key", "apikey", "key", "secret", "authorization", "password"})


class BearerToken(BaseAuthentication):
    """`Authorization: Bearer rcp_…`"""

    def authenticate(self, request: Request) -> tuple[User, PersonalToken] | None:
        """The token's person; None where there is no such header, so that a session may speak."""
        given = request.headers.get("Authorization")
        if given is None:
            return None
        scheme, _, text = given.partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            raise unauthenticated("this is no bearer token")
        try:
            token = tokens.authenticate(text=text.strip(), now=clock.now())
        except Refused as refused:
            raise unauthenticated(refused.message, refused.code, refused.mend) from None
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """What a 401 asks for."""
        return "Bearer"


class Session(SessionAuthentication):
    """The dashboard's session; a change needs its CSRF token too."""

    def enforce_csrf(self, request: Request) -> None:
        """Refused in our shape, with the person still known for the record."""
        try:
            super().enforce_csrf(request)
        except PermissionDenied as denied:
            mend = "send the session's CSRF token as X-CSRFToken"
            raise Problem(403, "csrf", str(denied.detail), mend) from None


class _BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = BearerToken
    name = "personal_token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """As the schema says it."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "rcp_PREFIX_SECRET"}


class _SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = Session
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """As the schema says it."""
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}


def refuse_secrets_in_addresses(request: Request) -> None:
    """A secret in an address is in somebody's log by now: it is refused there, right or not."""
    names = {name.casefold() for name in request.GET}
    if names & _NAMES or _SECRET.search(request.get_full_path()):
        mend = "revoke it, for addresses are logged; send the next one as Authorization: Bearer"
        raise Problem(400, "token_in_url", "a token does not belong in an address", mend)


def without_secrets(text: str) -> str:
    """An address as it may be written down."""
    return _SECRET.sub("rc?_…", text)
