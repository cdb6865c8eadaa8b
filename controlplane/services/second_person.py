"""What holds of whatever waits for a second person: its author edits and withdraws it, somebody else decides."""

from __future__ import annotations

from datetime import datetime

from controlplane.models import PolicyRevision, ToolChange
from controlplane.services import loosening
from controlplane.services.errors import Refused

Proposal = PolicyRevision | ToolChange

LONGEST_DECISION = 500


def is_own(row: Proposal, actor: str) -> bool:
    """Whether the actor proposed it."""
    return row.created_by.casefold() == actor.casefold()


def demand_status(row: Proposal, *among: str) -> None:
    """It is in one of these states still."""
    if row.status not in among:
        how = f" by {row.decided_by}" if row.decided_by else ""
        message = f"this change is {row.status.replace('_', ' ')}{how}"
        mend = "look at it anew" if row.status == "draft" else "propose a new one if it is still wanted"
        raise Refused("not_waiting", message, mend)


def demand_author(row: Proposal, actor: str) -> None:
    """Nobody else changes or takes back what somebody proposes."""
    if not is_own(row, actor):
        raise Refused("not_yours", f"this is a change of {row.created_by}", "reject it, or propose one of your own")


def demand_approver(row: Proposal, actor: str, content_hash: str) -> None:
    """Somebody else says yes, to what it says now."""
    _demand_another(row, actor, "nobody approves a change of their own", "ask somebody else who may edit policies")
    if content_hash != row.content_hash:
        message = f"{row.created_by} has edited it since you looked"
        raise Refused("edited", message, "read what it says now, and decide again", "content_hash")


def demand_rejecter(row: Proposal, actor: str, reason: str) -> None:
    """Somebody else says no, and why."""
    _demand_another(row, actor, "this is your own change", "withdraw it instead")
    if not reason.strip():
        raise Refused("bad_field", "the reason is missing", "say what would have to be different", "reason")


def decide(row: Proposal, actor: str, reason: str, now: datetime) -> None:
    """Write down who decided, when and why."""
    if len(reason) > LONGEST_DECISION:
        raise Refused("bad_field", "the reason is too long", f"use up to {LONGEST_DECISION} characters", "reason")
    row.decided_by, row.decided_at, row.decision = actor, now, reason.strip()


def _demand_another(row: Proposal, actor: str, message: str, mend: str) -> None:
    if not loosening.is_approved(row.created_by, actor):
        raise Refused("own_change", message, mend)
