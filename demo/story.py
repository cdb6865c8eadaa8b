"""What happened so far, from the database and the vendors: told line by line, and summed up as JSON."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from demo.cast import ENVIRONMENT, OUTAGE_AT
from demo.history import LEAD_S, History
from demo.stage import Stage

QUIET_RUNS = 3
"""Runs that must have gone without the tool before the story counts as told."""


class Story:
    """Reads the control plane's own records; call it only after Django is set up."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._seen = 0
        self._down: bool | None = None
        self._history = History()

    def news(self) -> Iterator[str]:
        """One line for each thing that happened since the last call."""
        down = self._history.at(time.time() - self.stage.begin).down
        if down != self._down and (self._down is not None or down):
            yield f"the vendor's {OUTAGE_AT} {'stops answering' if down else 'works again'}"
        self._down = down
        for row in self._transitions().filter(pk__gt=self._seen):
            self._seen = row.pk
            yield f"circuit {row.circuit.dependency.slug}: {row.from_state} -> {row.to_state} ({_why(row)})"

    def told(self) -> bool:
        """The outage of the demo has been opened, closed and felt."""
        summary = self.summary()
        runs = summary["runs"]
        return not summary["missing"] and runs["degraded"] >= QUIET_RUNS

    def summary(self) -> dict[str, Any]:
        """The figures; `missing` names the parts of the story that have not happened."""
        circuits, runs = self._circuits(), self._runs()
        calls = {group: self._stats(group) for group in self.stage.vendors}
        happened = {
            "a circuit opened on fleet evidence": circuits["opened"] > 0,
            "a probe passed and the circuit closed": circuits["closed"] > 0,
            "runs were degraded": runs["degraded"] > 0,
            "an undisclosed run was found": runs["undisclosed"] > 0,
            "the vendor was spared": _spared(calls),
        }
        return {
            "circuits": circuits,
            "vendor_calls_while_down": {group: one["calls_while_down"] for group, one in calls.items()}
            | {"probes": calls["with_recloser"]["probes_while_down"]},
            "runs": runs,
            "missing": [part for part, true in happened.items() if not true],
        }

    def _transitions(self) -> Any:
        from controlplane.models import Transition

        begin = datetime.fromtimestamp(self.stage.begin, UTC)
        rows = Transition.objects.filter(circuit__environment__slug=ENVIRONMENT, at__gte=begin)
        return rows.select_related("circuit__dependency").order_by("pk")

    def _circuits(self) -> dict[str, Any]:
        rows = [row for row in self._transitions() if row.circuit.dependency.slug == OUTAGE_AT]
        opened = [row for row in rows if row.from_state == "closed" and row.to_state == "open"]
        closed = [row for row in rows if row.to_state == "closed" and row.cause == "probe_passed"]
        down_at = self.stage.begin + LEAD_S
        return {
            "opened": len(opened),
            "closed": len(closed),
            "cause": opened[0].cause if opened else None,
            "seconds_from_outage_to_open": _since(down_at, opened),
            "seconds_from_recovery_to_closed": _since(self._recovered_at(), closed),
        }

    def _recovered_at(self) -> float:
        """When the first outage of the demo ends."""
        played = LEAD_S
        while self._history.at(played + 0.1).down:
            played += 0.1
        return self.stage.begin + played

    def _runs(self) -> dict[str, int]:
        from controlplane.models import Run

        begin = datetime.fromtimestamp(self.stage.begin, UTC)
        rows = Run.objects.filter(environment__slug=ENVIRONMENT, started_at__gte=begin).exclude(status="running")
        return {
            "finished": rows.count(),
            "degraded": rows.filter(degraded=True).count(),
            "undisclosed": rows.filter(degraded=True, disclosed=False).count(),
        }

    def _stats(self, group: str) -> dict[str, int]:
        url = f"{self.stage.vendors[group]}/_stats"
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 (our own vendor)
            calls = json.load(answer)["calls"]
        return {name: calls.get(name, 0) for name in ("calls_total", "calls_while_down", "probes_while_down")}


def _spared(calls: dict[str, dict[str, int]]) -> bool:
    return calls["with_recloser"]["calls_while_down"] < calls["without"]["calls_while_down"]


def _since(start: float, rows: list[Any]) -> float | None:
    return round(rows[0].at.timestamp() - start, 1) if rows else None


def _why(row: Any) -> str:
    """The cause with its evidence, or with who did it."""
    evidence = row.evidence or {}
    if row.to_state == "open" and "failures" in evidence:
        return (
            f"{row.cause}: {evidence['failures']} of {evidence['calls']} calls failed, {evidence['witnesses']} workers"
        )
    return f"{row.cause} by {row.actor}" if row.actor else row.cause
