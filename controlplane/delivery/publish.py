"""Hints on commit, for streams that would otherwise find the change a second later. Harmless when Redis is away."""

import json
import time
from collections.abc import Iterable
from typing import Any

import redis
import structlog
from django.db import transaction

from controlplane import redis_clients

CHANNEL = "recloser:hints"
PAUSE_S = 1.0
"""After a failure nobody waits for Redis again for so long."""

log = structlog.get_logger(__name__)

_silent_until = 0.0


def circuits_changed(environment_id: int) -> None:
    """Once committed: every stream of the environment gets the change."""
    _on_commit({"kind": "circuits", "environment": environment_id})


def config_changed(environment_id: int) -> None:
    """Once committed: every stream is told to fetch its config, and gets the circuits that changed with it."""
    _on_commit({"kind": "config", "environment": environment_id})


def flush_asked(environment_id: int, slugs: Iterable[str], within_ms: int) -> None:
    """Once committed: every agent is asked to send at once what it holds for these dependencies, jittered."""
    _on_commit({"kind": "flush", "environment": environment_id, "dependencies": sorted(slugs), "within_ms": within_ms})


def _on_commit(hint: dict[str, Any]) -> None:
    transaction.on_commit(lambda: _send(hint), robust=True)


def _send(hint: dict[str, Any]) -> None:
    global _silent_until
    if time.monotonic() < _silent_until:
        return
    try:
        redis_clients.blocking().publish(CHANNEL, json.dumps(hint))
    except (redis.RedisError, OSError) as error:
        _silent_until = time.monotonic() + PAUSE_S
        log.warning("hint_not_sent", error=type(error).__name__)
