"""Permits: places for candidate runs, the one round that the first of them gets, and its verdict; the core decides."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from recloser.core import circuit as core
from recloser.core.policy import CircuitPolicy
from recloser.core.types import Outcome, SideEffectClass, State

from controlplane import clock
from controlplane.models import AgentKey, Candidate, Circuit, Probe, ProbeRound, Tool, Worker
from controlplane.selectors import policies, readmission
from controlplane.services import rounds, transitions
from controlplane.services.ingest import Caller
from controlplane.services.transitions import core_of

AGAIN_S = 30.0
"""Who found no place asks again after this, or when the circuit is due, whichever is later."""


@dataclass(frozen=True, slots=True)
class Place:
    """A candidate's place, or why there is none."""

    id: uuid.UUID | None
    reason: str
    wait_s: float
    """How long the place is kept; without one, when to ask again."""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave for one call, or why there is none."""

    round_id: uuid.UUID | None
    reason: str
    lease_s: float = 0.0


@transaction.atomic
def keep_place(*, caller: Caller, dependency: str, session: uuid.UUID, instance: str, now: datetime) -> Place:
    """Keep a place for a run of this process that has yet to begin; asked again, the same one."""
    row = _locked(caller, dependency)
    if row is None or _quarantined(caller, instance):
        return Place(None, "not tested by permits", AGAIN_S)
    policy = policies.circuit_policy(environment_id=row.environment_id, dependency_id=row.dependency_id)
    here = Candidate.objects.filter(circuit=row, generation=row.generation)
    here.filter(session=session, run__isnull=True, expires_at__lte=now).delete()
    if (mine := here.filter(session=session).first()) is not None:
        return _kept(mine, row, now)
    taken = here.filter(Q(expires_at__gt=now) | Q(run__isnull=False)).count()
    refused = core.refuse_candidate(core_of(row), policy, clock.seconds(now), probed=_probed(row), taken=taken)
    if refused is not None:
        due_in_s = (row.due_at - now).total_seconds() if row.due_at else 0.0
        return Place(None, refused, max(due_in_s, AGAIN_S if due_in_s <= 0 else 0.0))
    return _kept(_placed(caller, row, session, instance, now), row, now)


def _placed(caller: Caller, row: Circuit, session: uuid.UUID, instance: str, now: datetime) -> Candidate:
    """A new place; those of earlier openings have had their day."""
    Candidate.objects.filter(circuit=row, round__isnull=True).exclude(generation=row.generation).delete()
    return Candidate.objects.create(
        id=uuid.uuid4(),
        circuit=row,
        generation=row.generation,
        agent_id=caller.agent_id,
        session=session,
        instance=instance,
        given_at=now,
        expires_at=now + timedelta(seconds=core.CANDIDATE_S),
    )


def _kept(place: Candidate, row: Circuit, now: datetime) -> Place:
    left = (place.expires_at - now).total_seconds()
    if left <= 0 or place.run is not None:
        return Place(None, "the place was used", AGAIN_S)
    return Place(place.pk, "kept", left, row.generation)


@transaction.atomic
def claim(
    *, caller: Caller, place: uuid.UUID, run: uuid.UUID, tool: str, root_began_s_ago: float, now: datetime
) -> Permit:
    """Give the circuit's one round to the first candidate that calls; the same run asking again gets the same one."""
    held = Candidate.objects.filter(pk=place, agent=caller.agent_id, circuit__environment=caller.environment_id).first()
    if held is None:
        return Permit(None, "no such place")
    row = Circuit.objects.select_for_update(no_key=True).get(pk=held.circuit_id)
    held.refresh_from_db()
    if held.round_id is not None:
        return _again(held, run, now)
    if held.generation != row.generation or held.expires_at <= now or _quarantined(caller, held.instance):
        return Permit(None, "the place is over")
    return _granted(held, row, run, tool, root_began_s_ago, now)


def _again(held: Candidate, run: uuid.UUID, now: datetime) -> Permit:
    given = held.round
    if given is None or held.run != run or given.finished_at is not None:
        return Permit(None, "the place was used")
    return Permit(given.pk, "granted", (given.lease_expires_at - now).total_seconds())


