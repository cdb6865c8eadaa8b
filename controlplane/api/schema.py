"""The API's own description: OpenAPI 3.1, drawn from the views, the same for everybody."""

from __future__ import annotations

import functools
import inspect
import json
import threading
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.settings import patched_settings
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from controlplane.api.permissions import needed

SETTINGS = {
    "OAS_VERSION": "3.1.0",
    "TITLE": "Recloser operator API",
    "DESCRIPTION": "Everything that operators see and do, for scripts and for people with curl. See docs/api.md.",
    "VERSION": settings.VERSION,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_ADD_EXPLICIT_BLANK_NULL_CHOICE": False,
    "POSTPROCESSING_HOOKS": ["controlplane.api.schema.tighten"],
    "AUTHENTICATION_WHITELIST": None,
    "PATH_CONVERTER_OVERRIDES": {"segment": {"type": "string", "minLength": 1, "maxLength": 600}},
    "ENABLE_DJANGO_DEPLOY_CHECK": False,
}


class ErrorDetail(serializers.Serializer[Any]):
    """What is wrong, and how to mend it."""

    code = serializers.CharField(help_text="One word that stays the same from version to version.")
    field = serializers.CharField(allow_null=True, help_text="The field, parameter or header at fault.")
    message = serializers.CharField()
    mend = serializers.CharField()


class Error(serializers.Serializer[Any]):
    """The one shape of every error."""

    error = ErrorDetail()


_IF_MATCH, _IF_MATCH_IF_ANY = (
    OpenApiParameter(
        "If-Match",
        str,
        OpenApiParameter.HEADER,
        required=required,
        description="The ETag of what you have read and now edit.",
    )
    for required in (True, False)
)
_IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    {"type": "string", "enum": ["*"]},
    OpenApiParameter.HEADER,
    description="Refuse where there is one already.",
)
_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 100},
    OpenApiParameter.HEADER,
    description="Sent again with the same key, the action is not taken again.",
)
_ETAG = OpenApiParameter("ETag", str, OpenApiParameter.HEADER, response=[200], description="The version shown.")


class Described(AutoSchema):
    """An operation as the view's contract has it."""

    view: Any

    def get_operation_id(self) -> str:
        """`list_tools`, `edit_tool`, `force_close`."""
        return str(self.view.operation(self.method))

    def get_tags(self) -> list[str]:
        """By the view's module."""
        return [type(self.view).__module__.rpartition(".")[2]]

    def get_description(self) -> str:  # type: ignore[override]
        """The docstring, and who may."""
        permission = needed(self.view, self.method).rpartition(".")[2]
        said = super().get_description() if self._contract() else inspect.getdoc(type(self.view)) or ""
        return f"{said}\n\nNeeds `{permission}`."

    def get_override_parameters(self) -> list[Any]:
        """Headers that matter."""
        contract = self._contract()
        if contract is None:
            return [] if self._is_list_view() else [_ETAG]
        if contract.conditional:
            conditions = [_IF_MATCH_IF_ANY, _IF_NONE_MATCH] if contract.may_be_first else [_IF_MATCH]
            return [*conditions, *([_ETAG] if contract.gives else [])]
        return [_KEY] if contract.keyed else []

    def get_request_serializer(self) -> Any:
        """What the method takes."""
        contract = self._contract()
        return contract.takes if contract else None

    def get_response_serializers(self) -> Any:
        """What the method gives; every error has one shape."""
        contract = self._contract()
        if contract is None:
            found = {200: self.view.shape}
        elif contract.gives is None:
            found = {204: None}
        else:
            found = {contract.status: contract.gives}
        return found | {"default": OpenApiResponse(Error, "Why not, and how to mend it.")}

    def get_serializer_name(self, serializer: Any, direction: Any) -> str:
        """`Tool` for ToolOut."""
        return type(serializer).__name__.removesuffix("Out")

    def get_paginated_name(self, serializer_name: str) -> str:
        """`ToolPage`."""
        return f"{serializer_name}Page"

    def _is_list_view(self, serializer: Any = None) -> bool:
        return self.method == "GET" and hasattr(self.view, "orders")

    def _contract(self) -> Any:
        return getattr(getattr(self.view, self.method.lower(), None), "contract", None)


def tighten(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """What is given is given whole; what is taken has no other fields."""
    taken = {_referred(content) for operation in _operations(result) for content in _bodies(operation)}
    for name, component in result["components"]["schemas"].items():
        component["title"] = name
        if name in taken:
            component["additionalProperties"] = False
        elif "properties" in component:
            component["required"] = sorted(component["properties"])
    return json.loads(json.dumps(result, default=str), object_hook=_without_marks)  # type: ignore[no-any-return]


def _operations(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for methods in result["paths"].values() for operation in methods.values()]


def _bodies(operation: dict[str, Any]) -> list[dict[str, Any]]:
    return list(operation.get("requestBody", {}).get("content", {}).values())


def _referred(content: dict[str, Any]) -> str:
    return str(content["schema"].get("$ref", "")).rpartition("/")[2]


def _without_marks(found: dict[str, Any]) -> dict[str, Any]:
    found.pop("x-spec-enum-id", None)
    return found


_making = threading.Lock()


@functools.cache
def _drawn() -> bytes:
    from controlplane.api import urls

    patterns = [path("api/v1/", include(urls.described))]
    with patched_settings(SETTINGS):
        generator: Any = SchemaGenerator(patterns=patterns)  # type: ignore[no-untyped-call]
        drawn = generator.get_schema(request=None, public=True)
    return json.dumps(drawn, default=str).encode()


def document() -> bytes:
    """The whole description as JSON; drawn once a process."""
    with _making:
        return _drawn()


@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    """Open to everybody: it holds nothing but what the source says."""
    return HttpResponse(document(), content_type="application/vnd.oai.openapi+json;version=3.1")
