"""The MCP prober: `initialize`, `tools/list`, and where wanted one `tools/call`, over the guarded client.

Our own few words of JSON-RPC: the official client resolves and connects by itself, past the guard, and takes seconds to
load.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

import httpx
from recloser import __version__
from recloser.core.probe import Fault

from controlplane.probe_spec.conditions import JSON_EQUALS
from controlplane.probe_spec.mcp import SSE, McpSpec
from workers.egress import BODY_CAP, GuardedBackend
from workers.probers import web
from workers.probers.answer import Fell, Findings, Unmet

PROTOCOL = "2025-06-18"
MOST_PAGES = 10
PARTING_S = 0.3
"""What giving a session back may take, beyond the time limit."""

_ASKED_BADLY = frozenset({-32600, -32601, -32602})
_ACCEPTED = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_HELLO = {
    "protocolVersion": PROTOCOL,
    "capabilities": {},
    "clientInfo": {"name": "recloser-probe", "version": __version__},
}


def asked(spec: McpSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The calls, and the headers that they carry."""
    calls = ["initialize", "tools/list", *([f"tools/call {spec.call_tool}"] if spec.call_tool else [])]
    return {
        "method": ", ".join(calls),
        "address": web.shown(spec.url, secrets),
        "headers": web.shown_headers(spec.headers, secrets),
    }


async def converse(
    spec: McpSpec, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
) -> None:
    """Introduce ourselves, list, call."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(web.client(backend, time_limit_s, kept=2))
        kind = _Sse if spec.transport == SSE else _Streamable
        talk = kind(http, spec.url, {**spec.headers, **secrets}, found)
        stack.push_async_callback(talk.end)
        await talk.begin()
        told = await talk.ask("initialize", _HELLO)
        talk.version = str(told.get("protocolVersion") or PROTOCOL)[:40]
        await talk.tell("notifications/initialized")
        found.seen.listed = await _listed(talk)
        if spec.call_tool:
            await _call(spec, talk, found)


async def _listed(talk: "_Talk") -> frozenset[str]:
    """The names of all tools, page by page."""
    names: set[str] = set()
    cursor: dict[str, Any] = {}
    for _ in range(MOST_PAGES):
        page = await talk.ask("tools/list", cursor)
        tools = page.get("tools")
        if not isinstance(tools, list):
            raise Unmet("tools/list", "a list of tools", "something else")
        names |= {str(each.get("name")) for each in tools if isinstance(each, dict)}
        if not page.get("nextCursor"):
            break
        cursor = {"cursor": page["nextCursor"]}
    return frozenset(names)


async def _call(spec: McpSpec, talk: "_Talk", found: Findings) -> None:
    if spec.call_tool not in (found.seen.listed or ()):
        raise Fell(Fault.BAD_REQUEST, "the server lists no tool of the name that is to be called")
    told = await talk.ask("tools/call", {"name": spec.call_tool, "arguments": dict(spec.call_arguments)})
    if told.get("isError"):
        raise Unmet("tools/call", "a result", "an error")
    parts = [each for each in told.get("content") or [] if isinstance(each, dict)]
    text = "\n".join(str(each.get("text", "")) for each in parts)
    wants_json = spec.body_condition is not None and spec.body_condition.kind == JSON_EQUALS
    structured = told.get("structuredContent")
    found.seen.body = json.dumps(structured) if wants_json and structured is not None else text


class _Talk:
    """Requests and their answers, whatever carries them."""

    version = ""

    def __init__(self, http: httpx.AsyncClient, url: str, headers: Mapping[str, str], found: Findings) -> None:
        self._http, self._url, self._found = http, httpx.URL(url), found
        self._headers = {**_ACCEPTED, **headers}
        self._numbers = itertools.count(1)

    async def begin(self) -> None:
        """Whatever must stand before the first request."""

    async def end(self) -> None:
        """Leave nothing behind."""

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a request."""
        number = next(self._numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params)}
        return _result(method, await self._exchange(message, number))

    async def tell(self, method: str) -> None:
        """Something that is not answered."""
        await self._exchange({"jsonrpc": "2.0", "method": method}, None)

    async def _exchange(self, message: dict[str, Any], number: int | None) -> Any:
        raise NotImplementedError

    def _request(self, method: str, url: httpx.URL, message: Any = None, **more: str) -> httpx.Request:
        versioned = {"MCP-Protocol-Version": self.version} if self.version else {}
        headers = {**self._headers, **versioned, **more}
        return self._http.build_request(method, url, headers=headers, json=message)

    def _demand_ok(self, response: httpx.Response) -> None:
        if response.status_code // 100 != 2:
            raise Unmet("status", "200-299", response.status_code)


