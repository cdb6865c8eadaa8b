"""Why a tool was missing from a run, for the agents' side: the facts that the dashboard's page has in words."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.urls import NoReverseMatch, reverse

from controlplane import clock
from controlplane.models import Run, Transition, Trip
from controlplane.selectors import runs

FORMAT = 1
MISSING, THERE, NEVER_DECLARED = "missing", "there", "never_declared"


def answered(*, environment_id: int, agent_id: int, run_id: UUID, tool: str) -> dict[str, Any] | None:
    """One answer of `GET /agent/v1/why`; None where this agent has no such run."""
    run = Run.objects.filter(pk=run_id, environment=environment_id, agent=agent_id).select_related("worker").first()
    if run is None:
        return None
    found = runs.why(run, tool)
    return {
        "format": FORMAT,
        "now": clock.seconds(clock.now()),
        "run": str(run.pk),
        "status": run.status,
        "tool": tool,
        "answer": MISSING if found.lack else THERE if found.declared else NEVER_DECLARED,
        "lack": found.lack and {name: found.lack.get(name) for name in _LACK},
        "trip": _trip(found.trip),
        "children": list(found.below),
        "hold": _hold(found.transition if found.by_hand else None),
        "page": page(run.pk, tool),
    }


_LACK = ("dependency", "cause", "scope", "step", "replaced_by", "refused")


def _trip(trip: Trip | None) -> dict[str, Any] | None:
    """What took it, with the evidence against the threshold."""
    if trip is None:
        return None
    return {
        "scope": trip.scope,
        "signal": trip.signal,
        "dependency": trip.dependency.slug if trip.dependency else None,
        "evidence": trip.evidence,
        "threshold": trip.threshold,
        "policy": trip.policy,
        "at": clock.seconds(trip.at),
    }


def _hold(hold: Transition | None) -> dict[str, Any] | None:
    """A hand's doing; whose, is for the dashboard to say."""
    return None if hold is None else {"mode": hold.to_mode, "reason": hold.reason, "at": clock.seconds(hold.at)}


def page(run_id: UUID, tool: str) -> str:
    """The page that says the same to people, from outside."""
    try:
        path = reverse("dashboard:why", args=[run_id, tool])
    except NoReverseMatch:
        path = f"/?{urlencode({'run': run_id})}"
    return settings.PUBLIC_URL + path


def address(run_id: UUID, tool: str) -> str:
    """What an agent asks, and what its SDK prints."""
    return f"{settings.PUBLIC_URL}/agent/v1/why?{urlencode({'run': run_id, 'tool': tool})}"
