"""What an alert says: all that the engineer who opens it at 03:12 needs before the first click."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.urls import NoReverseMatch, reverse
from recloser.core.types import Cause, DegradedBehaviour

from controlplane.delivery import resolve
from controlplane.models import (
    AlertCause,
    Circuit,
    Dependency,
    Outage,
    ProbeRound,
    Tool,
    Transition,
    Trip,
    VendorStatus,
    Worker,
)
from controlplane.selectors import circuits

OPENED, LOCKED_OUT, CLOSED = "opened", "locked_out", "closed"
RESOLVED = "resolved"
"""A cause that is no transition is over."""


def compose(
    *, event: str, circuit: Circuit, outage: Outage, transition: Transition | None, now: datetime
) -> dict[str, Any]:
    """The body of one event: the same for every channel, at every attempt."""
    dependency = circuit.dependency
    trip = Trip.objects.filter(outage=outage, scope="fleet").order_by("at").first()
    body = _essence(event, circuit, outage, transition) | {
        "trip": _trip(trip),
        "hit": _hit(dependency, outage, now),
        "tools": [_tool(tool) for tool in dependency.tools.order_by("name")],
        "last_probe": _probe(circuits.latest_rounds([circuit.pk]).get(circuit.pk)),
        "next_probe_at": _iso(circuit.due_at) if event != CLOSED else None,
        "vendor_status": _vendor(VendorStatus.objects.filter(dependency=dependency).first()),
    }
    return body | {"text": _text(body)}


def compose_short(*, event: str, circuit: Circuit, outage: Outage, transition: Transition | None) -> dict[str, Any]:
    """What can be said when the rest could not be found out: a short alert is better than none."""
    body = _essence(event, circuit, outage, transition)
    return body | {"text": f"{body['title']}\n\n{body['url']}"}


def _essence(event: str, circuit: Circuit, outage: Outage, transition: Transition | None) -> dict[str, Any]:
    dependency, incident = circuit.dependency, incident_of(outage)
    return {
        "format": 1,
        "id": f"{incident}:{event}",
        "event": event,
        "incident": incident,
        "group": group_of(circuit),
        "title": _title(event, dependency),
        "environment": dependency.environment.slug,
        "dependency": dependency.slug,
        "owner": dependency.owner,
        "at": _iso(_moment(event, outage, transition)),
        "since": _iso(outage.started_at),
        "state": transition.to_state if transition else circuit.state,
        "mode": transition.to_mode if transition else circuit.mode,
        "cause": transition.cause if transition else outage.cause,
        "actor": transition.actor if transition else "",
        "reason": transition.reason if transition else "",
        "url": link(dependency),
    }


def incident_of(outage: Outage) -> str:
    """One key an outage: resolving it resolves only its own."""
    return f"outage-{outage.pk}"


def group_of(circuit: Circuit) -> str:
    """One key a circuit: whatever is told of it belongs together."""
    return f"circuit-{circuit.pk}"


def incident_of_cause(cause: AlertCause) -> str:
    """One key a cause, from its beginning to its end."""
    return f"{cause.kind}-{cause.pk}"


_CAUSES = {
    AlertCause.Kind.WORKER_FAULT: (
        "Worker fault: {worker} fails alone on {place}",
        "Other workers succeed, so the circuit stays closed for the fleet; the worker's own breaker is open or about"
        " to open. Look at that worker: its network, its credentials, its version. Quarantine it if it must not count.",
    ),
    AlertCause.Kind.QUORUM_SHORT: (
        "Quorum out of reach: {place}",
        "Fewer workers live than the policy wants as witnesses, so the circuit cannot open for the fleet: each worker's"
        " own breaker is the protection. Start more workers, or lower `min_workers`.",
    ),
    AlertCause.Kind.UNTESTABLE: (
        "Nobody can test {place}",
        "It is out of service, and no probe has said anything about it for too long: it stays open. Add a probe or mend"
        " the one it has, or close it by hand once the dependency works.",
    ),
    AlertCause.Kind.SCHEDULER_SILENT: (
        "The scheduler is silent",
        "No circuit is probed and no lease expires until a scheduler runs again. Circuits still open, and agents go on"
        " with what they know. A Celery worker sends this and every other alert meanwhile.",
    ),
    AlertCause.Kind.CERTIFICATE: (
        "A certificate is about to expire: {place}",
        "A probe met it. Once it has expired nobody gets a connection any more: have it renewed, or tell its owner. You"
        " are told 30, 14 and 3 days before.",
    ),
    AlertCause.Kind.HEARTBEAT_FAILING: (
        "Heartbeat failing: {place}",
        "The circuit is closed and agents call it, but its probe has failed twice in a row. It opens by their calls"
        " alone: look whether the dependency is going, or the probe is wrong.",
    ),
    AlertCause.Kind.PROBER_SUSPECT: (
        "Prober suspect in {environment}",
        "Probes fail, and the control address does not answer our probers either: it is they that are cut off, not the"
        " dependencies. Nothing closes and no wait grows meanwhile. Look at the Celery workers: network, name servers,"
        " or at the control address itself, under Settings.",
    ),
}


OVER = "It is over."
TOLD_ANEW = "It is not over: you are told of it anew, as more urgent."


GATHERED = "More of this kind begin at the moment than are told one by one: the Board shows all of them."


def compose_cause(*, event: str, cause: AlertCause, now: datetime, over: str = OVER, more: int = 0) -> dict[str, Any]:
    """The body of a cause that is no transition, or of its end; `more` like it have begun and are told with it."""
    circuit, incident = cause.circuit, incident_of_cause(cause)
    dependency = circuit.dependency if circuit else None
    title, advice = _CAUSES[AlertCause.Kind(cause.kind)]
    named = title.format(
        worker=_worker(cause), place=_place(dependency) if dependency else "", environment=cause.environment.slug
    )
    ended = event == RESOLVED
    named += f", and {more} more" if more else ""
    body = {
        "format": 1,
        "id": f"{incident}:{event}",
        "event": event,
        "incident": incident,
        "group": group_of(circuit) if circuit else f"environment-{cause.environment_id}",
        "title": f"Resolved: {named[0].lower()}{named[1:]}" if ended else named,
        "environment": cause.environment.slug,
        "dependency": dependency.slug if dependency else "",
        "owner": dependency.owner if dependency else "",
        "at": _iso(now),
        "since": _iso(cause.began_at),
        "state": circuit.state if circuit else None,
        "mode": circuit.mode if circuit else None,
        "cause": cause.kind,
        "worker": _worker(cause) or None,
        "count": 1 + more,
        "url": link(dependency) if dependency else f"{settings.PUBLIC_URL}/?environment={cause.environment.slug}",
    }
    return body | {"text": _cause_text(body, over if ended else f"{advice} {GATHERED}" if more else advice)}


def _worker(cause: AlertCause) -> str:
    """Agent and instance, as the Board names a worker."""
    if cause.worker_id is None:
        return ""
    worker = Worker.objects.filter(pk=cause.worker_id).select_related("agent").first()
    return f"{worker.agent.slug}/{worker.instance}" if worker else "a worker"


def _cause_text(body: Mapping[str, Any], advice: str) -> str:
    lines = [
        body["title"],
        "",
        advice,
        f"Since: {body['since']}",
        f"State: {body['state']}, mode {body['mode']}" if body["state"] else "",
        f"Owner: {body['owner']}" if body["owner"] else "",
        "",
        body["url"],
    ]
    return "\n".join(lines)


def link(dependency: Dependency) -> str:
    """The Circuit page, from outside."""
    place = (dependency.environment.slug, dependency.slug)
    try:
        path = reverse("dashboard:circuit", args=place)
    except NoReverseMatch:
        path = "/circuits/{}/{}/".format(*(quote(part, safe="") for part in place))
    return settings.PUBLIC_URL + path


def _moment(event: str, outage: Outage, transition: Transition | None) -> datetime | None:
    if transition is not None:
        return transition.at
    return outage.locked_out_at if event == LOCKED_OUT else outage.started_at


def _trip(trip: Trip | None) -> dict[str, Any] | None:
    """The signal with its evidence against the threshold, and whose claims it rests on."""
    if trip is None:
        return None
    return {
        "signal": trip.signal,
        "evidence": trip.evidence,
        "threshold": trip.threshold,
        "shares": trip.shares,
        "policy": trip.policy,
        "tool": trip.tool.name if trip.tool else None,
        "run": str(trip.run) if trip.run else None,
    }


def _hit(dependency: Dependency, outage: Outage, now: datetime) -> dict[str, Any]:
    """Who calls this dependency, and which runs went without it so far."""
    callers = circuits.callers([dependency.pk], now).get(dependency.pk, circuits.Callers())
    runs = circuits.hits(dependency.environment, {dependency.slug: outage.started_at}, now).get(dependency.slug)
    return {
        "agents": sorted({*callers.agents, *(runs.agents if runs else ())}),
        "workers": callers.workers,
        "runs": runs.runs if runs else 0,
    }


def _tool(tool: Tool) -> dict[str, Any]:
    policy = resolve.of_tool(tool).policy
    return {
        "name": tool.name,
        "side_effect": tool.side_effect,
        "instead": str(policy.degraded_behaviour),
        "fallback": policy.fallback_tool or None,
    }


def _probe(round_: ProbeRound | None) -> dict[str, Any] | None:
    if round_ is None:
        return None
    return {
        "at": _iso(round_.finished_at),
        "verdict": round_.verdict,
        "status": round_.answered.get("status"),
        "cause": round_.answered.get("cause"),
    }


def _vendor(status: VendorStatus | None) -> dict[str, Any] | None:
    """What the vendor's own page said when it was last read: context, never evidence."""
    if status is None:
        return None
    return {
        "level": status.level or None,
        "said": status.said,
        "said_at": _iso(status.said_at),
        "read_at": _iso(status.read_at),
        "unread_since": _iso(status.failing_since),
        "link": status.link or None,
    }


