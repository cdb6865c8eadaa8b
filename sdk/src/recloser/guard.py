"""What stands between a run and a tool, by the fleet's circuits and by this worker's breakers: answered from memory.

Dictionary look-ups on one snapshot; no I/O, no lock, nothing made when nothing stands in the way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recloser.calls import CO_COROUTINE
from recloser.config_sync import CircuitView, DependencyRule, Snapshot, ToolRule
from recloser.core.circuit import effective_of, in_share, ramp_share
from recloser.core.fingerprint import ShortKeys
from recloser.core.run_tool import Tool
from recloser.core.types import Delivery, Mode, Outcome, Scope, SideEffectClass, Signal, State
from recloser.override import Override
from recloser.permits import RunPermits
from recloser.worker import WorkerBreakers

if TYPE_CHECKING:
    from recloser.run import Run


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One open circuit behind a tool. `test`: this run may test it with its call.

    `permit`: by leave of the control plane, since it is the fleet's; `own`: this worker's breaker, to be tested with
    the same call. `busy`: this run's test of it is under way.
    """

    dependency: DependencyRule
    scope: Scope
    signal: Signal | None
    wait_s: float | None
    test: bool = False
    permit: bool = False
    busy: bool = False
    own: Obstacle | None = None


class Tap:
    """The short way of one tool in one run, good for one `pulse`: nothing stands against its calls, or `answer` does.

    It stands for its calls in the queue of finished ones, so that nothing has to be made for each. `plain`: no rule
    compares the calls, which the built-in policy's `identical_calls` does.
    """

    __slots__ = (
        "answer",
        "attempts",
        "awaits",
        "hashes",
        "keys",
        "live",
        "name",
        "outcome",
        "plain",
        "pulse",
        "rule",
        "run",
        "snapshot",
        "tool",
    )

    def __init__(
        self,
        name: str,
        rule: ToolRule,
        snapshot: Snapshot,
        pulse: object,
        run: Run,
        tool: Tool,
        *,
        hashes: bool = False,
        answer: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.rule = rule
        self.snapshot = snapshot
        self.pulse = pulse
        self.run = run
        self.tool = tool
        self.hashes = hashes
        self.answer = answer
        flat = not rule.policy.ignored_args and not rule.policy.casefold_args
        self.keys = ShortKeys() if flat else None
        self.plain = not hashes and answer is None
        self.outcome = Outcome.OK if answer is None else Outcome.REJECTED
        self.attempts = 1 if answer is None else 0
        self.live = True
        self.awaits: object = self

    def can_await(self, fn: Any) -> bool:
        """Is it a coroutine function? The one that is asked about last is remembered in `awaits`."""
        try:
            direct = bool(fn.__code__.co_flags & CO_COROUTINE)
        except Exception:
            return False
        if direct:
            self.awaits = fn
        return direct


def obstacle(
    rule: ToolRule,
    snapshot: Snapshot,
    breakers: WorkerBreakers,
    began_at: float,
    now: float,
    permits: RunPermits | None = None,
) -> Obstacle | None:
    """What stops a call of a run that began then. A tool can be called when all its dependencies can."""
    if not snapshot.circuits and not breakers.open and snapshot.forced is None:
        return None
    if (held := forced(rule, None, snapshot, now)) is not None:
        return _held(held, rule.dependencies[0], now)
    test: Obstacle | None = None
    permit: Obstacle | None = None
    for dependency in rule.dependencies:
        if (held := forced(rule, dependency, snapshot, now)) is not None:
            if found := _held(held, dependency, now):
                return found
            continue
        view = snapshot.circuits.get(dependency.name)
        if view is not None:
            if found := _fleet(dependency, view, rule, snapshot, now, permits):
                if not found.test or found.busy or permit is not None:
                    return found if permit is None else replace(found, test=False, permit=False)
                permit = found
            if _held_closed(view, snapshot.server_now(now)):
                continue
        if found := _worker(dependency, breakers, began_at, now):
            if not found.test:
                return found
            test = test or found
    return test if permit is None else replace(permit, own=test)


def forced(rule: ToolRule, dependency: DependencyRule | None, snapshot: Snapshot, now: float) -> Override | None:
    """What the break-glass file says of a tool, or of one dependency behind it, while it has not expired."""
    if snapshot.forced is None:
        return None
    if dependency is None:
        held = snapshot.forced.tools.get(rule.name)
    else:
        held = snapshot.forced.dependencies.get(dependency.name)
    return held if held is not None and now < held.until else None


def untouched(rule: ToolRule, snapshot: Snapshot, now: float) -> bool:
    """Does the break-glass file leave this tool and all that is behind it alone?"""
    return snapshot.forced is None or all(
        forced(rule, one, snapshot, now) is None for one in (None, *rule.dependencies)
    )


def _held(held: Override, dependency: DependencyRule, now: float) -> Obstacle | None:
    """Forced open stops the call; forced closed lets it through whatever the circuits say."""
    return Obstacle(dependency, Scope.WORKER, None, held.until - now) if held.mode is Mode.FORCED_OPEN else None


def _fleet(
    dependency: DependencyRule,
    view: CircuitView,
    rule: ToolRule,
    snapshot: Snapshot,
    now: float,
    permits: RunPermits | None,
) -> Obstacle | None:
    server_now = snapshot.server_now(now)
    if view.effective(server_now).admits or _ramped(dependency, view, snapshot, now):
        return None
    if permits is not None and permits.keeps(dependency.name, view):
        return None
    if view.mode is Mode.AUTO and _is_stale(dependency, snapshot, now) and _may_fall_back(rule):
        return None
    wait = None if view.due_at is None else max(0.0, view.due_at - server_now)
    busy = permits is not None and permits.testing(dependency.name)
    permit = permits is not None and not busy and permits.place(dependency, view, rule, snapshot, now)
    return Obstacle(dependency, Scope.FLEET, view.signal(server_now), wait, busy or permit, permit, busy)


def _ramped(dependency: DependencyRule, view: CircuitView, snapshot: Snapshot, now: float) -> bool:
    """Is this worker among those that a ramp admits? While nothing new is heard, the share does not rise."""
    if view.ramp_started_at is None or view.state is not State.HALF_OPEN or view.mode is not Mode.AUTO:
        return False
    at = snapshot.heard.at if snapshot.heard.at is not None and _is_stale(dependency, snapshot, now) else now
    share = ramp_share(view.ramp_started_at, dependency.policy, snapshot.server_now(at))
    return in_share(snapshot.worker, view.generation, share)


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
