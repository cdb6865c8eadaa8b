"""Changes of policy that wait for a second person: draft, in review, then published, rejected or withdrawn.

An approval is for one content over one base: what was edited, or whose layer moved on meanwhile, is looked at anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from controlplane.models import Dependency, Environment, PolicyRevision, Tool
from controlplane.services import audit, loosening, policies, second_person
from controlplane.services.errors import Refused

Status = PolicyRevision.Status


def _target(given: Mapping[str, Any]) -> str:
    return policies.target_of(given["revision"])


@audit.refusals("propose_policy", target=policies.layer_named)
@transaction.atomic
def propose(
    *,
    environment: Environment,
    level: str,
    values: Mapping[str, Any],
    reason: str,
    actor: str,
    now: datetime,
    dependency: Dependency | None = None,
    tool: Tool | None = None,
    side_effect: str = "",
    draft: bool = False,
    base: int | None = None,
) -> PolicyRevision:
    """Send one layer's values for review, or keep them as a draft; nothing is in force by it. Sent again, the same
    change is not asked for twice.

    `base` is the number that the author saw in force, where that matters. Raises Refused as publishing does.
    """
    place: dict[str, Any] = {"level": level, "side_effect": side_effect, "dependency": dependency, "tool": tool}
    policies.demand_place(environment, **place)
    policies.lock(environment)
    policies.demand_sound(environment, place, values, reason)
    revision = policies.new_revision(environment, place, values, reason, actor, now)
    if base is not None and base != _number_in_force(revision):
        raise _moved(revision)
    if not draft and (same := _asked_before(revision)):
        return same
    revision.save(force_insert=True)
    policies.record(
        "draft_policy" if draft else "propose_policy", revision, actor, reason=reason, detail=_told(revision)
    )
    if not draft:
        _to_review(revision, now)
    return revision


@audit.refusals("edit_policy_draft", target=_target)
@transaction.atomic
def edit(
    *, revision: PolicyRevision, actor: str, values: Mapping[str, Any] | None = None, reason: str | None = None
) -> PolicyRevision:
    """Change what its author proposes: it is a draft again, and whatever somebody saw of it is no longer what it is."""
    row = _locked(revision, Status.DRAFT, Status.IN_REVIEW)
    second_person.demand_author(row, actor)
    wanted = row.values if values is None else values
    said = row.reason if reason is None else reason
    if (wanted, said.strip()) == (row.values, row.reason):
        return row
    policies.demand_sound(row.environment, policies.place_of(row), wanted, said)
    row.values, row.content_hash = dict(wanted), policies.content_hash(wanted)
    row.reason, row.status, row.submitted_at = said.strip(), Status.DRAFT, None
    row.save()
    policies.record("edit_policy_draft", row, actor, reason=row.reason, detail=_told(row))
    return row


@audit.refusals("submit_policy", target=_target)
@transaction.atomic
def submit(*, revision: PolicyRevision, actor: str, now: datetime) -> PolicyRevision:
    """Send it for review over what is in force now; one that is in review already is renewed so."""
    row = _locked(revision, Status.DRAFT, Status.IN_REVIEW)
    second_person.demand_author(row, actor)
    policies.demand_sound(row.environment, policies.place_of(row), row.values, row.reason)
    _to_review(row, now)
    policies.record("submit_policy", row, actor, reason=row.reason, detail=_told(row))
    return row


@audit.refusals("approve_policy", target=_target)
@transaction.atomic
def approve(
    *, revision: PolicyRevision, content_hash: str, actor: str, now: datetime, reason: str = ""
) -> PolicyRevision:
    """Put it in force as a second person who may; the hash says which content was looked at. A repeat does nothing."""
    if (done := _decided_so(revision, Status.PUBLISHED, actor)) and done.content_hash == content_hash:
        return done
    row = _locked(revision, Status.IN_REVIEW)
    second_person.demand_approver(row, actor, content_hash)
    if row.base != _number_in_force(row):
        raise _moved(row)
    policies.demand_sound(row.environment, policies.place_of(row), row.values, row.reason)
    row.approved_by = actor
    second_person.decide(row, actor, reason, now)
    policies.put_in_force(row, now=now)
    policies.record("approve_policy", row, actor, reason=row.decision, detail=_told(row))
    policies.tell_agents(row.environment_id)
    return row


@audit.refusals("reject_policy", target=_target)
@transaction.atomic
def reject(*, revision: PolicyRevision, reason: str, actor: str, now: datetime) -> PolicyRevision:
    """Turn it down, and say why; nothing changes, and a repeat does nothing."""
    if done := _decided_so(revision, Status.REJECTED, actor):
        return done
    row = _locked(revision, Status.IN_REVIEW)
    second_person.demand_rejecter(row, actor, reason)
    return _ended(row, Status.REJECTED, "reject_policy", actor, reason, now)


@audit.refusals("withdraw_policy", target=_target)
@transaction.atomic
def withdraw(*, revision: PolicyRevision, actor: str, now: datetime, reason: str = "") -> PolicyRevision:
    """Take one's own change back before anybody decided; nothing changes, and a repeat does nothing."""
    if done := _decided_so(revision, Status.WITHDRAWN, actor):
        return done
    row = _locked(revision, Status.DRAFT, Status.IN_REVIEW)
    second_person.demand_author(row, actor)
    return _ended(row, Status.WITHDRAWN, "withdraw_policy", actor, reason, now)


