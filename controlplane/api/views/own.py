"""Whoever asks: who they are here, and their tokens; and the networks that an admin has opened."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane import clock
from controlplane.api import filters
from controlplane.api.base import Face, Many, One
from controlplane.api.contract import edits, writes
from controlplane.api.errors import Problem
from controlplane.api.fields import Instant, Names, Said, Text
from controlplane.api.permissions import may
from controlplane.models import AllowedNetwork, PersonalToken
from controlplane.permissions import ADMINISTER, VIEW
from controlplane.selectors import lists
from controlplane.services import egress, tokens


class TokenOut(serializers.ModelSerializer[PersonalToken]):
    """A personal token without its secret."""

    owner = serializers.CharField(source="user.username")
    scopes = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = PersonalToken
        fields = ("prefix", "owner", "name", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at")


class MeOut(serializers.Serializer[Any]):
    """Who asks, and what they may do here."""

    name = serializers.CharField()
    role = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField(), help_text="What this request may do.")
    token = TokenOut(allow_null=True, help_text="The token that asks; null for a session.")


class Me(Face):
    """Whoever asks."""

    noun, inside, shape = "me", None, MeOut

    def get(self, request: Request, **kwargs: Any) -> Response:
        """Name, role and scopes."""
        user: Any = request.user
        scopes = [scope for scope in tokens.scopes_of(user) if may(request, f"controlplane.{scope}")]
        token = request.auth if isinstance(request.auth, PersonalToken) else None
        return Response(MeOut({"name": self.actor(), "role": user.role, "scopes": scopes, "token": token}).data)


class TokenCreate(Said):
    """What uses it, what it may do, and until when: 90 days if nothing is said, a year at most."""

    name = Text(max_length=100)
    scopes = Names(allow_empty=False, max_length=20)
    expires_at = Instant(required=False)


class IssuedTokenOut(serializers.Serializer[Any]):
    """A new token with its text, shown this once."""

    token = TokenOut()
    secret = serializers.CharField(help_text="rcp_PREFIX_SECRET; stored as a hash only.")


class TokenFilter(django_filters.FilterSet):
    """Which tokens."""

    owner = filters.text("user__username")
    revoked = filters.IsSet("revoked_at")


class _OwnTokens:
    """A person's tokens; an admin sees everyone's, to revoke what leaked."""

    request: Any

    def get_queryset(self) -> QuerySet[PersonalToken]:
        """The tokens that whoever asks may see."""
        return lists.tokens(self.request.user, everyone=may(self.request, ADMINISTER))


class Tokens(_OwnTokens, Many):
    """Personal tokens."""

    queryset = PersonalToken.objects.all()
    noun, inside, shape = "token", None, TokenOut
    filterset_class = TokenFilter
    orders = {"created_at": "-created_at"}

    @writes(VIEW, takes=TokenCreate, gives=IssuedTokenOut, status=201, name="issue_token")
    def post(self, said: dict[str, Any]) -> dict[str, Any]:
        """Make a token of your own; its text is shown this once. Signed in only: a token makes no tokens."""
        if self.request.auth is not None:
            raise Problem(403, "session_only", "a token makes no tokens", "sign in, or use manage.py issue_token")
        token, secret = tokens.issue(person=self.request.user, **said, now=clock.now())
        return {"token": token, "secret": secret}


class OneToken(_OwnTokens, One):
    """One personal token."""

    queryset = PersonalToken.objects.all()
    noun, inside, shape = "token", None, TokenOut
    by = {"prefix": "prefix"}


class RevokeToken(OneToken):
    """The end of a token."""

    http_method_names = ["post"]

    @writes(VIEW, gives=TokenOut, name="revoke_token")
    def post(self, said: dict[str, Any]) -> PersonalToken:
        """End it for good. A token may end itself; only its person signed in, or an admin, may end another."""
        row = self.find()
        if self.request.auth is not None and row != self.request.auth and not may(self.request, ADMINISTER):
            raise Problem(403, "session_only", "a token ends no other token", "sign in")
        tokens.revoke(token=row, actor=self.actor(), now=clock.now())
        return self.find()  # type: ignore[no-any-return]


class NetworkOut(serializers.ModelSerializer[AllowedNetwork]):
    """A private range that probes and webhooks may reach."""

    class Meta:
        model = AllowedNetwork
        fields = ("id", "network", "reason", "created_at", "created_by")


class NetworkCreate(Said):
    """Which range, and what for."""

    network = Text(max_length=50)
    reason = Text(max_length=500)


class Networks(Many):
    """Private ranges that probes and webhooks of every environment may reach."""

    queryset = lists.networks()
    noun, inside, shape = "network", None, NetworkOut
    orders = {"network": "network", "created_at": "created_at"}

    @writes(ADMINISTER, takes=NetworkCreate, gives=NetworkOut, status=201, name="allow_network")
    def post(self, said: dict[str, Any]) -> AllowedNetwork:
        """Open a range such as 10.1.0.0/16."""
        return egress.allow_network(**said, actor=self.actor(), now=clock.now())


class OneNetwork(One):
    """One range."""

    queryset = lists.networks()
    noun, inside, shape = "network", None, NetworkOut
    by = {"pk": "network"}

    @edits(ADMINISTER, name="close_network")
    def delete(self, row: AllowedNetwork, said: dict[str, Any]) -> None:
        """Take a range back."""
        egress.close_network(network=row.network, actor=self.actor())