def _title(event: str, dependency: Dependency) -> str:
    name = _place(dependency)
    if event == LOCKED_OUT:
        return f"Locked out: {name} is still down"
    return f"Closed: {name} is back" if event == CLOSED else f"Opened: {name}"


def _place(dependency: Dependency) -> str:
    return f"{dependency.slug} ({dependency.environment.slug})"


def _text(body: Mapping[str, Any]) -> str:
    """The same in lines for people."""
    tools = ", ".join(f"{tool['name']} ({_instead(tool)})" for tool in body["tools"])
    lines = [
        body["title"],
        "",
        f"Cause: {_cause(body)}",
        f"Since: {body['since']}",
        f"State: {body['state']}, mode {body['mode']}",
        f"Hit: {_who(body['hit'])}",
        f"Tools and what agents do instead: {tools or 'none known'}",
        f"Last probe: {_last_probe(body['last_probe'])}",
        f"Next probe: {body['next_probe_at']}" if body["next_probe_at"] else "",
        f"Vendor's status page (context only): {_vendor_says(body['vendor_status'])}" if body["vendor_status"] else "",
        f"Owner: {body['owner']}" if body["owner"] else "",
        "",
        body["url"],
    ]
    return "\n".join(lines)


def _vendor_says(vendor: Mapping[str, Any]) -> str:
    """In one line, with its age."""
    said = f'{vendor["level"]}, "{vendor["said"]}", read {vendor["read_at"]}' if vendor["read_at"] else "never read"
    unread = f"; could not be read since {vendor['unread_since']}" if vendor["unread_since"] else ""
    link = f" {vendor['link']}" if vendor["link"] else ""
    return f"{said}{unread}{link}"


