"""GET explain: one tool's policies, each value with where it comes from. For people at a terminal, not for loops."""

from __future__ import annotations

import msgspec

from controlplane.edge.http import Problem, Scope, Send, answer, asked_once
from controlplane.selectors import explain
from controlplane.services.ingest import Caller
from controlplane.threads import Threads

LONGEST_NAME = 200


async def serve(threads: Threads, caller: Caller, scope: Scope, send: Send) -> None:
    """What the caller's environment says of the tool that the query names."""
    name = _name(scope)
    found = await threads.run(explain.explained, environment_id=caller.environment_id, name=name)
    named = {"environment": caller.environment, "agent": caller.agent}
    await answer(send, 200, msgspec.json.encode({**named, **found}))


def _name(scope: Scope) -> str:
    """The one name that is asked for; Problem 422 where there is none that could be a tool's."""
    name = asked_once(scope, "tool")
    if not name or len(name) > LONGEST_NAME or "\x00" in name:
        mend = f"ask ?tool=NAME once, with up to {LONGEST_NAME} characters"
        raise Problem(422, "bad_field", "no tool is named", mend, field="tool")
    return name
