"""Runs: those that lacked a tool first, one run in full, and why a tool was not there."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse

from controlplane.delivery import resolve
from controlplane.models import Environment, Run
from controlplane.selectors import board, circuits
from controlplane.selectors import runs as selector
from controlplane.selectors.runs import Filter
from controlplane.selectors.why import address
from dashboard import addresses, places, rows, spans, told
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
    with circuits.snapshot() as now:
        wanted, words = filtered(request, environment, now)
        by, ordered = addresses.order(request, selector.COLUMNS)
        place = addresses.key(request, by, selector.COLUMNS)
        found = selector.runs(environment, wanted, by=by, after=place)
        words |= ordered
        context = {
            "found": found,
            "rows": rows.of_runs(found.runs, now),
            "wanted": wanted,
            "words": words,
            "tabs": [(label, addresses.query(words, show=show), show == wanted.show) for show, label in SHOWS],
            "by": by,
            "next": addresses.query(words, **addresses.place(found.after)) if found.after else "",
            "first": addresses.query(words) if place else "",
            "agents": board.agents(environment),
            "task_kinds": selector.task_kinds(environment),
            "statuses": STATUSES,
            "withins": spans.choices(),
            "now": now,
        }
        return respond(request, "runs", places.frame(environment, "runs", **context))


def filtered(request: HttpRequest, environment: Environment, now: datetime) -> tuple[Filter, dict[str, str]]:
    """The filter, and the same as the address has it."""
    span = spans.read(request.GET, now)
    values = {
        "show": addresses.choice(request, "show", dict(SHOWS), "degraded"),
        "status": addresses.choice(request, "status", STATUSES),
        **{name: addresses.text(request, name) for name in ("agent", "task_kind", "tool", "dependency")},
    }
    return Filter(**values, since=span.since, until=span.until), {
        "environment": environment.slug,
        **values,
        **span.words,
    }


@needs()
def run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """What it lacked and why, what replaced it, whether it said so; its steps, its time and, apart, its money."""
    with circuits.snapshot() as now:
        page = selector.page(run_id)
        if page is None:
            raise _unknown()
        notice = told.notice(page.run, resolve.published(page.run.environment_id))
        context = places.frame(page.run.environment, "runs", page=page, run=page.run, notice=notice, now=now)
        return respond(request, "run", context)


@needs()
def why(request: HttpRequest, run_id: UUID, tool: str) -> HttpResponse:
    """Why one tool was not there, in words, with what shows it."""
    with circuits.snapshot() as now:
        row = Run.objects.filter(pk=run_id).select_related("environment", "agent", "worker").first()
        if row is None:
            raise _unknown()
        found = selector.why(row, tool)
        context = {"why": found, "run": row, "tool": tool, "here": _standing(row, found, now), "now": now}
        context["address"] = address(row.pk, tool)
        return respond(request, "why", places.frame(row.environment, "runs", **context))


def _standing(run: Run, found: selector.Why, now: datetime) -> Any:
    """How the circuit behind it stands at present."""
    slug = str(found.lack.get("dependency") or "") if found.lack else ""
    row = circuits.find(run.environment, slug) if slug else None
    if row is None:
        return None
    tools = row.dependency.tools.all()
    policy = board.policy_of(row.dependency.pk, tools, resolve.published(run.environment_id))
    return circuits.standing(row, policy.delivery, now)


def _unknown() -> Http404:
    return Http404("There is no such run; runs are kept for a limited time.")
