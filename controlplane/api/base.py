"""What every view of the API does the same way: who asks, about which environment, in one shape in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from rest_framework import generics
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from controlplane.api import attempts, errors, preconditions
from controlplane.api.authentication import BearerToken, Session, refuse_secrets_in_addresses
from controlplane.api.contract import Contract
from controlplane.api.errors import Problem, bad_field
from controlplane.api.fields import Said
from controlplane.api.filters import Backend
from controlplane.api.pagination import CURSOR, LIMIT, ORDERING, Keyset
from controlplane.api.parsing import StrictJson, demand_text
from controlplane.api.permissions import RoleAndScope
from controlplane.api.schema import Described
from controlplane.models import Environment, PersonalToken
from controlplane.selectors import named
from controlplane.services import audit


class AlwaysJson(BaseContentNegotiation):
    """There is one form of answer, whatever a browser or curl says it accepts."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        """The only one."""
        return parsers[0]

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        """The only one."""
        return renderers[0], renderers[0].media_type


class Face(generics.GenericAPIView[Any]):
    """One address."""

    authentication_classes = (BearerToken, Session)
    permission_classes: Any = (RoleAndScope,)
    parser_classes = (StrictJson,)
    renderer_classes = (JSONRenderer,)
    content_negotiation_class = AlwaysJson
    filter_backends: Any = ()
    pagination_class: Any = None
    metadata_class: Any = None
    schema = Described()

    noun: ClassVar[str] = ""
    inside: ClassVar[str | None] = "environment"
    """How a row leads to its environment; None for what belongs to none."""
    shape: ClassVar[type[BaseSerializer[Any]] | None] = None
    """What a GET shows of a row."""

    environment: Environment

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Everything written down meanwhile names the token that it came by."""
        before = audit.through.set("")
        try:
            return super().dispatch(request, *args, **kwargs)
        finally:
            audit.through.reset(before)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse what nobody may send, find out who asks, and about what."""
        refuse_secrets_in_addresses(request)
        _demand_json(request._request)
        super().initial(request, *args, **kwargs)
        if isinstance(request.auth, PersonalToken):
            audit.through.set(f"token {request.auth.prefix}")
        self._demand_known_parameters(request)
        if "environment" in kwargs:
            self.environment = named.environment(kwargs["environment"])
            request.environment = self.environment  # type: ignore[attr-defined]

    def handle_exception(self, exc: Exception) -> Response:
        """One shape; a rejected attempt goes on record."""
        problem = errors.told(exc)
        attempts.record(self.request, problem, action=self.operation(), environment=self.kwargs.get("environment"))
        response = errors.answer(exc, problem, path=self.request.path)
        response.exception = True
        return response

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Nothing that is seen here is kept on the way."""
        response = super().finalize_response(request, response, *args, **kwargs)
        response.setdefault("Cache-Control", "no-store, private")
        return response

    def operation(self, method: str | None = None) -> str:
        """The name of what a method does, in the schema and in the audit."""
        method = (method or self.request.method or "GET").lower()
        contract: Contract | None = getattr(getattr(self, method, None), "contract", None)
        return (contract.name if contract else "") or f"{self.verbs.get(method, method)}_{self.noun}"

    verbs: ClassVar[dict[str, str]] = {
        "get": "read", "head": "read", "post": "create", "patch": "edit", "put": "set", "delete": "remove"
    }  # fmt: skip

    def actor(self) -> str:
        """The name that goes on record."""
        return self.request.user.get_username()

    def get_queryset(self) -> QuerySet[Any]:
        """The rows of this environment, and of no other."""
        rows = super().get_queryset()
        return rows.filter(**{self.inside: self.environment}) if self.inside else rows

    def said(self, takes: type[Said] | None) -> dict[str, Any]:
        """The request's body, validated."""
        told = (takes or Said)(data=self.request.data, partial=self.request.method == "PATCH")
        told.is_valid(raise_exception=True)
        return cast(dict[str, Any], told.validated_data)

    def shown(self, contract: Contract, row: Any) -> Response:
        """What a method gives back."""
        if contract.gives is None:
            return Response(status=204)
        data = contract.gives(row, context={"request": self.request}).data
        headers = {"ETag": preconditions.etag(data)} if contract.conditional else {}
        return Response(data, status=contract.status, headers=headers)

    def _demand_known_parameters(self, request: Request) -> None:
        known = self.parameters() if request.method in attempts.READING else []
        for name in request.query_params:
            demand_text(name, "query")
            if name not in known:
                raise bad_field(name[:60], "there is no such parameter", _meant(name, known))
            if len(request.query_params.getlist(name)) > 1:
                raise bad_field(name, "it is given twice", "give it once")
            demand_text(request.query_params[name], name)

    def parameters(self) -> list[str]:
        """The query parameters of a GET."""
        return []


