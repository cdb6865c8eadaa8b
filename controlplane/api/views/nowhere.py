"""Addresses that are none."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request

from controlplane.api.base import Face
from controlplane.api.errors import Problem


class Nowhere(Face):
    """Nothing is here, and that is said in the one shape."""

    noun, inside = "nothing", None
    permission_classes = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Whoever asks, and whatever for."""
        super().initial(request, *args, **kwargs)
        slash = "leave out the slash at its end" if request.path.endswith("/") else "look it up in /api/v1/schema/"
        raise Problem(404, "not_found", "there is nothing at this address", slash)
