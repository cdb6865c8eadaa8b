"""An MCP probe: `initialize`, `tools/list`, and where wanted one `tools/call` of a tool known to be read-only."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from controlplane.probe_spec.conditions import BodyCondition, body_field, certificate_field, listed_field
from controlplane.probe_spec.fields import WebSpec, choice, plain_headers, refuse, said, text, web_address

STREAMABLE, SSE = "streamable_http", "sse"
LONGEST_ARGUMENTS = 8000


def _arguments(value: Any, where: str) -> dict[str, Any]:
    try:
        usable = isinstance(value, Mapping) and len(json.dumps(value)) <= LONGEST_ARGUMENTS
    except (ValueError, TypeError, RecursionError):
        usable = False
    if not usable:
        refuse(where, "these are no arguments", f"give a JSON object of at most {LONGEST_ARGUMENTS} characters")
    return dict(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSpec(WebSpec):
    """What an MCP server must list, and what one of its tools must answer."""

    KIND: ClassVar[str] = "mcp"
    LABEL: ClassVar[str] = "MCP server"
    EXERCISES: ClassVar[str] = "initialize and tools/list; with a tool named, one tools/call of it."

    url: str = said(web_address, label="Address", example="https://mcp.example.com/mcp", help="Of the MCP endpoint.")
    transport: str = said(
        choice(STREAMABLE, SSE),
        STREAMABLE,
        label="Transport",
        input="choice",
        choices=((STREAMABLE, "Streamable HTTP"), (SSE, "HTTP with SSE")),
    )
    headers: Mapping[str, str] = said(
        plain_headers, {}, label="Headers", input="headers", help="One a line. Nothing secret."
    )
    expected: tuple[str, ...] = listed_field(
        "Tools that must be listed", "Their names on the server, one a line. Empty: any list will do.", "search"
    )
    call_tool: str = said(
        text(longest=200),
        "",
        label="Tool to call",
        help="Only one that this dependency has, with the class read only confirmed. Empty: none is called.",
    )
    call_arguments: Mapping[str, Any] = said(
        _arguments, {}, label="Its arguments", input="json", example='{"query": "ping"}', help="A JSON object."
    )
    body_condition: BodyCondition | None = body_field("The tool's answer must hold")
    certificate_days: float | None = certificate_field()

    def check(self) -> None:
        """Arguments and a condition on the answer are for a call."""
        if not self.call_tool and self.call_arguments:
            refuse("call_arguments", "no tool is called", "name the tool, or leave the arguments out")
        if not self.call_tool and self.body_condition:
            refuse("body_condition", "no tool is called", "name the tool whose answer is meant, or leave this out")