def _demand_json(given: HttpRequest) -> None:
    """A body, where there is one, says that it is plain JSON."""
    if given.headers.get("Content-Encoding", "identity") != "identity":
        raise Problem(415, "bad_encoding", "compressed bodies are not read here", "send it plain")
    if "Transfer-Encoding" in given.headers and not given.META.get("CONTENT_LENGTH"):
        raise Problem(411, "length_required", "the body does not say how long it is", "send Content-Length")
    if given.META.get("CONTENT_LENGTH") not in (None, "", "0") and given.content_type != StrictJson.media_type:
        raise Problem(415, "bad_type", "bodies are JSON", "send Content-Type: application/json")


def _meant(name: str, known: list[str]) -> str:
    near = named.nearest(name, known)
    return f"did you mean {near}?" if near else f"use {', '.join(known)}" if known else "leave it out"


class Many(Face):
    """A list: filtered, ordered, paged by keys."""

    filter_backends = (Backend,)
    pagination_class = Keyset
    orders: ClassVar[Mapping[str, str]] = {"id": "-pk"}
    """Name to column; the first is the list's own order, falling where a - says so."""

    def operation(self, method: str | None = None) -> str:
        """`list_agents`; anything but reading is about one of them."""
        method = (method or self.request.method or "GET").upper()
        return f"list_{_plural(self.noun)}" if method in attempts.READING else super().operation(method)

    def get(self, request: Request, **kwargs: Any) -> Response:
        """One page."""
        rows = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        assert rows is not None and self.shape is not None
        return self.get_paginated_response(self.shape(self.presented(rows), many=True).data)

    def presented(self, rows: list[Any]) -> list[Any]:
        """Rows as their shape wants them."""
        return rows

    def parameters(self) -> list[str]:
        """Filters, and how to page."""
        filterset = getattr(self, "filterset_class", None)
        return [*(filterset.base_filters if filterset else ()), LIMIT, ORDERING, CURSOR]


class One(Face):
    """One thing, found by what its address says."""

    by: ClassVar[Mapping[str, str]] = {"pk": "pk"}
    """Column to path argument."""

    def get(self, request: Request, **kwargs: Any) -> Response:
        """The thing as it stands, and its ETag."""
        data = self.represent(self.find())
        tag = preconditions.etag(data)
        if preconditions.is_unchanged(request, tag):
            return Response(status=304, headers={"ETag": tag})
        return Response(data, headers={"ETag": tag})

    def represent(self, row: Any) -> Any:
        """What a GET shows."""
        assert self.shape is not None
        return self.shape(self.presented(row)).data

    def presented(self, row: Any) -> Any:
        """A row as its shape wants it."""
        return row

    def etag(self, row: Any) -> str:
        """The name of its present version."""
        return preconditions.etag(self.represent(row))

    def condition(self) -> str | None:
        """The If-Match of an edit."""
        return preconditions.demand_condition(self.request)

    def find(self, *, lock: bool = False) -> Any:
        """The row, or an error that says what was perhaps meant; under lock it stays as it is until the end."""
        row = self._named()
        if lock:
            lock_row(row)
            row = self._named()
        return row

    def _named(self) -> Model:
        rows = self.get_queryset()
        ((column, argument),) = self.by.items()
        place = self.environment.slug if self.inside and self.inside != "slug" else "this control plane"
        if column == "pk":
            row = rows.filter(pk=self.kwargs[argument]).first()
            if row is None:
                raise Problem(404, "not_found", f"{place} has no such {self.noun.replace('_', ' ')}", "list them")
            return cast(Model, row)
        found: Model = named.one(rows, column, self.kwargs[argument], noun=self.noun, place=place)
        return found


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith(("ry", "cy")) else f"{noun}s"


def lock_row(row: Model) -> None:
    """Nobody else edits it until the transaction ends."""
    type(row)._base_manager.select_for_update(no_key=True).filter(pk=row.pk).first()