def _granted(
    held: Candidate, row: Circuit, run: uuid.UUID, tool: str, root_began_s_ago: float, now: datetime
) -> Permit:
    policy = policies.circuit_policy(environment_id=row.environment_id, dependency_id=row.dependency_id)
    side_effect, confirmed = _class_of(row, tool)
    grant = core.grant_permit(
        core_of(row),
        policy,
        clock.seconds(now),
        str(uuid.uuid4()),
        probed=_probed(row),
        root_began_at=clock.seconds(now) - root_began_s_ago,
        side_effect=side_effect,
        confirmed=confirmed,
    )
    if not grant.granted:
        return Permit(None, grant.reason)
    given = _begun(held, row, grant.circuit, policy, run, tool, now)
    return Permit(given.pk, "granted", (given.lease_expires_at - now).total_seconds())


def _begun(
    held: Candidate,
    row: Circuit,
    after: core.Circuit,
    policy: CircuitPolicy,
    run: uuid.UUID,
    tool: str,
    now: datetime,
) -> ProbeRound:
    assert after.round is not None
    who = {"run": str(run), "tool": tool, "instance": held.instance}
    given = ProbeRound.objects.create(
        id=uuid.UUID(after.round.id),
        circuit=row,
        generation=after.generation,
        requested_by=f"permit, {held.instance}"[:150],
        due_at=row.due_at or now,
        granted_at=now,
        dispatched_at=now,
        lease_expires_at=datetime.fromtimestamp(after.round.lease_expires_at, UTC),
        operation=_operation(row, tool),
        asked={"permit": who},
    )
    transitions.save(row, after, policy=policy, now=now, evidence={"round": str(given.pk), "permit": who})
    held.run, held.tool, held.round = run, tool, given
    held.save(update_fields=["run", "tool", "round"])
    transitions.announce([row])
    return given


def finish(
    *,
    caller: Caller,
    round_id: uuid.UUID,
    outcome: Outcome,
    retry_after_s: float | None,
    took_s: float | None,
    now: datetime,
) -> bool:
    """The call has ended: its outcome is the round's verdict. False if that came late or twice, and changed nothing."""
    held = Candidate.objects.filter(
        round=round_id, agent=caller.agent_id, circuit__environment=caller.environment_id
    ).select_related("round")
    given = held.first()
    if given is None or given.round is None:
        return False
    answered: Mapping[str, Any] = {"cause": outcome.value, "took_ms": None if took_s is None else round(took_s * 1000)}
    return rounds.finish_round(
        round_id=round_id,
        verdict=core.verdict_of(outcome),
        operation=given.round.operation or None,
        retry_after_s=retry_after_s,
        answered=answered,
        now=now,
    )


def _locked(caller: Caller, dependency: str) -> Circuit | None:
    """The circuit of the caller's environment, where it stands open; most who ask are turned away before any lock."""
    named = Circuit.objects.filter(environment=caller.environment_id, dependency__slug=dependency)
    if not named.filter(state=State.OPEN.value).exists():
        return None
    return named.select_for_update(no_key=True, of=("self",)).first()


def _probed(row: Circuit) -> bool:
    return Probe.objects.filter(dependency=row.dependency_id, enabled=True).exists()


def _quarantined(caller: Caller, instance: str) -> bool:
    """Whose evidence does not count does not test either."""
    key = AgentKey.objects.filter(pk=caller.key_id, quarantined_at__isnull=False)
    worker = Worker.objects.filter(environment=caller.environment_id, instance=instance, quarantined_at__isnull=False)
    return key.exists() or worker.exists()


def _class_of(row: Circuit, tool: str) -> tuple[SideEffectClass, bool]:
    """The class that the tool is handled as; of a tool that is not behind this circuit, none that may test."""
    found = Tool.objects.filter(environment=row.environment_id, name=tool, dependencies=row.dependency_id).first()
    return (SideEffectClass.UNKNOWN, False) if found is None else readmission.class_of(found)


def _operation(row: Circuit, tool: str) -> str:
    found = Tool.objects.filter(environment=row.environment_id, name=tool).values_list("operation", flat=True).first()
    return found or tool
