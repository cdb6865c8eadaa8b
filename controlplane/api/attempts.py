"""Rejected attempts to change something go on record, however many; nobody can fill the audit with them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from time import monotonic

from rest_framework.request import Request

from controlplane.api.authentication import without_secrets
from controlplane.api.errors import Problem
from controlplane.models import Environment
from controlplane.services import audit

ANONYMOUS_A_MINUTE = 60
"""In each process; what comes beyond is counted, and told with the next that is written down."""

NOBODY = "(nobody)"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
REJECTED = frozenset({"token_in_url", "unauthenticated", "bad_token", "revoked_token", "expired_token", "csrf",
                      "forbidden", "out_of_scope", "session_only"})  # fmt: skip


@dataclass(slots=True)
class _Meter:
    begun_at: float = 0.0
    written: int = 0
    left_out: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, now_s: float) -> int | None:
        """How many were left out since the last that was written; None for one that is left out itself."""
        with self.lock:
            if now_s - self.begun_at >= 60:
                self.begun_at, self.written = now_s, 0
            if self.written >= ANONYMOUS_A_MINUTE:
                self.left_out += 1
                return None
            self.written += 1
            told, self.left_out = self.left_out, 0
            return told


anonymous = _Meter()


def record(request: Request, problem: Problem, *, action: str, environment: str | None) -> None:
    """Write down an attempt that was refused for who made it; reading is no attempt."""
    if request.method in READING or problem.code not in REJECTED:
        return
    actor = _actor(request)
    left_out = anonymous.admit(monotonic()) if actor == NOBODY else 0
    if left_out is None:
        return
    audit.record(
        actor=actor,
        action=action,
        target=without_secrets(request.path)[:500],
        accepted=False,
        environment_id=Environment.objects.filter(slug=environment).values_list("pk", flat=True).first(),
        reason=problem.message,
        detail={"code": problem.code} | ({"left_out_before": left_out} if left_out else {}),
    )


def _actor(request: Request) -> str:
    """Who it was, as far as that was proven; asking again must not fail again."""
    user = getattr(request, "_user", None) or getattr(request._request, "user", None)
    return user.get_username() if user is not None and user.is_authenticated else NOBODY
