"""The one shape of an error: what is wrong, at which field if at one, and how to mend it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, UnreadablePostError
from rest_framework import exceptions
from rest_framework.response import Response

from controlplane.selectors.named import Unknown
from controlplane.services.errors import Refused

SCHEMA = "/api/v1/schema/"
RETRY_AFTER_S = 2

log = structlog.get_logger(__name__)


@dataclass
class Problem(Exception):
    """An answer that is an error."""

    status: int
    code: str
    message: str
    mend: str
    field: str | None = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """As it is sent."""
        said = {"code": self.code, "field": self.field, "message": self.message, "mend": self.mend}
        return {"error": said}


def bad_field(where: str, message: str, mend: str) -> Problem:
    """One field of the request is wrong."""
    return Problem(422, "bad_field", message, mend, where)


def too_large(most: int) -> Problem:
    """The body is over the limit."""
    return Problem(413, "too_large", f"the body is over {most} bytes", "send less at once")


def answer(error: Exception, problem: Problem, *, path: str) -> Response:
    """The response; what should not have happened is logged with its trace."""
    if problem.status >= 500:
        log.error("request_failed", path=path, exc_info=error)
    return Response(problem.body(), status=problem.status, headers=dict(problem.headers))


def told(error: Exception) -> Problem:
    """An exception in the one shape."""
    match error:
        case Problem():
            return error
        case Refused():
            return _refused(error)
        case Unknown():
            return Problem(404, "not_found", error.message, error.mend)
        case Http404() | exceptions.NotFound():
            return Problem(404, "not_found", "there is nothing at this address", f"look it up in {SCHEMA}")
        case exceptions.ValidationError():
            return _invalid(error.detail)
        case exceptions.APIException():
            return _of_the_framework(error)
        case RequestDataTooBig():
            return too_large(0)
        case SuspiciousOperation() | UnreadablePostError():
            return Problem(400, "bad_request", "this request cannot be read", "send it again, simpler")
        case OperationalError() | InterfaceError():
            return _unavailable()
        case DataError():
            return Problem(422, "bad_field", "the database does not take a value", "leave out what is unusual in it")
    return Problem(500, "internal", "this should not have happened", "tell whoever runs this control plane")


_CONFLICTS = frozenset({
    "edited", "exists", "in_use", "last_admin", "moved", "not_acknowledged", "not_held", "not_open", "not_probed",
    "not_waiting", "not_yours", "no_probe", "own_change", "pending", "self", "token_reused",
})  # fmt: skip
"""Refusals that lie in how things stand, not in what was said."""

_HEADERS = {"token": "Idempotency-Key"}


def _refused(error: Refused) -> Problem:
    where = _HEADERS.get(error.field, error.field) if error.field else None
    return Problem(409 if error.code in _CONFLICTS else 422, error.code, error.message, error.mend, where)


def _unavailable() -> Problem:
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return Problem(503, "unavailable", "the database does not answer", "try again in a moment", headers=headers)


def _of_the_framework(error: exceptions.APIException) -> Problem:
    match error:
        case exceptions.MethodNotAllowed():
            return Problem(405, "bad_method", "this address does not take that method", f"look it up in {SCHEMA}")
        case exceptions.NotAuthenticated():
            return unauthenticated("nobody is signed in")
    return Problem(error.status_code, "bad_request", str(error.detail), f"look it up in {SCHEMA}")


def unauthenticated(message: str, code: str = "unauthenticated", mend: str = "") -> Problem:
    """Nobody that is known here."""
    mend = mend or "send Authorization: Bearer rcp_… with a token of yours"
    return Problem(401, code, message, mend, headers={"WWW-Authenticate": "Bearer"})


_WORDS = {
    "required": ("it is missing", "send it"),
    "null": ("it may not be null", "give a value, or leave it out"),
    "blank": ("it is empty", "give some text"),
    "empty": ("it is empty", "give at least one"),
    "null_characters_not_allowed": ("it holds a NUL character", "leave that out"),
    "surrogate_characters_not_allowed": ("it holds half a character", "send it as UTF-8"),
}
"""The framework's errors by code, in our words; all others bring message and mend with them, `: ` between."""


def _invalid(detail: Any) -> Problem:
    where, leaf = _first(detail)
    message, mend = _WORDS.get(getattr(leaf, "code", ""), ("", ""))
    if not message:
        message, _, mend = str(leaf).rstrip(".").partition(": ")
    return Problem(422, "bad_field", message, mend or f"see {SCHEMA}", where or None)


def _first(detail: Any, where: str = "") -> tuple[str, Any]:
    """The first error and the way to it."""
    if isinstance(detail, Mapping):
        name, inner = next(iter(detail.items()))
        return _first(inner, _step(where, name))
    if isinstance(detail, list | tuple):
        place, inner = next(((place, one) for place, one in enumerate(detail) if one), (0, "it is wrong"))
        return _first(inner, f"{where}[{place}]" if isinstance(inner, Mapping | list) else where)
    return where, detail


def _step(where: str, name: Any) -> str:
    if name == "non_field_errors":
        return where
    if isinstance(name, int):
        return f"{where}[{name}]"
    return f"{where}.{name}" if where else str(name)
