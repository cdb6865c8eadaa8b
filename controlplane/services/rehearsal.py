"""A rehearsal: language-neutral cases played against this server, whose clock is moved by hand meanwhile.

Everything here goes through the same services as in earnest; only time, names and policies are set up for one case.
It is there where `RECLOSER_TEST_CLOCK` is set, which production settings refuse (`clock.refusal`).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from recloser.core.types import Cause, SideEffectClass

from controlplane import clock, redis_clients
from controlplane.delivery import versions
from controlplane.models import (
    Agent,
    AlertChannel,
    AlertDelivery,
    Baseline,
    Dependency,
    Environment,
    PolicyRevision,
    Probe,
    ProbeRound,
    Run,
    Tool,
    Transition,
)
from controlplane.services import access, alerts, circuits, clock_steps, heartbeats, policies, tools
from controlplane.services.alert_body import OPENED
from controlplane.services.errors import Refused

ACTOR = "conformance"
REASON = "a rehearsal"
NOWHERE = "http://rehearsal.invalid/"
LONGEST_HOLD_S = 86_400.0
ALIGNED_S = 3600
"""A case's time 0 is the beginning of an hour, so that the windows' buckets lie as they do in the core."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A fresh environment with one key; the clock stands at `now`."""

    environment_id: int
    environment: str
    key: str
    now: datetime


