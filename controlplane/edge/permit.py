"""POST permit: a place for a run that may test, leave for its call, and how the call ended. The services decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from uuid import UUID

import msgspec
from recloser.core.types import Outcome

from controlplane import clock
from controlplane.edge.http import Headers, Problem, Receive, Send, answer, body_of
from controlplane.edge.misfit import misfit
from controlplane.services import permits
from controlplane.services.ingest import Caller
from controlplane.threads import Threads

MOST_BYTES = 4096
AT_ONCE, MOST_WAITING = 2, 32
"""Calls wait for their leave for 300 ms at most: whoever cannot be served by then is better told at once."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=31_536_000)]


class Place(msgspec.Struct, forbid_unknown_fields=True, tag_field="ask", tag="place"):
    """Keep a place for a run of this process that has yet to begin."""

    dependency: Name
    session: UUID
    instance: Name


class Claim(msgspec.Struct, forbid_unknown_fields=True, tag_field="ask", tag="claim"):
    """A candidate's call asks for leave."""

    place: UUID
    run: UUID
    tool: Name
    root_began_s_ago: Seconds


class Finish(msgspec.Struct, forbid_unknown_fields=True, tag_field="ask", tag="finish"):
    """The call that had leave has ended."""

    round: UUID
    outcome: Outcome
    retry_after_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] | None = None
    took_s: Seconds | None = None


Asked = Place | Claim | Finish
_decode: Callable[[bytes], Asked] = msgspec.json.Decoder(Asked).decode


class Permits:
    """The permit route of one process, with threads of its own: a claim never queues behind other work."""

    def __init__(self) -> None:
        self._threads = Threads(AT_ONCE, "permit")
        self._waiting = 0

    def close(self) -> None:
        """Take no more."""
        self._threads.close()

    async def serve(self, caller: Caller, headers: Headers, receive: Receive, send: Send) -> None:
        """Answer one request; what it grants is committed."""
        asked = decoded(await body_of(receive, headers))
        if self._waiting >= MOST_WAITING:
            raise Problem(503, "unavailable", "too many ask at once", "go on without leave", retry_after_s=2)
        self._waiting += 1
        try:
            found = await self._threads.run(_served, caller, asked)
        finally:
            self._waiting -= 1
        await answer(send, 200, msgspec.json.encode(found))


def _served(caller: Caller, asked: Asked) -> dict[str, Any]:
    now = clock.now()
    match asked:
        case Place():
            place = permits.keep_place(
                caller=caller, dependency=asked.dependency, session=asked.session, instance=asked.instance, now=now
            )
            return {
                "place": place.id, "reason": place.reason, "wait_s": place.wait_s, "generation": place.generation,
            }  # fmt: skip
        case Claim():
            permit = permits.claim(
                caller=caller, place=asked.place, run=asked.run, tool=asked.tool,
                root_began_s_ago=asked.root_began_s_ago, now=now,
            )  # fmt: skip
            return {"round": permit.round_id, "reason": permit.reason, "lease_s": permit.lease_s}
        case Finish():
            applied = permits.finish(
                caller=caller, round_id=asked.round, outcome=asked.outcome,
                retry_after_s=asked.retry_after_s, took_s=asked.took_s, now=now,
            )  # fmt: skip
            return {"applied": applied}


def decoded(body: bytes) -> Asked:
    """The typed request; Problem says what does not fit."""
    if len(body) > MOST_BYTES:
        raise Problem(413, "too_large", f"over {MOST_BYTES} bytes", "send one request as documented")
    try:
        return _decode(body)
    except msgspec.ValidationError as error:
        message, field = misfit(str(error))
        raise Problem(422, "bad_field", message[:300], "send `ask` as place, claim or finish", field=field) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Problem(400, "bad_json", "the body is not JSON", "send one JSON object in UTF-8") from None
