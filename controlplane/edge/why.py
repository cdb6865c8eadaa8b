"""GET why: why a tool was missing from a run. An agent's key gets facts; a browser without one, the page for people."""

from __future__ import annotations

from uuid import UUID

import msgspec

from controlplane.edge.http import Headers, Problem, Scope, Send, answer, asked_once
from controlplane.edge.keys import Keys
from controlplane.selectors import why as selector
from controlplane.threads import Threads

LONGEST_NAME = 200


async def serve(threads: Threads, keys: Keys, headers: Headers, scope: Scope, send: Send) -> None:
    """What is known of the run and the tool that the query names; a run of another agent is none."""
    run, tool = _asked(scope)
    if b"authorization" not in headers and b"text/html" in headers.get(b"accept", b""):
        await answer(send, 303, headers={b"location": selector.page(run, tool).encode("ascii")})
        return
    caller = await keys.caller(headers)
    found = await threads.run(
        selector.answered, environment_id=caller.environment_id, agent_id=caller.agent_id, run_id=run, tool=tool
    )
    if found is None:
        mend = "look at the id, and use a key of the agent that ran it; a run is known once it has reported"
        raise Problem(404, "unknown_run", "this agent has reported no such run", mend, field="run")
    await answer(send, 200, msgspec.json.encode(found))


def _asked(scope: Scope) -> tuple[UUID, str]:
    """The run and the tool; Problem 422 where there is none that could be one."""
    try:
        run = UUID(asked_once(scope, "run"))
    except ValueError:
        raise Problem(422, "bad_field", "no run is named", "ask ?run=UUID&tool=NAME", field="run") from None
    tool = asked_once(scope, "tool")
    if not tool or len(tool) > LONGEST_NAME or not tool.isprintable():
        mend = f"ask ?run=UUID&tool=NAME, with up to {LONGEST_NAME} characters"
        raise Problem(422, "bad_field", "no tool is named", mend, field="tool")
    return run, tool