@transaction.atomic
def begin() -> Stage:
    """Stop the clock at the last full hour, and make an environment that nobody has used."""
    clock.hold(None)
    at = clock.now()
    clock.hold(at.fromtimestamp(at.timestamp() // ALIGNED_S * ALIGNED_S, at.tzinfo))
    now = clock.now()
    slug = f"rehearsal-{secrets.token_hex(6)}"
    environment = Environment.objects.create(slug=slug, name="Rehearsal", created_at=now)
    versions.of(environment.pk)
    agent = Agent.objects.create(environment=environment, slug=ACTOR, name="Conformance", created_at=now)
    AlertChannel.objects.create(
        environment=environment, kind="webhook", name="nobody", target=NOWHERE, created_at=now, created_by=ACTOR
    )
    _, token = access.issue_key(environment=environment, agent=agent, label=REASON, actor=ACTOR, now=now)
    return Stage(environment.pk, slug, token, now)


def end() -> None:
    """Let the clock go."""
    clock.hold(None)


@transaction.atomic
def set_names(*, environment_id: int, dependencies: Iterable[str], behind: Mapping[str, Iterable[str]]) -> None:
    """Make the dependencies, each with a probe that nobody sends, and the tools in front of them."""
    environment, now = Environment.objects.get(pk=environment_id), clock.now()
    policies.lock(environment)
    for slug in dependencies:
        row = tools.ensure_dependency(environment=environment, slug=slug, actor=ACTOR, now=now)
        Probe.objects.get_or_create(
            dependency=row, defaults={"operation": "", "spec": {"url": NOWHERE}, "updated_at": now, "updated_by": ACTOR}
        )
    for name, slugs in behind.items():
        tools.ensure_tool(
            environment=environment,
            name=name,
            dependencies=slugs,
            actor=ACTOR,
            now=now,
            side_effect=SideEffectClass.READ_ONLY.value,
        )


@transaction.atomic
def set_policy(*, environment_id: int, level: str, values: Mapping[str, Any], owner: str | None = None) -> None:
    """Publish one layer: a dependency's or tool's by its name, or the environment's."""
    environment, now = Environment.objects.get(pk=environment_id), clock.now()
    places: dict[str, Any] = {}
    if level == PolicyRevision.Level.DEPENDENCY:
        places["dependency"] = _dependency(environment_id, owner)
    elif level == PolicyRevision.Level.TOOL:
        places["tool"] = Tool.objects.get(environment=environment_id, name=owner)
    policies.publish(
        environment=environment, level=level, values=values, reason=REASON, actor=ACTOR, approved_by="the case",
        now=now, **places,
    )  # fmt: skip


@transaction.atomic
def set_baseline(
    *, environment_id: int, kind: str, runs: int, tokens_per_step: float | None, cost_per_step: float | None
) -> None:
    """Say what a healthy run of this kind of task costs, as if so many had been looked through."""
    agent = Agent.objects.get(environment=environment_id, slug=ACTOR)
    Baseline.objects.create(
        environment_id=environment_id, agent=agent, task_kind=kind, runs=runs, tokens_per_step=tokens_per_step,
        cost_per_step=cost_per_step, looked_at=clock.now(),
    )  # fmt: skip
    versions.bump_config(environment_id)


def move_to(*, environment_id: int, at: datetime) -> None:
    """Move the clock, and do what the scheduler does at such a moment."""
    clock.hold(at)
    take_turn(environment_id=environment_id)


def take_turn(*, environment_id: int) -> None:
    """The scheduler's turn in the environment on stage, probes left out: settle, sweep, alert."""
    now = clock.now()
    circuits.settle_due(now=now, environment_id=environment_id)
    circuits.sweep_due(now=now, environment_id=environment_id)
    alerts.dispatch_due_transitions(now=now, limit=1000, environment_id=environment_id)


def step(*, by_s: float) -> None:
    """The wall clock jumps, elapsed time does not: deadlines follow, as the scheduler sees to it in earnest."""
    clock.hold(clock.now() + timedelta(seconds=by_s))
    circuits.shift_deadlines(by_s=by_s)
    heartbeats.shift_deadlines(by_s=by_s)
    alerts.shift_deadlines(by_s=by_s)
    clock_steps.rein_in(by_s=by_s, now=clock.now())


def start_probe(*, environment_id: int, dependency: str) -> UUID | None:
    """Ask leave for a round; None if it is not granted."""
    row = _dependency(environment_id, dependency)
    granted = circuits.claim_rounds(now=clock.now(), dependency_id=row.pk)
    return granted[0].pk if granted else None


def end_probe(
    *, environment_id: int, round_id: UUID, verdict: str, operation: str | None, retry_after_s: float | None
) -> bool:
    """A round's verdict arrives; False if it has no say. A round of another environment is unknown here."""
    ProbeRound.objects.get(pk=round_id, circuit__environment=environment_id)
    return circuits.finish_round(
        round_id=round_id, verdict=verdict, operation=operation, retry_after_s=retry_after_s, now=clock.now()
    )


def operate(*, environment_id: int, dependency: str, verb: str, until: datetime | None) -> bool:
    """An operator acts; False if that was refused."""
    row, now = _dependency(environment_id, dependency), clock.now()
    named: dict[str, Any] = {"dependency_id": row.pk, "actor": ACTOR, "reason": REASON, "now": now}
    latest = now + timedelta(seconds=LONGEST_HOLD_S)
    try:
        match verb:
            case "force_close":
                circuits.force_close(**named)
            case "force_open":
                circuits.hold_open(**named, until=min(until or latest, latest))
            case "force_closed":
                circuits.hold_closed(**named, until=min(until or latest, latest))
            case "release":
                circuits.release(**named)
            case _:
                raise Refused("bad_field", f"there is no verb {verb[:40]}", "use one of the case format", "verb")
    except Refused as refused:
        if refused.code == "not_held":
            return False
        raise
    return True


def lose_store(*, environment_id: int) -> int:
    """Empty the shared counters of the environment; Postgres is not touched. How many keys are gone."""
    client = redis_clients.blocking()
    keys = list(client.scan_iter(f"rcl:{{{environment_id}:*", count=1000))
    return int(client.delete(*keys)) if keys else 0


def moves(*, environment_id: int) -> dict[str, list[tuple[float, int]]]:
    """When each circuit came to each generation, by its dependency."""
    rows = Transition.objects.filter(circuit__environment=environment_id).order_by("generation")
    found: dict[str, list[tuple[float, int]]] = {}
    for slug, at, generation in rows.values_list("circuit__dependency__slug", "at", "generation"):
        found.setdefault(slug, []).append((clock.seconds(at), generation))
    return found


def alerts_sent(*, environment_id: int) -> int:
    """How many alerts said that evidence had opened a circuit."""
    rows = AlertDelivery.objects.filter(channel__environment=environment_id, event=OPENED)
    return rows.exclude(transition__cause=Cause.OPERATOR.value).count()


def withdrawals(*, environment_id: int, run: UUID) -> dict[str, str]:
    """The tools that a run lacks, as the control plane has heard it, each with the cause."""
    row = Run.objects.filter(environment=environment_id, pk=run).first()
    return {each["tool"]: each["cause"] for each in (row.missing if row is not None else [])}


def _dependency(environment_id: int, slug: str | None) -> Dependency:
    return Dependency.objects.get(environment=environment_id, slug=slug)