def _who(hit: Mapping[str, Any]) -> str:
    return f"{', '.join(hit['agents']) or 'no agent yet'}; {hit['workers']} workers, {hit['runs']} runs"


def _instead(tool: Mapping[str, Any]) -> str:
    if tool["instead"] == DegradedBehaviour.FALLBACK:
        return f"fallback to {tool['fallback']}"
    return str(tool["instead"]).replace("_", " ")


def _cause(body: Mapping[str, Any]) -> str:
    if body["cause"] == Cause.OPERATOR:
        return f"{body['actor'] or 'an operator'}: {body['reason'] or 'no reason given'}"
    trip = body["trip"]
    if body["event"] == CLOSED or trip is None:
        return str(body["cause"]).replace("_", " ")
    signal, evidence, threshold = trip["signal"], trip["evidence"], trip["threshold"]
    against = f"{_plain(signal)} {_plain(evidence.get(signal))} against a threshold of {_plain(threshold.get(signal))}"
    return f"{against} ({_others(evidence, signal)}; policy: {_others(threshold, signal)})"


def _others(values: Mapping[str, Any], signal: str) -> str:
    told = sorted((name, value) for name, value in values.items() if name != signal and value is not None)
    return ", ".join(f"{_plain(name)} {_plain(value)}" for name, value in told)


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).replace("_", " ")


def _last_probe(probe: Mapping[str, Any] | None) -> str:
    if probe is None:
        return "none yet"
    return f"{probe['verdict']} at {probe['at']} ({str(probe['cause'] or '').replace('_', ' ') or 'no answer'})"


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds")
