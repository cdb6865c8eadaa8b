"""What a client may send: strict about types and names, so that nothing is guessed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.selectors.named import nearest


class Text(serializers.CharField):
    """Text; a number is not text."""

    default_error_messages = {
        "invalid": "it is not text: send a string",
        "max_length": "it is too long: use up to {max_length} characters",
    }

    def __init__(self, **options: Any) -> None:
        options.setdefault("trim_whitespace", False)
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> str:
        """The text as it stands."""
        if not isinstance(data, str):
            self.fail("invalid")
        return data


class Flag(serializers.BooleanField):
    """True or false, and nothing that only looks like it."""

    default_error_messages = {"invalid": "it is neither true nor false: send true or false"}

    def to_internal_value(self, data: Any) -> bool:
        """The truth value."""
        if not isinstance(data, bool):
            self.fail("invalid")
        return data


class Number(serializers.FloatField):
    """A number within bounds; text is no number."""

    default_error_messages = {
        "invalid": "it is not a number: send a number",
        "min_value": "it is too small: use {min_value} or more",
        "max_value": "it is too large: use {max_value} or less",
    }

    def to_internal_value(self, data: Any) -> float:
        """The number."""
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        try:
            return float(data)
        except OverflowError:
            self.fail("invalid")


class Choice(serializers.ChoiceField):
    """One of a few words."""

    default_error_messages = {"invalid_choice": "there is no such choice: use one of {words}"}

    def to_internal_value(self, data: Any) -> str:
        """The word."""
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice", words=", ".join(map(str, self.choices)))
        return data


class Instant(serializers.DateTimeField):
    """A moment with its time zone."""

    default_error_messages = {
        "invalid": "it is no moment with a time zone: write it as 2026-06-01T12:00:00Z",
    }

    def to_internal_value(self, value: Any) -> datetime:
        """The moment, in UTC."""
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                self.fail("invalid")
            return moment.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            self.fail("invalid")


@extend_schema_field({"type": "object", "additionalProperties": {}})
class Object(serializers.JSONField):
    """A map of names to whatever values."""

    default_error_messages = {"invalid": "it is not an object: send a JSON object"}

    def to_internal_value(self, data: Any) -> Any:
        """The map."""
        if not isinstance(data, dict):
            self.fail("invalid")
        return data


class Names(serializers.ListField):
    """A list of names."""

    child = Text(max_length=200)
    default_error_messages = {"not_a_list": "it is not a list: send a list of names"}

    def to_internal_value(self, data: Any) -> Any:
        """The names; a map or text is no list."""
        if not isinstance(data, list):
            self.fail("not_a_list", input_type=type(data).__name__)
        return super().to_internal_value(data)


class Said(serializers.Serializer[Any]):
    """A request's body. A field that is not known is an error that names the nearest one."""

    default_error_messages = {"null": "it is not an object: send a JSON object"}

    def to_internal_value(self, data: Any) -> Any:
        """The validated values by name."""
        if not isinstance(data, Mapping):
            raise serializers.ValidationError({"non_field_errors": ["it is not an object: send a JSON object"]})
        for name in data:
            if name not in self.fields:
                raise serializers.ValidationError({name[:100]: _unknown(name, list(self.fields))})
        return super().to_internal_value(data)


def _unknown(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    mend = f"did you mean {near}?" if near else f"use {', '.join(known)}" if known else "send no body"
    return f"there is no such field: {mend}"
