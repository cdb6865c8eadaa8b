"""The Board of one team or one agent: the same fleet, narrowed; what lies outside is counted, never hidden."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection

from controlplane.models import Dependency, Environment
from controlplane.selectors.board import Board, Need, WorkerFault
from controlplane.selectors.fleet import Cell
from controlplane.selectors.matters import Matter

NOT_CLOSED = "not_closed"
STATES = (NOT_CLOSED, "locked_out", "open", "half_open", "suspected", "forced", "closed")

USES_WITHIN = timedelta(days=7)
"""Who called a dependency this recently uses it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of the fleet; empty means all of it."""

    agent: str = ""
    owner: str = ""
    state: str = ""

    @property
    def narrowed(self) -> bool:
        """Whether anything is chosen."""
        return self != Wanted()

    def has(self, kind: str) -> bool:
        """Whether a circuit that stands like this is wanted."""
        return self.state in ("", kind) or (self.state == NOT_CLOSED and kind != "closed")


@dataclass(frozen=True, slots=True)
class Part:
    """What is shown, and how much that wants a human is not."""

    needs: list[Need]
    faults: list[WorkerFault]
    matters: list[Matter]
    fleet: list[Cell]
    outside: int = 0


def part(board: Board, wanted: Wanted) -> Part:
    """The part of the Board that is wanted."""
    if not wanted.narrowed:
        return Part(board.needs, board.faults, board.matters, board.fleet)
    ids = _circuits(board, wanted)
    needs = [one for one in board.needs if one.standing.row.pk in ids and wanted.has(one.kind)]
    faults = [one for one in board.faults if one.standing.row.pk in ids and wanted.has(one.standing.kind)]
    fleet = [one for one in board.fleet if one.circuit_id in ids and wanted.has(one.kind)]
    matters = _matters(board.matters, {one.circuit_id for one in fleet})
    return Part(needs, faults, matters, fleet, board.watching - len(needs) - len(faults) - len(matters))


def _matters(every: list[Matter], ids: set[int]) -> list[Matter]:
    """Of each kind the alerts about these circuits; what is about none of them is everybody's."""
    kept = [
        Matter(one.kind, [each for each in one.causes if each.circuit_id is None or each.circuit_id in ids])
        for one in every
    ]
    return [one for one in kept if one.causes]


def owners(environment: Environment) -> list[str]:
    """The teams that answer for something here."""
    named = Dependency.objects.filter(environment=environment).exclude(owner="")
    return sorted(set(named.order_by().values_list("owner", flat=True).distinct()))


def _circuits(board: Board, wanted: Wanted) -> set[int]:
    rows = Dependency.objects.filter(environment=board.environment).order_by()
    if wanted.owner:
        rows = rows.filter(owner=wanted.owner)
    if wanted.agent:
        rows = rows.filter(pk__in=_used_by(board, wanted.agent))
    return set(rows.values_list("circuit", flat=True))


_USES = """
WITH one AS (SELECT id FROM controlplane_agent WHERE environment_id = %(environment)s AND slug = %(agent)s)
SELECT dependency_id FROM rollup_hour
WHERE environment_id = %(environment)s AND agent_id = (SELECT id FROM one) AND at >= %(since)s
UNION
SELECT dependency_id FROM observation
WHERE environment_id = %(environment)s AND agent_id = (SELECT id FROM one) AND received_at >= %(lately)s
"""


def _used_by(board: Board, agent: str) -> set[int]:
    """What an agent called: from sums of whole hours, and from rows that may not have been summed up yet."""
    lately, since = board.now - timedelta(hours=1), board.now - USES_WITHIN
    values: dict[str, Any] = {"environment": board.environment.pk, "agent": agent, "since": since, "lately": lately}
    with connection.cursor() as cursor:
        cursor.execute(_USES, values)
        return {key for (key,) in cursor.fetchall()}
