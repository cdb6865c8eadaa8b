"""What the lists show, as files for a spreadsheet: with the filters and the order of the address, whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase

from controlplane import clock
from controlplane.models import AgentKey, AlertDelivery, AuditEntry, Environment, Outage, Worker
from controlplane.selectors import alerts, lists, people, runs, tools, trips
from controlplane.selectors.keyset import Walk
from controlplane.selectors.lines import RunLine, TripLine
from controlplane.selectors.tools import ToolRow
from dashboard import addresses, places
from dashboard.access import needs
from dashboard.tables import ROWS, Cells, export
from dashboard.templatetags.recloser_ui import trip_line
from dashboard.views import alerts as alert_pages
from dashboard.views import people as people_pages
from dashboard.views import runs as run_pages
from dashboard.views import tools as tool_pages
from dashboard.views import trips as trip_pages

Row = TypeVar("Row", bound=Model)


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
    return export(request, f"outages-{here.slug}", OUTAGES, _parts(rows.order_by("-started_at", "-id"), _of_outage))


def _parts(rows: QuerySet[Row], of: Callable[[Row], Cells]) -> Iterator[Iterator[Cells]]:
    """A list by its ids, each part of it read when it is asked for: what comes meanwhile moves nothing."""
    ids = list(rows.values_list("pk", flat=True))
    for start in range(0, len(ids), ROWS):
        part = ids[start : start + ROWS]
        found = rows.order_by().in_bulk(part)
        yield (of(found[key]) for key in part if key in found)


def _of_outage(row: Outage) -> Cells:
    seconds = (row.ended_at - row.started_at).total_seconds() if row.ended_at else None
    return (row.pk, row.circuit.dependency.slug, row.started_at, row.ended_at, seconds, row.cause, row.locked_out_at)


TOOLS = (
    *(
        "name",
        "side_effect",
        "class_confirmed",
        "costly",
        "owner",
        "operation",
        "dependencies",
        "without_it",
        "fallback",
    ),
    *("consecutive_failures", "identical_calls", "never_open", "created_at"),
)


@needs()
def export_tools(request: HttpRequest) -> HttpResponseBase:
    """Tools with what their policies come to."""
    here = _here(request)
    by, _ = tool_pages.ordered(request)
    walk = Walk(lambda after: tools.tools(here, by=by, after=after, limit=ROWS))
    return export(request, f"tools-{here.slug}", TOOLS, (map(_of_tool, page.tools) for page in walk))


def _of_tool(row: ToolRow) -> Cells:
    tool, policy = row.tool, row.policy
    behind = "; ".join(one.slug for one in tool.dependencies.all())
    what = (tool.name, tool.side_effect, tool.class_confirmed, tool.costly, tool.owner, tool.operation, behind)
    without = (policy.degraded_behaviour, policy.fallback_tool)
    return (*what, *without, policy.consecutive_failures, policy.identical_calls, policy.never_open, tool.created_at)


ALERTS = (
    *("id", "created_at", "event", "dependency", "incident", "channel", "kind", "status", "attempts", "sent_at"),
    "last_error",
)


@needs()
def export_alerts(request: HttpRequest) -> HttpResponseBase:
    """Messages to people, and what became of each."""
    here = _here(request)
    (by, _), (wanted, _) = addresses.order(request, alerts.COLUMNS), alert_pages.filtered(request, here)
    walk = Walk(lambda after: alerts.messages(here, wanted, by=by, after=after, limit=ROWS))
    return export(request, f"alerts-{here.slug}", ALERTS, (map(_of_message, page.deliveries) for page in walk))


def _of_message(row: AlertDelivery) -> Cells:
    what = (row.pk, row.created_at, row.event, row.body.get("dependency"), row.incident)
    return (*what, row.channel.name, row.channel.kind, row.status, row.attempts, row.sent_at, row.last_error)


WORKERS = (
    "agent",
    "instance",
    "first_seen_at",
    "last_seen_at",
    "quarantined_at",
    "quarantined_by",
    "quarantine_reason",
)


@needs()
def export_workers(request: HttpRequest) -> HttpResponseBase:
    """Every worker that ever reported, the latest first."""
    here = _here(request)
    rows = Worker.objects.filter(environment=here).select_related("agent").order_by("-last_seen_at", "-id")
    return export(request, f"workers-{here.slug}", WORKERS, _parts(rows, _of_worker))


def _of_worker(row: Worker) -> Cells:
    held = (row.quarantined_at, row.quarantined_by, row.quarantine_reason)
    return (row.agent.slug, row.instance, row.first_seen_at, row.last_seen_at, *held)


KEYS = ("prefix", "agent", "label", "created_at", "created_by", "last_used_at", "revoked_at", "quarantined_at")


@needs()
def export_keys(request: HttpRequest) -> HttpResponseBase:
    """Every key of an agent, never the secret."""
    here = _here(request)
    rows = AgentKey.objects.filter(environment=here).select_related("agent").order_by("-created_at", "-id")
    return export(request, f"keys-{here.slug}", KEYS, _parts(rows, _of_key))


def _of_key(row: AgentKey) -> Cells:
    when = (row.created_at, row.created_by, row.last_used_at, row.revoked_at, row.quarantined_at)
    return (row.prefix, row.agent.slug, row.label, *when)
