"""The page of one circuit."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from controlplane.delivery import resolve
from controlplane.models import Environment
from controlplane.selectors import board, circuits, impact, readmission
from dashboard import gauges, places, policy_rows
from dashboard.access import needs
from dashboard.respond import respond


@needs()
def circuit(request: HttpRequest, environment: str, dependency: str) -> HttpResponse:
    """State, cause, timeline, probes, who is hit and what to do; as a page, or as the part that changes."""
    here = places.named(environment)
    return respond(request, "circuit", places.frame(here, "board", **contents(here, dependency)))


def contents(environment: Environment, dependency: str) -> dict[str, Any]:
    """Everything of one moment."""
    with circuits.snapshot() as now:
        row = places.circuit(environment, dependency)
        tools = list(row.dependency.tools.all())
        published = resolve.published(environment.pk)
        resolved = published.circuit(row.dependency.pk, resolve.character_of(tools))
        page = circuits.page(row=row, delivery=resolved.policy.delivery, window_s=resolved.policy.window_s, now=now)
        return {
            "page": page,
            "here": page.standing,
            "policy": resolved.policy,
            "ramp": readmission.ramp(page.standing, resolved.policy),
            "permits": readmission.permits(
                page.standing, resolved.policy, probed=bool(page.probe and page.probe.enabled)
            ),
            "policy_rows": policy_rows.of_circuit(resolved),
            "instead": board.instead(tools, published),
            "gauges": gauges.rows(page, resolved.policy),
            "gauges_of": gauges.caption(page, resolved.policy),
            "workers_since": circuits.attributed_since(page.standing, resolved.policy.window_s),
            "agents": impact.by_agent(page),
            "pattern": impact.pattern(row, now),
            "written": impact.notes(row, now),
            "now": now,
        }
