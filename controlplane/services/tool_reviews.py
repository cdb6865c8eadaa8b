"""Changes of a tool that wait for a second person: draft, in review, then approved, rejected or withdrawn.

An approval is for one content over one base: what was edited, or whose tool was changed meanwhile, is looked at anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from controlplane.models import Tool, ToolChange
from controlplane.services import audit, loosening, policies, second_person, tools
from controlplane.services.errors import Refused

Status = ToolChange.Status
GUARDED = ("side_effect", "costly", "dependencies")
"""What of a tool says how it is guarded."""

LONGEST_REASON = 500


def _target(given: Mapping[str, Any]) -> str:
    return str(given["change"])


@audit.refusals("propose_tool_change")
@transaction.atomic
def propose(
    *, tool: Tool, wanted: Mapping[str, Any], reason: str, actor: str, now: datetime, draft: bool = False
) -> ToolChange:
    """Send new values of a tool for review, or keep them as a draft; nothing is in force by it. Sent again, the same
    change is not asked for twice."""
    row = tools.held(tool)
    change = ToolChange(
        environment=row.environment, tool=row, reason=reason.strip(), created_at=now, created_by=actor
    )  # fmt: skip
    _write(change, _sound(row, wanted, reason))
    if not draft:
        _to_review(change, now)
        if same := _asked_before(change):
            return same
    change.save(force_insert=True)
    _record("draft_tool_change" if draft else "propose_tool_change", change, actor, change.reason)
    return change


@audit.refusals("edit_tool_change", target=_target)
@transaction.atomic
def edit(
    *, change: ToolChange, actor: str, wanted: Mapping[str, Any] | None = None, reason: str | None = None
) -> ToolChange:
    """Change what its author proposes: it is a draft again, and whatever somebody saw of it is no longer what it is."""
    row = _held(change, Status.DRAFT, Status.IN_REVIEW)
    second_person.demand_author(row, actor)
    said = row.reason if reason is None else reason
    values = _sound(row.tool, row.wanted if wanted is None else wanted, said)
    if (values, said.strip()) == (row.wanted, row.reason):
        return row
    row.reason, row.status, row.submitted_at, row.before = said.strip(), Status.DRAFT, None, {}
    _write(row, values)
    row.save()
    _record("edit_tool_change", row, actor, row.reason)
    return row


@audit.refusals("submit_tool_change", target=_target)
@transaction.atomic
def submit(*, change: ToolChange, actor: str, now: datetime) -> ToolChange:
    """Send it for review over the tool as it is now; one that is in review already is renewed so."""
    row = _held(change, Status.DRAFT, Status.IN_REVIEW)
    second_person.demand_author(row, actor)
    _write(row, _sound(row.tool, row.wanted, row.reason))
    _to_review(row, now)
    row.save()
    _record("submit_tool_change", row, actor, row.reason)
    return row


@audit.refusals("approve_tool_change", target=_target)
@transaction.atomic
def approve(*, change: ToolChange, content_hash: str, actor: str, now: datetime, reason: str = "") -> ToolChange:
    """Do it as a second person who may; the hash says which content over which base was looked at. A repeat does
    nothing."""
    if (done := _decided_so(change, Status.APPROVED, actor)) and done.content_hash == content_hash:
        return done
    row = _held(change, Status.IN_REVIEW)
    second_person.demand_approver(row, actor, content_hash)
    if is_moved(row):
        raise _moved(row)
    _sound(row.tool, row.wanted, row.reason)
    tools.change(row.tool, _as_kept(row.tool, row.wanted))
    policies.sweep_soon(environment_id=row.environment_id, now=now)
    _end(row, Status.APPROVED, "approve_tool_change", actor, reason, now)
    policies.tell_agents(row.environment_id)
    return row


@audit.refusals("reject_tool_change", target=_target)
@transaction.atomic
def reject(*, change: ToolChange, reason: str, actor: str, now: datetime) -> ToolChange:
    """Turn it down, and say why; nothing changes, and a repeat does nothing."""
    if done := _decided_so(change, Status.REJECTED, actor):
        return done
    row = _held(change, Status.IN_REVIEW)
    second_person.demand_rejecter(row, actor, reason)
    return _end(row, Status.REJECTED, "reject_tool_change", actor, reason, now)


@audit.refusals("withdraw_tool_change", target=_target)
@transaction.atomic
def withdraw(*, change: ToolChange, actor: str, now: datetime, reason: str = "") -> ToolChange:
    """Take one's own change back before anybody decided; nothing changes, and a repeat does nothing."""
    if done := _decided_so(change, Status.WITHDRAWN, actor):
        return done
    row = _held(change, Status.DRAFT, Status.IN_REVIEW)
    second_person.demand_author(row, actor)
    return _end(row, Status.WITHDRAWN, "withdraw_tool_change", actor, reason, now)


