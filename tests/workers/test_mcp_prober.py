"""The MCP prober against a server from the official SDK, over both transports, and against some that misbehave."""

import json
import time

import pytest
from recloser.core.types import Verdict

from tests.workers.kinds import ask, asks
from tests.workers.vendor import hang, reply

both = pytest.mark.parametrize(("transport", "path"), [("streamable_http", "/mcp"), ("sse", "/sse")])


async def probe(servers, path, **spec):
    server = servers["mcp"]
    return await ask("mcp", {"url": f"http://vendor.example:{server.port}{path}", **spec})


@both
async def test_it_introduces_itself_lists_and_calls(servers, transport, path):
    found = await probe(
        servers, path, transport=transport, expected=["search"], call_tool="search", call_arguments={"query": "ping"},
        body_condition={"kind": "contains", "value": "results for ping"},
    )  # fmt: skip

    assert found.ruling() == (Verdict.GOOD, "passed", False), found.answered()
    assert [each["name"] for each in found.conditions] == ["listed", "body"]
    assert found.asked["method"] == "initialize, tools/list, tools/call search"
    assert servers["mcp"].called[-1] == "ping"


@both
async def test_a_json_condition_looks_at_the_structured_result(servers, transport, path):
    condition = {"kind": "json_equals", "path": "$.result", "value": "results for ping"}
    found = await probe(
        servers,
        path,
        transport=transport,
        call_tool="search",
        call_arguments={"query": "ping"},
        body_condition=condition,
    )

    assert found.ruling().verdict is Verdict.GOOD, found.answered()


@both
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"expected": ["search", "absent"]}, (Verdict.BAD, "listed", False)),
        ({"call_tool": "fail"}, (Verdict.BAD, "tools/call", False)),
        ({"call_tool": "absent"}, (Verdict.INCONCLUSIVE, "bad_request", True)),
        ({"call_tool": "search", "call_arguments": {}}, (Verdict.BAD, "tools/call", False)),
    ],
)
async def test_what_is_missing_or_fails_is_named(servers, transport, path, spec, expected):
    found = await probe(servers, path, transport=transport, **spec)

    assert found.ruling() == expected, found.answered()


async def test_a_session_is_given_back_and_kept_nowhere(vendor):
    def answers(seen):
        message = json.loads(seen.body or "{}")
        result = {"tools": [{"name": "search"}]} if message.get("method") == "tools/list" else {}
        return json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result})

    async def mcp(seen, writer):
        headers = {"Mcp_Session_Id": "session-77777", "Content_Type": "application/json"}
        await reply(200, "" if seen.method == "DELETE" else answers(seen), **headers)(seen, writer)

    vendor.routes["/mcp"] = mcp
    found = await ask("mcp", asks("mcp", vendor.port), secrets={"Authorization": "Bearer s3cret-token"})

    assert found.ruling().verdict is Verdict.GOOD, found.answered()
    assert [each.method for each in vendor.seen] == ["POST", "POST", "POST", "DELETE"]
    assert {each.headers.get("mcp-session-id") for each in vendor.seen[1:]} == {"session-77777"}
    assert {each.headers["authorization"] for each in vendor.seen} == {"Bearer s3cret-token"}
    assert "s3cret" not in json.dumps([found.asked, found.answered()])


async def test_a_server_that_hangs_after_its_first_answer_ends_at_the_time_limit(vendor):
    async def mcp(seen, writer):
        if b"initialize" not in seen.body or b"notifications" in seen.body:
            return await hang(seen, writer)
        told = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}})
        await reply(200, told, Mcp_Session_Id="session-77777", Content_Type="application/json")(seen, writer)

    vendor.routes["/mcp"] = mcp
    began = time.monotonic()
    found = await ask("mcp", asks("mcp", vendor.port), limit=0.3)

    assert found.ruling()[:2] == (Verdict.BAD, "timeout")
    assert time.monotonic() - began < 4


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (503, "", (Verdict.BAD, "status")),
        (401, "", (Verdict.INCONCLUSIVE, "bad_request")),
        (307, "", (Verdict.BAD, "status")),
        (200, "<html>welcome</html>", (Verdict.BAD, "initialize")),
        (200, '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "x"}}', (Verdict.BAD, "initialize")),
        (200, '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602}}', (Verdict.INCONCLUSIVE, "bad_request")),
        (200, "[" * 100_000, (Verdict.BAD, "initialize")),
    ],
)
async def test_each_answer_to_the_first_request_has_its_verdict(vendor, status, body, expected):
    vendor.routes["/mcp"] = reply(status, body, Content_Type="application/json", Location="http://10.0.0.1/")

    assert (await ask("mcp", asks("mcp", vendor.port))).ruling()[:2] == expected
    assert len(vendor.seen) == 1


async def test_an_endpoint_on_another_host_gets_nothing(vendor):
    vendor.routes["/sse"] = reply(200, "event: endpoint\r\ndata: http://evil.example/post\r\n\r\n")
    spec = {"url": f"http://vendor.example:{vendor.port}/sse", "transport": "sse"}
    found = await ask("mcp", spec, secrets={"Authorization": "Bearer s3cret-token"})

    assert found.ruling()[:2] == (Verdict.BAD, "refused_redirect")


async def test_an_endless_stream_is_read_no_further_than_the_cap(vendor):
    async def endless(seen, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"data: {}\n\n" * 5000)
            await writer.drain()

    vendor.routes["/mcp"] = endless
    found = await ask("mcp", asks("mcp", vendor.port))

    assert found.ruling()[:2] == (Verdict.BAD, "broken_answer")
    assert "longer" in found.detail
