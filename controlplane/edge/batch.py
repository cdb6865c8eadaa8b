"""POST batch: decode, take, count, answer; and see to it that what it speaks against is considered."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import redis.asyncio
import structlog
from django.db import Error as DatabaseError

from controlplane.delivery.hub import Hub
from controlplane.edge.considering import Considering
from controlplane.edge.http import Headers, Problem, Receive, Send, answer, body_of
from controlplane.edge.load import Load
from controlplane.edge.misfit import misfit
from controlplane.evidence import counters
from controlplane.services import agent_probes
from controlplane.services.ingest import Batch, Caller, Capped, Foreign, Intake, Taken
from controlplane.threads import Threads

_decode = msgspec.json.Decoder(Batch).decode

log = structlog.get_logger(__name__)


class Batches:
    """The batch route of one process."""

    def __init__(
        self, intake: Intake, client: redis.asyncio.Redis, considering: Considering, hub: Hub, threads: Threads
    ) -> None:
        self._intake = intake
        self._threads = threads
        self._hub = hub
        self._redis = client
        self._considering = considering
        self._load = Load()

    async def serve(self, caller: Caller, headers: Headers, receive: Receive, send: Send) -> None:
        """Take one batch and answer; what is acknowledged is committed, whatever fails after it."""
        started = time.monotonic()
        batch = decoded(await body_of(receive, headers))
        _check_belongs(caller, batch)
        taken = await self._take(caller, batch)
        offers = await self._attend(caller, batch) if batch.probe_hosts or batch.probes else []
        await self._follow(taken)
        if (batch.trips or batch.runs or batch.overrides) and not taken.repeat:
            self._hub.happened(caller.environment_id)
        self._load.took(time.monotonic() - started)
        await answer(send, 200, msgspec.json.encode(self._answer(taken) | {"probes": offers}))

    async def _take(self, caller: Caller, batch: Batch) -> Taken:
        try:
            return await self._intake.take(caller, batch)
        except Foreign:
            mend = "start a new session with an id of its own"
            raise Problem(409, "foreign_session", "the session is another key's or instance's", mend) from None
        except Capped as cap:
            mend = "send the batch again after Retry-After"
            raise Problem(429, "capped", str(cap), mend, retry_after_s=cap.retry_after_s) from None

    async def _attend(self, caller: Caller, batch: Batch) -> list[dict[str, Any]]:
        """Results of probes that it sent, and the next one; the batch is taken whatever becomes of it."""
        worker_id = self._intake.worker_of(batch.session)
        if worker_id is None:
            return []
        try:
            return await self._threads.run(agent_probes.attend, caller, worker_id, batch)
        except DatabaseError as error:
            log.warning("not_attended", error=type(error).__name__)
            return []

    async def _follow(self, taken: Taken) -> None:
        if taken.repeat:
            counters.owe(taken.rows)
            return
        try:
            await counters.count(self._redis, taken.rows)
        except Exception as error:
            log.warning("not_counted", error=type(error).__name__)
        for dependency_id in taken.consider:
            self._considering.ask(dependency_id)
        for wait in taken.waits:
            self._considering.lengthen(wait)

    def _answer(self, taken: Taken) -> dict[str, Any]:
        return {
            "ack": taken.ack,
            "repeat": taken.repeat,
            "flush_s": self._load.flush_s,
            "now": taken.now,
            "config": [taken.epoch, taken.config],
            "circuits_version": [taken.epoch, taken.circuits_version],
            "circuits": taken.circuits,
            "flush_now": [slug for slug, entry in taken.circuits.items() if entry["suspected"]],
            "notes": [{"code": code, "message": message} for code, message in taken.notes.items()],
        }


def decoded(body: bytes) -> Batch:
    """The typed batch; Problem says which field does not fit, and what would."""
    try:
        body.decode()
        return _decode(body)
    except UnicodeDecodeError:
        raise Problem(400, "bad_encoding", "the body is not UTF-8", "send JSON in UTF-8") from None
    except msgspec.ValidationError as error:
        raise _bad_field(str(error)) from None
    except (msgspec.DecodeError, RecursionError):
        raise Problem(400, "bad_json", "the body is not JSON", "send one JSON object; NaN is none") from None


def _bad_field(text: str) -> Problem:
    message, field = misfit(text)
    return Problem(422, "bad_field", message, _mend(message), field=field)


def _mend(message: str) -> str:
    if "array` of length <=" in message:
        return "send fewer entries in one batch"
    if "calls in one slice" in message:
        return "send what was counted, as several slices where it was that much"
    if "all calls of the slice" in message:
        return "count there only calls that `counts` counts, too"
    if "missing required" in message:
        return "add the field"
    if "unknown field" in message:
        return "leave the field out; outcomes are those of the protocol"
    return "send what is expected there, or leave the named entry out and send the rest with the same number"


def _check_belongs(caller: Caller, batch: Batch) -> None:
    if batch.environment not in (None, caller.environment):
        mend = f"use a key of {batch.environment}, or send to {caller.environment}"
        raise Problem(403, "wrong_environment", "the key belongs to another environment", mend, field="environment")
    if batch.agent not in (None, caller.agent):
        raise Problem(403, "wrong_agent", "the key belongs to another agent", "use that agent's own key", field="agent")
