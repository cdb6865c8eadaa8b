"""What tools say of themselves: kept as each agent's claim, for a person who confirms a class; no class follows."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from controlplane import clock
from controlplane.models import Tool, ToolHints
from controlplane.services.ingest.names import Caller
from controlplane.services.ingest.wire import Hints

FIELDS = ("read_only", "destructive", "idempotent", "open_world")


@transaction.atomic
def keep_hints(caller: Caller, told: Sequence[Hints]) -> None:
    """Keep the last word of an agent on each tool that is known here; what it repeats changes nothing."""
    latest = {each.tool: each for each in told}
    tools = Tool.objects.filter(environment_id=caller.environment_id, name__in=latest).values_list("name", "id")
    ids = dict(tools)
    rows = ToolHints.objects.filter(agent_id=caller.agent_id, tool_id__in=ids.values())
    known = {row.tool_id: row for row in rows}
    changed = [_row(caller, ids[name], each) for name, each in latest.items() if name in ids]
    ToolHints.objects.bulk_create(
        [row for row in changed if _says(row) != _says(known.get(row.tool_id))],
        update_conflicts=True,
        unique_fields=["tool", "agent"],
        update_fields=[*FIELDS, "key", "told_at"],
    )


def _row(caller: Caller, tool_id: int, told: Hints) -> ToolHints:
    said = {name: getattr(told, name) for name in FIELDS}
    return ToolHints(tool_id=tool_id, agent_id=caller.agent_id, key_id=caller.key_id, told_at=clock.now(), **said)


def _says(row: ToolHints | None) -> tuple[bool | None, ...] | None:
    return None if row is None else tuple(getattr(row, name) for name in FIELDS)
