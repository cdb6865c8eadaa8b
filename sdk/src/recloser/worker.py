"""The worker's own breaker: the core's circuit over an in-memory window, one per dependency, for this process alone.

It is what protects an agent when the control plane is away, when the fleet's quorum is out of reach, and when this
worker is the only one that fails. Only a later run tests it, with one real call. A flood of names pushes out breakers
at rest, never one that is open. Instants are monotonic. The caller holds the client's lock for everything but `blocks`,
which reads one mapping that is replaced whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from typing import Any

from recloser.config_sync import DependencyRule, Pulse
from recloser.core.circuit import Breach, Circuit, finish_round, grant_round, judge, lengthen, shift, verdict_of
from recloser.core.policy import CircuitPolicy, worker_scope
from recloser.core.registry import Registry
from recloser.core.types import FAILURES, SUCCESSES, Outcome, State
from recloser.core.window import Window
from recloser.outbox import new_id

MAX_DEPENDENCIES = 500
LEASE_S = 600.0
"""A testing call is a tool's own call and may last; only a lost one must free the slot."""


class _Own:
    """One dependency as this process sees it."""

    __slots__ = ("circuit", "policy", "rule", "window")

    def __init__(self, rule: DependencyRule) -> None:
        self.rule = rule
        self.policy = _policy(rule)
        self.circuit = Circuit()
        self.window = Window(self.policy.window_s)

    def follow(self, rule: DependencyRule) -> None:
        """Take over an edited policy; state and samples stay."""
        if rule is not self.rule:
            self.rule, self.policy = rule, _policy(rule)


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerTrip:
    """This worker's breaker opened, or would have."""

    rule: DependencyRule
    breach: Breach
    enforced: bool


class WorkerBreakers:
    """All breakers of this process. `open` holds those that stop calls, by dependency."""

    def __init__(self, pulse: Pulse | None = None) -> None:
        self._own = Registry[_Own](at_rest=_at_rest, limit=MAX_DEPENDENCIES)
        self.open: Mapping[str, Circuit] = {}
        self._pulse = pulse or Pulse()

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._own)

    def failing(self, dependency: str) -> bool:
        """Is there a streak that a success would end?"""
        own = self._own.get(dependency)
        return own is not None and own.window.streak > 0

    def blocks(self, dependency: str, run_began_at: float, now: float) -> bool:
        """Does this breaker stop a call of a run that began then? A later run may ask for the test once it is due."""
        circuit = self.open.get(dependency)
        if circuit is None:
            return False
        assert circuit.opened_at is not None
        due = circuit.round is None and circuit.due_at is not None and now >= circuit.due_at
        return not (due and run_began_at > circuit.opened_at)

    def claim(self, rule: DependencyRule, now: float) -> str | None:
        """Take the one testing call of a due breaker; None if another run has it."""
        own = self._own.get(rule.name)
        if own is None or own.circuit.state is State.CLOSED:
            return None
        grant = grant_round(own.circuit, own.policy, now, new_id())
        self._set(own, grant.circuit)
        return grant.circuit.round.id if grant.granted and grant.circuit.round else None

    def finish(self, dependency: str, round_id: str, outcome: Outcome, now: float, **more: Any) -> None:
        """The testing call has ended."""
        own = self._own.get(dependency)
        if own is None:
            return
        done = finish_round(own.circuit, round_id, verdict_of(outcome), own.policy, now, **more)
        if done.circuit.state is State.CLOSED:
            own.window.clear()
        self._set(own, done.circuit)

    def record(
        self,
        rule: DependencyRule,
        outcome: Outcome,
        *,
        began_at: float,
        at: float,
        slow: bool,
        step: Hashable,
        operation: str | None,
        retry_after_s: float | None,
    ) -> WorkerTrip | None:
        """Count one finished call and judge; calls admitted before the last transition have no say but their wait."""
        own = self._own.get(rule.name)
        if outcome in SUCCESSES and (own is None or own.window.streak == 0):
            return None  # a success ends a streak, which is all that this scope judges by; there is none
        own = self._own.of(rule.name, lambda: _Own(rule))
        if own is None:
            return None
        own.follow(rule)
        if own.circuit.state is not State.CLOSED or began_at < (own.circuit.changed_at or began_at):
            if retry_after_s is not None:
                self._set(own, lengthen(own.circuit, retry_after_s, at))
            return None
        own.window.record(outcome, at, slow=slow, step=step, operation=operation, retry_after_s=retry_after_s)
        return self._judge(own, at) if outcome in FAILURES else None

    def drop(self) -> None:
        """A forked child starts on its own evidence."""
        self._own.clear()
        self.open = {}
        self._pulse.beat()

    def shift(self, by_s: float) -> None:
        """The process slept for -`by_s` seconds: what happened before is that much older."""
        for _, own in self._own:
            own.window.shift(by_s)
            self._set(own, shift(own.circuit, by_s))

    def _judge(self, own: _Own, at: float) -> WorkerTrip | None:
        verdict = judge(own.circuit, own.window.evidence(at, live_workers=1), own.policy, at)
        self._set(own, verdict.circuit)
        if verdict.breach is None or not (verdict.opened or verdict.would_have_tripped):
            return None
        return WorkerTrip(own.rule, verdict.breach, verdict.opened)

    def _set(self, own: _Own, circuit: Circuit) -> None:
        own.circuit = circuit
        if circuit.state is State.CLOSED:
            if own.rule.name in self.open:
                self.open = {name: held for name, held in self.open.items() if name != own.rule.name}
                self._pulse.beat()
        else:
            self.open = {**self.open, own.rule.name: circuit}
            self._pulse.beat()


def _at_rest(own: _Own) -> bool:
    return own.circuit.state is State.CLOSED


def _policy(rule: DependencyRule) -> CircuitPolicy:
    return dataclasses.replace(worker_scope(rule.policy), probe_timeout_s=LEASE_S)
