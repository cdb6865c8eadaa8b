"""What a method of a view promises: who may, what it takes and gives; checked, done and described by it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from controlplane.api import preconditions
from controlplane.api.fields import Said
from controlplane.services.errors import Refused

Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Contract:
    """One method that changes something."""

    permission: str
    takes: type[Said] | None = None
    gives: type[BaseSerializer[Any]] | None = None
    status: int = 200
    name: str = ""
    """Of the operation, where it is not told by the view's noun."""
    conditional: bool = False
    """It edits: If-Match says which version."""
    may_be_first: bool = False
    """Where there is nothing yet, there is no version to name."""
    keyed: bool = False
    """It heeds Idempotency-Key."""


def writes(
    permission: str,
    *,
    takes: type[Said] | None = None,
    gives: type[BaseSerializer[Any]] | None = None,
    status: int = 200,
    name: str = "",
    keyed: bool = False,
) -> Callable[[Handler], Handler]:
    """A method that takes validated values and returns what is shown."""
    contract = Contract(permission, takes, gives, status, name, keyed=keyed)

    def wrap(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def method(view: Any, request: Request, **kwargs: Any) -> Response:
            said = view.said(takes)
            return view.shown(contract, handler(view, said))  # type: ignore[no-any-return]

        method.contract = contract  # type: ignore[attr-defined]
        return method

    return wrap


def edits(
    permission: str,
    *,
    takes: type[Said] | None = None,
    gives: type[BaseSerializer[Any]] | None = None,
    name: str = "",
    may_be_first: bool = False,
) -> Callable[[Handler], Handler]:
    """A method that takes a row under lock, whose version If-Match has named, and validated values."""
    contract = Contract(permission, takes, gives, name=name, conditional=True, may_be_first=may_be_first)

    def wrap(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def method(view: Any, request: Request, **kwargs: Any) -> Response:
            said = view.said(takes)
            condition = None if may_be_first else view.condition()
            with transaction.atomic():
                row = view.find(lock=True)
                if may_be_first:  # whether it is the first is known under the lock only
                    condition = view.condition()
                if condition is not None:
                    preconditions.demand_current(condition, view.etag(row))
                try:
                    return view.shown(contract, handler(view, row, said))  # type: ignore[no-any-return]
                except Refused as error:
                    refused = error  # what the service wrote down of it is kept: the transaction ends well
            raise refused

        method.contract = contract  # type: ignore[attr-defined]
        return method

    return wrap
