"""Which environment a page is about, and the frame around it."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest

from controlplane.models import Circuit, Environment
from controlplane.selectors import circuits

DEFAULT = "prod"


def chosen(request: HttpRequest) -> Environment | None:
    """The environment that the address names, else prod, else the first; None where there is none at all."""
    known = circuits.environments()
    slug = request.GET.get("environment", "")
    if slug:
        return named(slug, known)
    return next((one for one in known if one.slug == DEFAULT), known[0] if known else None)


def named(slug: str, known: Any = None) -> Environment:
    """That environment; a misspelt name is an error that lists those there are."""
    known = circuits.environments() if known is None else known
    for one in known:
        if one.slug == slug:
            return one  # type: ignore[no-any-return]
    raise Http404(f"There is no environment {slug[:60]!r}; there are {', '.join(one.slug for one in known) or 'none'}.")


def circuit(environment: Environment, dependency: str) -> Circuit:
    """The circuit of that dependency in that environment."""
    row = circuits.find(environment, dependency)
    if row is None:
        raise Http404(f"There is no dependency {dependency[:200]!r} in {environment.slug}.")
    return row


def frame(environment: Environment | None, section: str, **more: Any) -> dict[str, Any]:
    """What the base template wants to know."""
    return {"environment": environment, "environments": circuits.environments(), "section": section, **more}
