"""The Board: what needs a human first."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from redis.exceptions import RedisError

from controlplane import redis_clients
from controlplane.selectors import board as selector
from dashboard import cells, places
from dashboard.access import needs
from dashboard.respond import respond


@needs()
def board(request: HttpRequest) -> HttpResponse:
    """All of one environment at one moment; as a page, or as the part that changes."""
    environment = places.chosen(request)
    if environment is None:
        return respond(request, "empty", places.frame(None, "board"), part="page")
    found = selector.board(environment, evidence_store_up=evidence_store_up())
    grid = cells.parts(request, environment.slug, found.fleet)
    return respond(request, "board", places.frame(environment, "board", board=found, grid=grid, now=found.now))


def evidence_store_up() -> bool:
    """Whether Redis answers; without it windows are recounted from rows."""
    try:
        return bool(redis_clients.blocking().ping())
    except (RedisError, OSError):
        return False