def _asked_before(revision: PolicyRevision) -> PolicyRevision | None:
    """The same change of the same person that waits already over the same base."""
    place = policies.place_of(revision) | {"environment": revision.environment, "status": Status.IN_REVIEW}
    return PolicyRevision.objects.filter(
        **place, created_by=revision.created_by, content_hash=revision.content_hash, reason=revision.reason,
        base=_number_in_force(revision),
    ).first()  # fmt: skip


def _decided_so(revision: PolicyRevision, status: PolicyRevision.Status, actor: str) -> PolicyRevision | None:
    """The row, if this actor has decided it so before."""
    policies.lock(revision.environment)
    return _rows().filter(pk=revision.pk, status=status, decided_by=actor).first()


def _rows() -> QuerySet[PolicyRevision]:
    return PolicyRevision.objects.select_related("environment", "dependency", "tool")


def _ended(
    row: PolicyRevision, status: PolicyRevision.Status, action: str, actor: str, reason: str, now: datetime
) -> PolicyRevision:
    second_person.decide(row, actor, reason, now)
    row.status = status
    row.save()
    policies.record(action, row, actor, reason=row.decision, detail=_told(row))
    return row


def _to_review(row: PolicyRevision, now: datetime) -> None:
    """Over what is in force now; its number is above that."""
    row.base, row.submitted_at, row.status = _number_in_force(row), now, Status.IN_REVIEW
    if row.number <= row.base:
        row.number = policies.next_number(row)
    row.save()


def _locked(revision: PolicyRevision, *among: PolicyRevision.Status) -> PolicyRevision:
    """The row as it stands, in one of these states; its environment's layers wait."""
    policies.lock(revision.environment)
    row = _rows().get(pk=revision.pk)
    second_person.demand_status(row, *among)
    return row


def needs_of(row: PolicyRevision) -> list[loosening.Need]:
    """Why a waiting change needs a second person; nothing for one that was decided."""
    if row.status not in (Status.DRAFT, Status.IN_REVIEW):
        return []
    return loosening.needs(row.environment, policies.place_of(row), row.values)


def is_moved(row: PolicyRevision) -> bool:
    """Whether another revision came into force since its review was asked for."""
    return row.status == Status.IN_REVIEW and row.base != _number_in_force(row)


def _moved(row: PolicyRevision) -> Refused:
    number = _number_in_force(row)
    message = f"revision {number} was published meanwhile" if number else "what it was based on is gone"
    return Refused("moved", message, f"{row.created_by} looks at what changed, and submits it again")


def _number_in_force(row: PolicyRevision) -> int:
    found = policies.in_force(row)
    return found.number if found else 0


def _told(row: PolicyRevision) -> dict[str, Any]:
    by = {"proposed_by": row.created_by} if row.decided_by else {}
    return {"number": row.number, "hash": row.content_hash, "values": row.values, **by}