def needs_of(change: ToolChange) -> list[loosening.ToolNeed]:
    """Why a waiting change needs a second person; nothing for one that was decided, or whose dependency is gone."""
    if change.status not in (Status.DRAFT, Status.IN_REVIEW):
        return []
    try:
        return loosening.needs_of_tool(change.tool, _as_kept(change.tool, change.wanted))
    except Refused:
        return []


def is_moved(change: ToolChange) -> bool:
    """Whether the tool, or what guards it, is otherwise than when its review was asked for."""
    return change.status == Status.IN_REVIEW and change.before != _base(change)


def state_of(tool: Tool) -> dict[str, Any]:
    """The tool's values that a change may speak of, as they are."""
    behind = sorted(tool.dependencies.values_list("slug", flat=True))
    return {"side_effect": tool.side_effect, "costly": tool.costly, "dependencies": behind}


def _base(change: ToolChange) -> dict[str, Any]:
    """What an approval is for: the tool as it is, whether its class is confirmed, and why one is needed."""
    why = [need.message for need in needs_of(change)]
    return {**state_of(change.tool), "class_confirmed": change.tool.class_confirmed, "needs": why}


def _as_kept(tool: Tool, wanted: Mapping[str, Any]) -> dict[str, Any]:
    return tools.wanted(tool.environment, wanted)


def _sound(tool: Tool, wanted: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """The values in plain form, as far as they change something; refused, if nobody could do it."""
    policies.demand_reason(reason)
    if unknown := sorted(set(wanted) - set(GUARDED)):
        mend = f"use {', '.join(GUARDED)}; edit the rest at once"
        raise Refused("bad_field", f"{unknown[0][:60]!r} needs no review", mend, unknown[0])
    kept = _as_kept(tool, wanted)
    behind = {"dependencies": sorted({row.slug for row in kept["dependencies"]})} if "dependencies" in kept else {}
    values, now = {**wanted, **behind}, state_of(tool)
    if not (changed := {name: value for name, value in values.items() if value != now[name]}):
        raise Refused("bad_field", f"{tool.name} is so already", "propose what differs from that", "side_effect")
    loosening.demand_fallback_of(tool, kept)
    return changed


def _write(change: ToolChange, wanted: dict[str, Any]) -> None:
    change.wanted, change.content_hash = wanted, _hash(wanted, change.before)


def _hash(wanted: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    return policies.content_hash({"wanted": wanted, "before": before})


def _to_review(change: ToolChange, now: datetime) -> None:
    change.status, change.submitted_at = Status.IN_REVIEW, now
    change.before = _base(change)
    change.content_hash = _hash(change.wanted, change.before)


def _asked_before(change: ToolChange) -> ToolChange | None:
    """The same change of the same person that waits already over the same base."""
    return rows().filter(
        tool=change.tool, status=Status.IN_REVIEW, created_by=change.created_by, content_hash=change.content_hash,
        reason=change.reason,
    ).first()  # fmt: skip


def rows() -> QuerySet[ToolChange]:
    """Changes with their tools."""
    return ToolChange.objects.select_related("environment", "tool__environment")


def _decided_so(change: ToolChange, status: ToolChange.Status, actor: str) -> ToolChange | None:
    """The row, if this actor has decided it so before."""
    policies.lock(change.environment)
    return rows().filter(pk=change.pk, status=status, decided_by=actor).first()


def _held(change: ToolChange, *among: ToolChange.Status) -> ToolChange:
    """The row as it stands, in one of these states; its tool, and what guards that, stay so."""
    policies.lock(change.environment)
    row = rows().get(pk=change.pk)
    row.tool = tools.held(row.tool)
    second_person.demand_status(row, *among)
    return row


def _end(row: ToolChange, status: ToolChange.Status, action: str, actor: str, reason: str, now: datetime) -> ToolChange:
    second_person.decide(row, actor, reason, now)
    row.status = status
    row.save()
    _record(action, row, actor, row.decision)
    return row


def _moved(change: ToolChange) -> Refused:
    message = f"{change.tool.name}, or what guards it, was changed meanwhile"
    return Refused("moved", message, f"{change.created_by} looks at what changed, and submits it again")


def _record(action: str, row: ToolChange, actor: str, reason: str) -> None:
    by = {"proposed_by": row.created_by} if row.decided_by else {}
    detail = {"wanted": row.wanted, "before": row.before, "hash": row.content_hash, **by}
    audit.record(
        actor=actor, action=action, target=row.tool.name, accepted=True, environment_id=row.environment_id,
        reason=reason, detail=detail,
    )  # fmt: skip