class _Streamable(_Talk):
    """Each message is a POST of its own; its answer is JSON, or a stream that holds it."""

    _session: dict[str, str] = {}

    async def _exchange(self, message: dict[str, Any], number: int | None) -> Any:
        request = self._request("POST", self._url, message, **self._session)
        async with web.exchange(self._http, request, self._found) as response:
            self._demand_ok(response)
            if session := response.headers.get("mcp-session-id"):
                self._session = {"Mcp-Session-Id": session}
                self._found.hidden["session"] = session
            if number is None:
                return None
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                return await _awaited(_events(response), number)
            return _json(await web.read_body(response, self._found))

    async def end(self) -> None:
        """Give the session back; a server that does not care may say so."""
        if self._session:
            request = self._request("DELETE", self._url, **self._session)
            with suppress(httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(PARTING_S):
                    response = await self._http.send(request, stream=True)
                    await response.aclose()


class _Sse(_Talk):
    """One stream for all answers; it names the address that messages are posted to."""

    async def begin(self) -> None:
        """Open the stream and read where to post."""
        request = self._request("GET", self._url, Accept="text/event-stream")
        self._stream = await self._http.send(request, stream=True)
        web.note(self._stream, self._found)
        self._demand_ok(self._stream)
        self._events = _events(self._stream)
        async for kind, data in self._events:
            if kind == "endpoint":
                self._post_to = self._url.join(data)
                break
        else:
            raise Unmet("initialize", "an endpoint", "none")
        if web.origin(self._post_to) != web.origin(self._url):
            raise Fell(Fault.REFUSED_REDIRECT, "its endpoint is on another host, to which nothing is carried")

    async def _exchange(self, message: dict[str, Any], number: int | None) -> Any:
        request = self._request("POST", self._post_to, message)
        response = await self._http.send(request, stream=True)
        await response.aclose()
        self._demand_ok(response)
        return None if number is None else await _awaited(self._events, number)

    async def end(self) -> None:
        """Close the stream."""
        if hasattr(self, "_stream"):
            await self._stream.aclose()


async def _awaited(events: AsyncIterator[tuple[str, str]], number: int) -> Any:
    """The message that answers this request; others on the stream are the server's own."""
    async for _, data in events:
        message = _json(data)
        if isinstance(message, dict) and message.get("id") == number and "method" not in message:
            return message
    raise Fell(Fault.BROKEN, "the stream ended before the answer")


async def _events(response: httpx.Response) -> AsyncIterator[tuple[str, str]]:
    """Server-sent events: the kind and the data of each."""
    left, heard = b"", 0
    async for chunk in response.aiter_raw():
        heard += len(chunk)
        if heard > BODY_CAP:
            raise Fell(Fault.BROKEN, "the stream is longer than a probe reads")
        left = (left + chunk).replace(b"\r\n", b"\n")
        while b"\n\n" in left:
            event, left = left.split(b"\n\n", 1)
            yield _event(event.decode(errors="replace"))


def _event(text: str) -> tuple[str, str]:
    pairs = [(name, value.removeprefix(" ")) for name, _, value in (line.partition(":") for line in text.split("\n"))]
    kind = next((value for name, value in pairs if name == "event"), "message")
    return kind, "\n".join(value for name, value in pairs if name == "data")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _result(method: str, message: Any) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise Unmet(method, "an answer in JSON-RPC", "something else")
    error = message.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        if code in _ASKED_BADLY:
            raise Fell(Fault.BAD_REQUEST, f"the server refused {method} ({code})")
        raise Unmet(method, "a result", f"error {code}" if isinstance(code, int) else "an error")
    result = message.get("result")
    if not isinstance(result, dict):
        raise Unmet(method, "a result", "none")
    return result
