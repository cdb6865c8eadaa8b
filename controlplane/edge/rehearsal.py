"""POST /test/v1/…: the hand on a rehearsing server's clock, and what a case needs beside the agents' own routes.

The routes exist where `RECLOSER_TEST_CLOCK` is set; elsewhere there is nothing (404). Whoever holds an agent key may
begin; everything after goes with the key of the environment that was begun.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist

from controlplane import clock
from controlplane.edge.considering import Considering
from controlplane.edge.http import Headers, Problem, Receive, Scope, Send, answer, body_of
from controlplane.services import rehearsal
from controlplane.services.errors import Refused
from controlplane.services.ingest import Caller
from controlplane.threads import Threads

PREFIX = "/test/v1/"
ENOUGH_S = 20.0


def demand_leave() -> None:
    """Refuse to start where the clock must not be moved."""
    if (why := clock.refusal()) is not None:
        raise ImproperlyConfigured(f"RECLOSER_TEST_CLOCK is set, but {why}")


class Names(msgspec.Struct, forbid_unknown_fields=True):
    """Dependencies, and the tools in front of them."""

    dependencies: list[str]
    tools: dict[str, list[str]] = {}


class Policy(msgspec.Struct, forbid_unknown_fields=True):
    """One layer."""

    level: str
    values: dict[str, Any]
    owner: str | None = None


class Healthy(msgspec.Struct, forbid_unknown_fields=True):
    """What a step of a healthy run costs."""

    kind: str
    runs: int
    tokens_per_step: float | None = None
    cost_per_step: float | None = None


class Clock(msgspec.Struct, forbid_unknown_fields=True):
    """Either the moment that time has come to, or how far the wall clock jumps."""

    to: float | None = None
    jump_s: float | None = None


class Probe(msgspec.Struct, forbid_unknown_fields=True):
    """Without a round: ask for one. With it: its verdict."""

    dependency: str = ""
    round: UUID | None = None
    verdict: str = ""
    operation: str | None = None
    retry_after_s: float | None = None


class Order(msgspec.Struct, forbid_unknown_fields=True):
    """What an operator does."""

    dependency: str
    verb: str
    until: float | None = None


class Look(msgspec.Struct, forbid_unknown_fields=True):
    """What is asked about, beside the alerts."""

    run: UUID | None = None


class Rehearsals:
    """The routes of one process."""

    def __init__(self, threads: Threads, considering: Considering) -> None:
        self._threads = threads
        self._considering = considering
        self._on_stage: int | None = None

    async def serve(self, caller: Caller, headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        """One step of a case. It begins when all that was under way has ended, so that nothing is left to chance."""
        route = _ROUTES.get(scope["path"].removeprefix(PREFIX)) if scope["method"] == "POST" else None
        if route is None:
            raise Problem(404, "not_found", "there is no such route", f"POST to one of {', '.join(_ROUTES)}")
        wanted, act = route
        if act is not _begin and caller.environment_id != self._on_stage:
            mend = "begin, and go on with the key that begin gives"
            raise Problem(403, "not_on_stage", "the key is not of the environment that was begun last", mend)
        asked = _decoded(await body_of(receive, headers), wanted)
        await self._considering.quiet(ENOUGH_S)
        await answer(send, 200, msgspec.json.encode(await self._done(act, caller, asked)))

    async def _done(self, act: _Act, caller: Caller, asked: Any) -> Any:
        try:
            told = await self._threads.run(act, caller.environment_id, asked)
        except Refused as refused:
            raise Problem(422, refused.code, refused.message, refused.mend, field=refused.field) from None
        except ObjectDoesNotExist:
            raise Problem(422, "bad_field", "that name is unknown here", "set the names first") from None
        if act is _begin:
            self._on_stage = told.pop("id")
        return told


def _decoded(body: bytes, wanted: type[msgspec.Struct]) -> Any:
    try:
        return msgspec.json.decode(body or b"{}", type=wanted)
    except msgspec.DecodeError as error:
        raise Problem(422, "bad_field", str(error)[:200], "send what the route asks for") from None


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    pass


def _begin(_: int, asked: _Nothing) -> dict[str, Any]:
    stage = rehearsal.begin()
    told = {"environment": stage.environment, "key": stage.key, "now": stage.now.timestamp()}
    return {"id": stage.environment_id, **told}


def _end(_: int, asked: _Nothing) -> dict[str, Any]:
    rehearsal.end()
    return {}


def _names(environment_id: int, asked: Names) -> dict[str, Any]:
    rehearsal.set_names(environment_id=environment_id, dependencies=asked.dependencies, behind=asked.tools)
    return {}


def _policy(environment_id: int, asked: Policy) -> dict[str, Any]:
    rehearsal.set_policy(environment_id=environment_id, level=asked.level, values=asked.values, owner=asked.owner)
    return {}


def _baseline(environment_id: int, asked: Healthy) -> dict[str, Any]:
    rehearsal.set_baseline(environment_id=environment_id, **msgspec.structs.asdict(asked))
    return {}


def _clock(environment_id: int, asked: Clock) -> dict[str, Any]:
    if asked.to is not None:
        rehearsal.move_to(environment_id=environment_id, at=_instant(asked.to))
    if asked.jump_s is not None:
        rehearsal.step(by_s=asked.jump_s)
    return {"moves": rehearsal.moves(environment_id=environment_id)}


def _probe(environment_id: int, asked: Probe) -> dict[str, Any]:
    if asked.round is None:
        return {"round": rehearsal.start_probe(environment_id=environment_id, dependency=asked.dependency)}
    applied = rehearsal.end_probe(
        environment_id=environment_id,
        round_id=asked.round,
        verdict=asked.verdict,
        operation=asked.operation,
        retry_after_s=asked.retry_after_s,
    )
    return {"applied": applied}


def _operate(environment_id: int, asked: Order) -> dict[str, Any]:
    until = None if asked.until is None else _instant(asked.until)
    done = rehearsal.operate(environment_id=environment_id, dependency=asked.dependency, verb=asked.verb, until=until)
    return {"done": done}


def _store_loss(environment_id: int, asked: _Nothing) -> dict[str, Any]:
    return {"lost": rehearsal.lose_store(environment_id=environment_id)}


def _look(environment_id: int, asked: Look) -> dict[str, Any]:
    rehearsal.take_turn(environment_id=environment_id)
    missing = {} if asked.run is None else rehearsal.withdrawals(environment_id=environment_id, run=asked.run)
    return {"alerts": rehearsal.alerts_sent(environment_id=environment_id), "missing": missing}


def _instant(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


_Act = Callable[[int, Any], dict[str, Any]]

_ROUTES: dict[str, tuple[type[msgspec.Struct], _Act]] = {
    "begin": (_Nothing, _begin),
    "end": (_Nothing, _end),
    "names": (Names, _names),
    "policy": (Policy, _policy),
    "baseline": (Healthy, _baseline),
    "clock": (Clock, _clock),
    "probe": (Probe, _probe),
    "operate": (Order, _operate),
    "store-loss": (_Nothing, _store_loss),
    "look": (Look, _look),
}
