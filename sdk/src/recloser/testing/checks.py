"""What a test asks of a run: each raises `AssertionError` with what was found and what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recloser.core.wording import inviting
from recloser.run import Run, RunResult


def assert_healthy(result: RunResult) -> None:
    """The run lacked nothing."""
    if result.degraded:
        raise AssertionError(
            f"the run is degraded: it lacked {_lacked(result) or 'nothing'}, ended by {result.end_cause}"
        )


def assert_degraded(result: RunResult, *tools: str) -> None:
    """The run, or a child of it, lacked these tools; without a name: anything."""
    if not result.degraded:
        raise AssertionError("the run is not degraded: every tool was there from its first step to its last")
    for tool in tools:
        if tool not in _lacked(result):
            raise AssertionError(f"{tool} was not missing; what was: {', '.join(_lacked(result)) or 'nothing'}")


def assert_disclosed(result: RunResult) -> None:
    """What the reader gets says what was missing. A healthy run has nothing to say."""
    if result.degraded and not result.disclosed:
        raise AssertionError(
            f"the delivered text does not say what was missing; deliver report.text_with_disclosure(text), "
            f"which adds: {result.disclosure!r}"
        )


def assert_unavailable(answer: Any, tool: str | None = None) -> None:
    """The call was answered by Recloser, and did not reach the tool."""
    if not isinstance(answer, Mapping) or answer.get("status") != "unavailable":
        raise AssertionError(f"the call reached the tool, or was answered otherwise: {answer!r:.300}")
    if tool is not None and answer.get("tool") != tool:
        raise AssertionError(f"it is {answer.get('tool')} that is unavailable, not {tool}")


def assert_notice(run: Run, *tools: str) -> None:
    """The model is told of these tools, in words that invite no retry."""
    notice = run.notice()
    if notice is None:
        raise AssertionError("the run has no notice: nothing that it declared by run.tools(array) is missing")
    for tool in tools:
        if tool not in notice:
            raise AssertionError(f"the notice does not name {tool}: {notice!r}")
    if found := inviting(notice):
        raise AssertionError(f"the notice invites a retry by {found!r}: {notice!r}")


def _lacked(result: RunResult) -> list[str]:
    return _of(result.block)


def _of(block: Mapping[str, Any]) -> list[str]:
    below = [tool for child in block["children"] for tool in _of(child)]
    return [*(item["tool"] for item in block["items"]), *below]
