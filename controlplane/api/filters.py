"""Filters: each has a name and a type; a misspelt name of either kind is an error, never an empty list."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import django_filters
from django import forms
from django.db.models import Model, QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import extend_schema_field

from controlplane.api.errors import bad_field
from controlplane.api.lookup import given
from controlplane.models import Environment


class Backend(DjangoFilterBackend):
    """Filters by a view's `filterset_class`; the first value that cannot be used is told in our shape."""

    def filter_queryset(self, request: Any, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        """The rows that match."""
        filterset = self.get_filterset(request, queryset, view)
        if filterset is None:
            return queryset
        if not filterset.is_valid():
            where, errors = next(iter(filterset.errors.items()))
            raise bad_field(where, str(errors[0]).rstrip("."), "see /api/v1/schema/ for what it takes")
        return filterset.qs


class _MomentField(forms.CharField):
    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            moment = datetime.fromisoformat(text.replace(" ", "+"))
            if moment.tzinfo is None:
                raise ValueError
            return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            raise forms.ValidationError("it is no moment with a time zone, such as 2026-06-01T12:00:00Z") from None


@extend_schema_field({"type": "string", "format": "date-time"})
class Moment(django_filters.Filter):
    """A moment with its time zone; a + that an address turned into a blank is understood."""

    field_class = _MomentField


class _FlagField(forms.CharField):
    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if text not in ("", "true", "false"):
            raise forms.ValidationError("it is neither true nor false")
        return {"true": True, "false": False}.get(text)


@extend_schema_field({"type": "boolean"})
class Flag(django_filters.Filter):
    """`true` or `false`."""

    field_class = _FlagField


class _WholeField(forms.CharField):
    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise forms.ValidationError("it is no whole number")
        return int(text)


@extend_schema_field({"type": "integer", "minimum": 0, "maximum": 10**18 - 1})
class Whole(django_filters.Filter):
    """A whole number."""

    field_class = _WholeField


class IsSet(Flag):
    """Whether a column holds anything."""

    def __init__(self, field_name: str) -> None:
        super().__init__(field_name=field_name, lookup_expr="isnull", exclude=True)


class IsEmpty(Flag):
    """Whether a column holds nothing."""

    def __init__(self, field_name: str) -> None:
        super().__init__(field_name=field_name, lookup_expr="isnull")


class Named(django_filters.CharFilter):
    """Something of this environment by its name, which must exist."""

    def __init__(self, look_up: Callable[[Environment, str], Model], field_name: str) -> None:
        super().__init__(field_name=field_name)
        self.look_up = look_up
        self.noun = look_up.__name__

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        """The rows that belong to it."""
        if not value:
            return qs
        here: Environment = self.parent.request.environment  # type: ignore[attr-defined]
        return qs.filter(**{str(self.field_name): given(self.look_up, here, value, self.noun)})


def word(*words: str, field_name: str | None = None) -> django_filters.ChoiceFilter:
    """One of a few words."""
    return django_filters.ChoiceFilter(
        field_name=field_name,
        choices=[(each, each) for each in words],
        error_messages={"invalid_choice": f"there is no such choice; use one of {', '.join(words)}"},
    )


def text(field_name: str | None = None, lookup_expr: str = "exact") -> django_filters.CharFilter:
    """Text as it stands."""
    return django_filters.CharFilter(field_name=field_name, lookup_expr=lookup_expr, max_length=200, strip=False)


def since(field_name: str) -> Moment:
    """At or after a moment."""
    return Moment(field_name=field_name, lookup_expr="gte")


def until(field_name: str) -> Moment:
    """Before a moment."""
    return Moment(field_name=field_name, lookup_expr="lt")
