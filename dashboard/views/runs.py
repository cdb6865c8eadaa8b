"""Runs: those that lacked a tool first, and one run in full."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse

from controlplane.models import Environment
from controlplane.selectors import board, circuits
from controlplane.selectors import runs as selector
from controlplane.selectors.runs import Filter, Key
from dashboard import places
from dashboard.access import needs
from dashboard.respond import respond

SHOWS = (("degraded", "Degraded"), ("undisclosed", "Undisclosed"), ("all", "All runs"))
STATUSES = ("running", "finished", "ended", "abandoned")


@needs()
def runs(request: HttpRequest) -> HttpResponse:
    """The list; its filters and its place are in the address."""
    environment = places.chosen(request)
    if environment is None:
        return respond(request, "empty", places.frame(None, "runs"), part="page")
    wanted = _filter(request)
    with circuits.snapshot() as now:
        found = selector.runs(environment, wanted, after=_key(request))
        context = {
            "found": found,
            "wanted": wanted,
            "tabs": [(label, _address(environment, wanted, show=show), show == wanted.show) for show, label in SHOWS],
            "next": _address(environment, wanted, **_after(found.after)) if found.after else "",
            "first": _address(environment, wanted) if request.GET.get("before") else "",
            "agents": board.agents(environment),
            "statuses": STATUSES,
            "now": now,
        }
        return respond(request, "runs", places.frame(environment, "runs", **context))


def _filter(request: HttpRequest) -> Filter:
    given = request.GET
    show = given.get("show", "degraded")
    return Filter(
        show=show if show in dict(SHOWS) else "degraded",
        agent=given.get("agent", "")[:60],
        status=given.get("status", "") if given.get("status") in STATUSES else "",
        dependency=given.get("dependency", "")[:200].replace("\x00", ""),
    )


def _key(request: HttpRequest) -> Key | None:
    """The place in the list; an address that was cut short starts at the newest."""
    try:
        key = Key(datetime.fromisoformat(request.GET["before"]), UUID(request.GET["id"]))
    except (KeyError, ValueError):
        return None
    return key if key.started_at.tzinfo else None


def _after(key: Key) -> dict[str, str]:
    return {"before": key.started_at.isoformat(), "id": str(key.id)}


def _address(environment: Environment, wanted: Filter, **changes: str) -> str:
    values: dict[str, Any] = {
        "environment": environment.slug, "show": wanted.show, "agent": wanted.agent, "status": wanted.status,
        "dependency": wanted.dependency, **changes,
    }  # fmt: skip
    return "?" + urlencode({name: value for name, value in values.items() if value})


@needs()
def run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """What it lacked and why, what replaced it, whether it said so; its steps, its time and, apart, its money."""
    with circuits.snapshot() as now:
        page = selector.page(run_id)
        if page is None:
            raise Http404("There is no such run; runs are kept for a limited time.")
        context = places.frame(page.run.environment, "runs", page=page, run=page.run, now=now)
        return respond(request, "run", context)
