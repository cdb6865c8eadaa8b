"""Keys of agents, and whose word counts: issue, revoke, recognise, quarantine."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction

from controlplane.evidence import live
from controlplane.models import Agent, AgentKey, Environment, Worker
from controlplane.services import audit
from controlplane.services.errors import Refused

LOOKUP = """
SELECT k.id, k.digest, k.agent_id, k.environment_id, a.slug AS agent, e.slug AS environment,
       k.quarantined_at IS NOT NULL AS quarantined
FROM controlplane_agentkey k
JOIN controlplane_agent a ON a.id = k.agent_id
JOIN controlplane_environment e ON e.id = k.environment_id
WHERE k.prefix = %s AND k.revoked_at IS NULL
"""
"""How the edge finds a key by its prefix; `matches` then compares the digest."""

_TOKEN = re.compile(r"rcl_([0-9A-Za-z]{1,16})_([0-9A-Za-z_-]{32,128})", re.ASCII)


class Token(NamedTuple):
    """A key as its holder sends it, taken apart; the secret itself is not kept."""

    prefix: str
    digest: str


def read_token(text: str) -> Token | None:
    """`rcl_PREFIX_SECRET` as prefix and digest; None if it has not that shape."""
    found = _TOKEN.fullmatch(text)
    return Token(found[1], _digest(found[2])) if found else None


def matches(token: Token, digest: str) -> bool:
    """Compare digests in constant time."""
    return hmac.compare_digest(token.digest, digest)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@audit.refusals("issue_key")
@transaction.atomic
def issue_key(*, environment: Environment, agent: Agent, label: str, actor: str, now: datetime) -> tuple[AgentKey, str]:
    """A new key of the agent, and its token, which is shown this once and stored nowhere."""
    if agent.environment_id != environment.pk:
        mend = f"choose an agent of {environment.slug}"
        raise Refused("wrong_environment", f"{agent.slug} belongs to another environment", mend, "agent")
    if len(label) > 100:
        raise Refused("bad_field", "the label is too long", "use up to 100 characters", "label")
    prefix, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    key = AgentKey.objects.create(
        environment=environment,
        agent=agent,
        prefix=prefix,
        digest=_digest(secret),
        label=label,
        created_at=now,
        created_by=actor,
    )
    _audit(actor, "issue_key", key, environment.pk, detail={"label": label})
    return key, f"rcl_{prefix}_{secret}"


@transaction.atomic
def revoke_key(*, key: AgentKey, actor: str, now: datetime, reason: str = "") -> bool:
    """End a key for good; False if it had ended before."""
    ended = AgentKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now)
    if ended:
        _audit(actor, "revoke_key", key, key.environment_id, reason=reason)
    return bool(ended)


@audit.refusals("quarantine_key")
@transaction.atomic
def quarantine_key(*, key: AgentKey, actor: str, reason: str, now: datetime) -> bool:
    """From now on the key's evidence is recorded and not counted, nor what it reported before; False if it was so."""
    return _quarantine(key, "quarantine_key", actor, reason, now)


@audit.refusals("quarantine_worker")
@transaction.atomic
def quarantine_worker(*, worker: Worker, actor: str, reason: str, now: datetime) -> bool:
    """The same for one worker."""
    return _quarantine(worker, "quarantine_worker", actor, reason, now)


@transaction.atomic
def lift_quarantine(*, target: AgentKey | Worker, actor: str, reason: str, now: datetime) -> bool:
    """Count again from now on; False if there was no quarantine."""
    changes = {"quarantined_at": None, "quarantined_by": "", "quarantine_reason": ""}
    lifted = type(target)._default_manager.filter(pk=target.pk, quarantined_at__isnull=False).update(**changes)
    if lifted:
        _audit(actor, "lift_quarantine", target, target.environment_id, reason=reason)
        _forget(target.environment_id)
    return bool(lifted)


def _quarantine(target: AgentKey | Worker, action: str, actor: str, reason: str, now: datetime) -> bool:
    said = reason.strip()
    if not said or len(said) > 500:
        mend = "say in up to 500 characters why its word does not count"
        raise Refused("bad_field", "the reason is missing or too long", mend, "reason")
    changes = {"quarantined_at": now, "quarantined_by": actor, "quarantine_reason": said}
    done = type(target)._default_manager.filter(pk=target.pk, quarantined_at=None).update(**changes)
    if done:
        _audit(actor, action, target, target.environment_id, reason=said)
        _forget(target.environment_id)
    return bool(done)


def _forget(environment_id: int) -> None:
    """Other processes see it within a second; this one at once."""
    live.forget(environment_id)
    transaction.on_commit(lambda: live.forget(environment_id))


def _audit(
    actor: str,
    action: str,
    target: AgentKey | Worker,
    environment_id: int,
    *,
    reason: str = "",
    detail: Mapping[str, Any] | None = None,
) -> None:
    audit.record(
        actor=actor,
        action=action,
        target=str(target),
        accepted=True,
        environment_id=environment_id,
        reason=reason,
        detail=detail,
    )
