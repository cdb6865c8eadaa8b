"""What runs pass on to people, a question or an escalation: told at once, and of many alike only now and then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import NoReverseMatch, reverse

from controlplane.models import AlertChannel, AlertDelivery, Dependency, Run
from controlplane.selectors import runs as selector

QUESTION, ESCALATION = "question", "escalation"
EVENTS = (QUESTION, ESCALATION)
GATHERED = timedelta(minutes=5)
"""Of one agent: the first is told at once, what follows within this time is told together after it."""
LISTED = 20

_TITLES = {
    QUESTION: "{agent} asks how to go on ({environment})",
    ESCALATION: "{agent} hands over to a person ({environment})",
}
_ADVICE = {
    QUESTION: "It stopped because nothing that was left could do its task, and its policy says to ask. Decide what to"
    " do, and start it again once the tool is back.",
    ESCALATION: "Its policy says that a person takes over without this tool. Look at the run and do what it could not.",
}


class Alike(NamedTuple):
    """Whose handovers are told together."""

    environment_id: int
    agent_id: int
    handover: str


@transaction.atomic
def dispatch_due_handovers(*, now: datetime, limit: int) -> int:
    """Turn what runs passed on into deliveries, in the transaction that marks them; how many deliveries."""
    groups: dict[Alike, list[Run]] = {}
    for run in _untold(now, limit):
        groups.setdefault(Alike(run.environment_id, run.agent_id, run.handover), []).append(run)
    Run.objects.filter(pk__in=[run.pk for rows in groups.values() for run in rows]).update(handover_told_at=now)
    return sum(_tell(alike, rows, now) for alike, rows in groups.items())


def _untold(now: datetime, limit: int) -> Sequence[Run]:
    """Without those of whose kind people have just heard."""
    same = {name: OuterRef(name) for name in Alike._fields}
    just_heard = _passed_on().filter(handover_told_at__gt=now - GATHERED, **same)
    waiting = _passed_on().filter(~Exists(just_heard), handover_told_at=None)
    rows = waiting.select_for_update(skip_locked=True, no_key=True, of=("self",))
    return list(rows.select_related("environment", "agent").order_by("reported_at", "pk")[:limit])


def _passed_on() -> QuerySet[Run]:
    return Run.objects.filter(~Q(handover=""))


def _tell(alike: Alike, runs: Sequence[Run], now: datetime) -> int:
    """One delivery to each channel of the environment."""
    rows = AlertChannel.objects.filter(environment=alike.environment_id, enabled=True)
    channels = list(rows.select_for_update(no_key=True).order_by("pk"))  # none is removed meanwhile
    if not channels:
        return 0
    body = _body(alike, runs, now)
    made = [
        AlertDelivery(
            channel=channel, event=alike.handover, incident=body["incident"], body=body, due_at=now, created_at=now
        )
        for channel in channels
    ]
    AlertDelivery.objects.bulk_create(made, ignore_conflicts=True)
    return len(made)


def _body(alike: Alike, runs: Sequence[Run], now: datetime) -> dict[str, Any]:
    """The body of one event: the same for every channel, at every attempt."""
    first, incident = runs[0], f"{alike.handover}-{runs[0].pk}"
    lacked = next(iter(selector.lacks(first)), {})
    dependency = str(lacked.get("dependency") or "")
    owner = Dependency.objects.filter(environment=first.environment_id, slug=dependency).values_list("owner", flat=True)
    body = {
        "format": 1,
        "id": f"{incident}:{alike.handover}",
        "event": alike.handover,
        "incident": incident,
        "group": f"agent-{alike.agent_id}-{alike.handover}",
        "title": _TITLES[alike.handover].format(agent=first.agent.slug, environment=first.environment.slug),
        "environment": first.environment.slug,
        "agent": first.agent.slug,
        "dependency": dependency,
        "owner": owner.first() or "",
        "at": now.isoformat(timespec="seconds"),
        "since": first.started_at.isoformat(timespec="seconds"),
        "state": None,
        "mode": None,
        "cause": str(lacked.get("cause") or first.end_cause),
        "worker": None,
        "url": link(first),
        "count": len(runs),
        "runs": [_told(run) for run in runs[:LISTED]],
    }
    return body | {"text": _text(body)}


def _told(run: Run) -> dict[str, Any]:
    return {
        "id": str(run.pk),
        "url": link(run),
        "task_kind": run.task_kind,
        "status": run.status,
        "steps": run.steps,
        "lacked": [{name: one.get(name) for name in ("tool", "cause", "step", "dependency")}
                   for one in selector.lacks(run)[:LISTED]],
        "disclosure": run.disclosure,
    }  # fmt: skip


def _text(body: dict[str, Any]) -> str:
    more = body["count"] - len(body["runs"])
    lines = [
        body["title"],
        "",
        _ADVICE[body["event"]],
        *(_line(run) for run in body["runs"]),
        f"and {more} more runs like these" if more else "",
        f"Owner: {body['owner']}" if body["owner"] else "",
        "",
        body["url"],
    ]
    return "\n".join(lines)


def _line(run: dict[str, Any]) -> str:
    without = ", ".join(str(one["tool"]) for one in run["lacked"]) or "nothing"
    return f"{run['task_kind'] or 'run'}, {run['status']} after {run['steps']} steps, without {without}: {run['url']}"


def link(run: Run) -> str:
    """The Run page, from outside."""
    try:
        path = reverse("dashboard:run", args=[run.pk])
    except NoReverseMatch:
        path = f"/runs/{run.pk}/"
    return settings.PUBLIC_URL + path
