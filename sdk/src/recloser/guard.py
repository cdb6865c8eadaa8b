"""What stands between a run and a tool, by the fleet's circuits and by this worker's breakers: answered from memory.

Dictionary look-ups on one snapshot; no I/O, no lock, nothing made when nothing stands in the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recloser.config_sync import CircuitView, DependencyRule, Snapshot, ToolRule
from recloser.core.circuit import Circuit, effective_of
from recloser.core.types import Delivery, Mode, Scope, SideEffectClass, Signal
from recloser.worker import WorkerBreakers


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One open circuit behind a tool. `test`: a worker's breaker that this run may test with its call."""

    dependency: DependencyRule
    scope: Scope
    signal: Signal | None
    wait_s: float | None
    test: bool = False


class Tap:
    """Leave for the short path: a tool under one snapshot, in a run where nothing is counted against it."""

    __slots__ = ("open", "rule", "snapshot")

    def __init__(self, rule: ToolRule, snapshot: Snapshot, open: Mapping[str, Circuit]) -> None:
        self.rule = rule
        self.snapshot = snapshot
        self.open = open


def obstacle(
    rule: ToolRule, snapshot: Snapshot, breakers: WorkerBreakers, began_at: float, now: float
) -> Obstacle | None:
    """What stops a call of a run that began then. A tool can be called when all its dependencies can."""
    if not snapshot.circuits and not breakers.open:
        return None
    test: Obstacle | None = None
    for dependency in rule.dependencies:
        view = snapshot.circuits.get(dependency.name)
        if view is not None:
            if found := _fleet(dependency, view, rule, snapshot, now):
                return found
            if _held_closed(view, snapshot.server_now(now)):
                continue
        if found := _worker(dependency, breakers, began_at, now):
            if not found.test:
                return found
            test = test or found
    return test


def _fleet(
    dependency: DependencyRule, view: CircuitView, rule: ToolRule, snapshot: Snapshot, now: float
) -> Obstacle | None:
    server_now = snapshot.server_now(now)
    if view.effective(server_now).admits:
        return None
    if view.mode is Mode.AUTO and _is_stale(dependency, snapshot, now) and _may_fall_back(rule):
        return None
    wait = None if view.due_at is None else max(0.0, view.due_at - server_now)
    return Obstacle(dependency, Scope.FLEET, view.signal(server_now), wait)


def _worker(dependency: DependencyRule, breakers: WorkerBreakers, began_at: float, now: float) -> Obstacle | None:
    circuit = breakers.open.get(dependency.name)
    if circuit is None or effective_of(circuit, dependency.policy.delivery, now).admits:
        return None
    wait = None if circuit.due_at is None else max(0.0, circuit.due_at - now)
    test = not breakers.blocks(dependency.name, began_at, now)
    return Obstacle(dependency, Scope.WORKER, circuit.tripped_by, wait, test)


def _held_closed(view: CircuitView, server_now: float) -> bool:
    """An operator holds it closed: the worker's own breaker gives way too, the run's never does."""
    return view.mode is Mode.FORCED_CLOSED and view.effective(server_now).admits and not view.expired(server_now)


def _is_stale(dependency: DependencyRule, snapshot: Snapshot, now: float) -> bool:
    heard = snapshot.heard.at
    return heard is None or now - heard > dependency.policy.stale_after_s


def _may_fall_back(rule: ToolRule) -> bool:
    """On a stale state a confirmed `read_only` tool relies on the worker's breaker; others keep the last state."""
    return rule.confirmed and rule.side_effect is SideEffectClass.READ_ONLY


def needs_hashes(rule: ToolRule, snapshot: Snapshot) -> bool:
    """Does any rule compare this tool's calls or results? If none does, nothing is hashed."""
    own, runs = rule.policy, snapshot.config.run_policy
    if own.delivery is Delivery.OFF:
        return False
    identical = own.identical_calls is not None and not own.identical_calls_exempt
    circles = runs.oscillation_cycles is not None and runs.oscillation_delivery is not Delivery.OFF
    still = runs.no_progress_steps is not None and runs.no_progress_delivery is not Delivery.OFF
    return identical or circles or still or own.repeat_at_once or not own.retry_ambiguous
