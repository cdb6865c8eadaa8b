"""What the lists show, as files for a spreadsheet: with the filters and the order of the address, whole."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase

from controlplane import clock
from controlplane.models import AuditEntry, Environment, Outage
from controlplane.selectors import lists, people, runs, trips
from controlplane.selectors.keyset import Walk
from controlplane.selectors.lines import RunLine, TripLine
from dashboard import addresses, places
from dashboard.access import needs
from dashboard.tables import ROWS, Cells, export
from dashboard.templatetags.recloser_ui import trip_line
from dashboard.views import people as people_pages
from dashboard.views import runs as run_pages
from dashboard.views import trips as trip_pages


def _here(request: HttpRequest) -> Environment:
    environment = places.chosen(request)
    if environment is None:
        raise Http404("There is no environment yet.")
    return environment


TRIPS = (
    *("id", "at", "scope", "signal", "tool", "dependency", "agent", "worker", "run", "step", "delivery", "action"),
    *("evidence", "false_trip_at", "false_trip_by"),
)


@needs()
def export_trips(request: HttpRequest) -> HttpResponseBase:
    """Openings and withdrawals."""
    here = _here(request)
    wanted, _ = trip_pages.filtered(request, here, clock.now())
    by, _ = addresses.order(request, trips.COLUMNS)
    walk = Walk(lambda after: trips.trips(here, wanted, by=by, after=after, limit=ROWS))
    return export(request, f"trips-{here.slug}", TRIPS, (map(_of_trip, page.trips) for page in walk))


def _of_trip(row: TripLine) -> Cells:
    what = (row.pk, row.at, row.scope, row.signal, row.tool, row.dependency)
    return (
        *what,
        row.agent,
        row.worker,
        row.run,
        row.step,
        row.delivery,
        row.action,
        trip_line(row),
        row.false_trip_at,
        row.false_trip_by,
    )


RUNS = (
    *("id", "started_at", "ended_at", "agent", "task_kind", "status", "degraded", "disclosed", "lacked", "steps"),
    *("step_limit", "tool_seconds", "model_seconds", "tokens", "cost", "parent"),
)


@needs()
def export_runs(request: HttpRequest) -> HttpResponseBase:
    """Runs; time and money apart."""
    here = _here(request)
    wanted, _ = run_pages.filtered(request, here, clock.now())
    by, _ = addresses.order(request, runs.COLUMNS)
    walk = Walk(lambda after: runs.runs(here, wanted, by=by, after=after, limit=ROWS))
    return export(request, f"runs-{here.slug}", RUNS, (map(_of_run, page.runs) for page in walk))


def _of_run(row: RunLine) -> Cells:
    lacked = "; ".join(dict.fromkeys(str(one.get("tool", "?")) for one in runs.lacks(row)))
    who = (row.pk, row.started_at, row.ended_at, row.agent, row.task_kind, row.status)
    what = (row.degraded, row.disclosed, lacked, row.steps, row.step_limit)
    return (*who, *what, row.tool_seconds, row.model_seconds, row.tokens, row.cost, row.parent)


AUDIT = ("id", "at", "actor", "action", "target", "accepted", "reason", "hash")


@needs()
def export_audit(request: HttpRequest) -> HttpResponseBase:
    """What people did and were refused; what belongs to no environment is for admins, as on the page."""
    here = _here(request)
    wanted, _ = people_pages.filtered(request, here, clock.now())
    oldest = request.GET.get("order") == "id"
    walk = Walk(lambda after: people.audit(here, wanted, oldest=oldest, below=after, limit=ROWS))
    return export(request, f"audit-{here.slug}", AUDIT, (map(_of_entry, page.entries) for page in walk))


def _of_entry(row: AuditEntry) -> Cells:
    return (row.id, row.at, row.actor, row.action, row.target, row.accepted, row.reason, row.hash)


OUTAGES = ("id", "dependency", "started_at", "ended_at", "seconds", "cause", "locked_out_at")


@needs()
def export_outages(request: HttpRequest) -> HttpResponseBase:
    """Episodes of circuits, newest first; of one dependency, or of all."""
    here = _here(request)
    rows = lists.outages().filter(circuit__environment=here)
    if wanted := addresses.text(request, "dependency"):
        rows = rows.filter(circuit__dependency__slug=wanted)
    ids = list(rows.order_by("-started_at", "-id").values_list("pk", flat=True))
    return export(request, f"outages-{here.slug}", OUTAGES, _outages(ids))


def _outages(ids: list[int]) -> Iterator[Iterator[Cells]]:
    for start in range(0, len(ids), ROWS):
        part = ids[start : start + ROWS]
        found = lists.outages().in_bulk(part)
        yield (_of_outage(found[key]) for key in part if key in found)


def _of_outage(row: Outage) -> Cells:
    seconds = (row.ended_at - row.started_at).total_seconds() if row.ended_at else None
    return (row.pk, row.circuit.dependency.slug, row.started_at, row.ended_at, seconds, row.cause, row.locked_out_at)
