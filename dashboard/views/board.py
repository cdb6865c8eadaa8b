"""The Board: what needs a human first."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from redis.exceptions import RedisError

from controlplane import redis_clients
from controlplane.models import Environment
from controlplane.selectors import board as selector
from controlplane.selectors import narrowing
from dashboard import addresses, cells, places
from dashboard.access import needs
from dashboard.respond import is_partial, respond


@needs()
def board(request: HttpRequest) -> HttpResponse:
    """All of one environment at one moment; as a page, or as the part that changes."""
    environment = places.chosen(request)
    if environment is None:
        return respond(request, "empty", places.frame(None, "board"), part="page")
    found = selector.board(environment, evidence_store_up=evidence_store_up())
    wanted = _wanted(request)
    part = narrowing.part(found, wanted)
    grid = cells.parts(request, environment.slug, part.fleet)
    shown = {"board": found, "part": part, "wanted": wanted, "grid": grid, "now": found.now}
    return respond(request, "board", places.frame(environment, "board", **shown, **_choices(request, environment)))


def _wanted(request: HttpRequest) -> narrowing.Wanted:
    state = addresses.choice(request, "state", narrowing.STATES)
    return narrowing.Wanted(addresses.text(request, "agent"), addresses.text(request, "owner"), state)


def _choices(request: HttpRequest, environment: Environment) -> dict[str, Any]:
    """What the filter offers; a refresh keeps the form that stands there."""
    if is_partial(request):
        return {"owners": None}
    owners = narrowing.owners(environment)
    return {"owners": owners, "agents": selector.agents(environment), "states": narrowing.STATES}


def evidence_store_up() -> bool:
    """Whether Redis answers; without it windows are recounted from rows."""
    try:
        return bool(redis_clients.blocking().ping())
    except (RedisError, OSError):
        return False
