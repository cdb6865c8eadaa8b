"""Names inside a request: what a body or a filter calls by name must exist in this environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db.models import Model

from controlplane.api.errors import Problem
from controlplane.models import Environment
from controlplane.selectors import named

M = TypeVar("M", bound=Model)


def given(look_up: Callable[[Environment, str], M], here: Environment, name: str, field: str) -> M:
    """The thing of that name, or a refusal at the field that named it."""
    try:
        return look_up(here, name)
    except named.Unknown as unknown:
        raise Problem(422, f"unknown_{unknown.noun}", unknown.message, unknown.mend, field) from None
