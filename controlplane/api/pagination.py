"""Lists page by keys: the cost of a page does not grow with its number, and nothing is skipped while rows arrive."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import Field, Model, Q
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from controlplane.api.errors import bad_field
from controlplane.selectors.named import nearest

USUAL, MOST = 50, 200
CURSOR, LIMIT, ORDERING = "cursor", "limit", "ordering"


@dataclass(frozen=True, slots=True)
class Order:
    """One direction along one column; the primary key breaks ties."""

    said: str
    path: str
    falling: bool

    def terms(self) -> list[str]:
        """As the database is asked."""
        sign = "-" if self.falling else ""
        return [f"{sign}{self.path}"] if self.path == "pk" else [f"{sign}{self.path}", f"{sign}pk"]

    def after(self, value: Any, key: Any) -> Q:
        """All rows behind this place."""
        beyond = "lt" if self.falling else "gt"
        if self.path == "pk":
            return Q(**{f"pk__{beyond}": key})
        tie = Q(**{self.path: value, f"pk__{beyond}": key})
        return Q(**{f"{self.path}__{beyond}e": value}) & (Q(**{f"{self.path}__{beyond}": value}) | tie)


class Keyset(BasePagination):
    """`limit`, `ordering` and the `cursor` that the page before handed on."""

    following: str | None = None

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """One page of rows; what comes next is kept for the answer."""
        order = _order(request.query_params.get(ORDERING), view.orders)
        limit = _limit(request.query_params.get(LIMIT))
        rows = queryset.order_by(*order.terms())
        if cursor := request.query_params.get(CURSOR):
            rows = rows.filter(order.after(*_read(cursor, order, queryset.model)))
        found = list(rows[: limit + 1])
        if len(found) > limit:
            place = _write(order, found[limit - 1])
            self.following = replace_query_param(request.build_absolute_uri(), CURSOR, place)
        return found[:limit]

    def get_paginated_response(self, data: Any) -> Response:
        """The page, and where the next one is."""
        headers = {"Link": f'<{self.following}>; rel="next"'} if self.following else {}
        return Response({"results": data, "next": self.following}, headers=headers)

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The page as the schema says it."""
        following = {"type": ["string", "null"], "format": "uri", "description": "The next page; null on the last."}
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {"results": schema, "next": following},
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """The parameters as the schema says them."""
        orders = [sign + name for name in view.orders for sign in ("", "-")]
        limits = {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL}
        return [
            _parameter(LIMIT, limits, "Rows a page."),
            _parameter(ORDERING, {"type": "string", "enum": orders}, "Order of the rows; - is falling."),
            _parameter(CURSOR, {"type": "string", "maxLength": 2000}, "From the `next` of the page before."),
        ]


def _parameter(name: str, schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def _order(said: str | None, orders: Mapping[str, str]) -> Order:
    """The first of a view's orders is its own, falling where its path says so."""
    if said is None:
        name, path = next(iter(orders.items()))
        falling = path.startswith("-")
        return Order(f"-{name}" if falling else name, path.lstrip("-"), falling)
    name = said.removeprefix("-")
    if name not in orders:
        near = nearest(name, orders)
        raise bad_field(ORDERING, "there is no such order", f"did you mean {near}?" if near else _choices(orders))
    return Order(said, orders[name].lstrip("-"), said.startswith("-"))


def _choices(orders: Mapping[str, str]) -> str:
    return f"use one of {', '.join(orders)}, with - for falling"


def _limit(said: str | None) -> int:
    if said is None:
        return USUAL
    if not said.isascii() or not said.isdigit() or len(said) > 4 or not 1 <= int(said) <= MOST:
        raise bad_field(LIMIT, "that is no length of a page", f"use 1 to {MOST}")
    return int(said)


def _write(order: Order, row: Model) -> str:
    value = reduce(getattr, order.path.split("__"), row)
    place = [order.said, value.isoformat() if isinstance(value, datetime) else value, row.pk]
    packed = json.dumps(place, default=str, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _read(cursor: str, order: Order, model: type[Model]) -> tuple[Any, Any]:
    """The place that a cursor names, as values of the columns it speaks of."""
    try:
        packed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        said, value, key = json.loads(packed)
        if said != order.said:
            raise bad_field(CURSOR, "this cursor belongs to another order", "start from the first page")
        return _typed(_field(model, order.path), value), _typed(_field(model, "pk"), key)
    except (ValueError, TypeError, ValidationError, RecursionError):
        raise bad_field(CURSOR, "this is no cursor of ours", "take it from the page before as it is") from None


def _field(model: type[Model], path: str) -> Field[Any, Any]:
    """The column at the end of a path of relations."""
    name, _, rest = path.partition("__")
    found = model._meta.pk if name == "pk" else model._meta.get_field(name)
    if rest and found is not None and found.related_model is not None:
        return _field(found.related_model, rest)
    if not isinstance(found, Field):
        raise FieldDoesNotExist(path)
    return found


def _typed(column: Field[Any, Any], value: Any) -> Any:
    if not isinstance(value, str | int) or isinstance(value, bool) or "\x00" in str(value):
        raise ValueError(value)
    typed = (
        datetime.fromisoformat(str(value)) if column.get_internal_type() == "DateTimeField" else column.to_python(value)
    )
    if isinstance(typed, datetime) and typed.tzinfo is None:
        raise ValueError(value)
    return typed
