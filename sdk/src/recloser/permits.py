"""Permits, as this process sees them: places for runs that have yet to begin, and leave for the one call that tests.

The control plane gives a few places for each circuit that is due and that no probe tests. A place is asked for in the
background, before a run needs it. The run that takes it sees the tool, and its first call asks for leave: the only wait
in a call path, never longer than the policy says. Refused, late or unreachable: the tool is unavailable.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from recloser.config_sync import CircuitView, DependencyRule, Snapshot, ToolRule
from recloser.core.circuit import by_permit, is_due, is_later, may_test, verdict_of
from recloser.core.types import Outcome, Verdict

log = logging.getLogger("recloser")

WANTED_S = 600.0
"""A process asks for places of dependencies that one of its runs lately had to do without."""
AGAIN_S = 30.0
SPREAD_S = 0.5
"""A fleet does not ask for its places in the same instant."""
FINISH_EVERY_S = 2.0

Ask = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Puts one request to the control plane; None where no answer came. Blocks, so never called in an agent's thread."""


@dataclass(frozen=True, slots=True)
class Place:
    """A candidate's place for one due circuit."""

    id: str
    generation: int
    until: float


@dataclass(frozen=True, slots=True)
class Leave:
    """One call may test: its outcome is the round's verdict."""

    dependency: str
    round_id: str
    opened_at: float | None
    until: float


class Claim:
    """A call's question for leave, and who waits for the answer; what comes too late is given back."""

    def __init__(self, give_back: Callable[[Leave], None]) -> None:
        self._give_back = give_back
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._leave: Leave | None = None
        self._left = False

    def answer(self, leave: Leave | None) -> bool:
        """Hand the answer over; False where nobody waits any more."""
        with self._lock:
            if self._left:
                return False
            self._leave = leave
        self._answered.set()
        return True

    def wait(self, seconds: float) -> Leave | None:
        """The answer, if it comes in time."""
        self._answered.wait(seconds)
        return self.give_up()

    def give_up(self) -> Leave | None:
        """What has been answered so far; from now on nobody waits."""
        with self._lock:
            self._left = True
            return self._leave

    def abandon(self) -> None:
        """Nobody will make the call: an answer that is there already, too, is given back."""
        leave = self.give_up()
        if leave is not None:
            self._give_back(leave)


class Permits:
    """What one process life holds: its places, and the threads that ask."""

    def __init__(self, ask: Ask, *, session: Callable[[], str], instance: str) -> None:
        self._ask = ask
        self._session = session
        self._instance = instance
        self._lock = threading.Lock()
        self._wanted: dict[str, float] = {}
        self._ask_at: dict[tuple[str, int], float] = {}
        self._places: dict[str, Place] = {}
        self._threads: set[threading.Thread] = set()

    def want(self, dependency: str, now: float) -> None:
        """A run here had to do without it."""
        self._wanted[dependency] = now

    def look(self, snapshot: Snapshot, now: float, *, at_once: bool = False) -> None:
        """Ask for the places that are to be had; `at_once`: in this thread, for a client that has no other."""
        if not self._wanted or not snapshot.circuits:
            return
        for name, wanted_at in self._wanted.copy().items():
            view = snapshot.circuits.get(name)
            if now - wanted_at > WANTED_S:
                self._wanted.pop(name, None)
            elif view is not None and _testable(snapshot.config.dependency(name), view, snapshot.server_now(now)):
                self._place_asked(name, view.generation, now, at_once)

    def _place_asked(self, name: str, generation: int, now: float, at_once: bool) -> None:
        with self._lock:
            held = self._places.get(name)
            if held is not None and held.generation == generation and now < held.until:
                return
            spread = 0.0 if at_once else random.uniform(0.0, SPREAD_S)  # noqa: S311 spreads load, keeps no secret
            if now < self._ask_at.setdefault((name, generation), now + spread):
                return
            self._ask_at = {key: at for key, at in self._ask_at.items() if key[0] != name}
            self._ask_at[name, generation] = now + AGAIN_S
        if at_once:
            self._keep_place(name, generation)
        else:
            self._start(lambda: self._keep_place(name, generation))

    def _keep_place(self, name: str, generation: int) -> None:
        body = {"ask": "place", "dependency": name, "session": self._session(), "instance": self._instance}
        found, now = self._ask(body) or {}, time.monotonic()
        wait_s = found.get("wait_s")
        wait_s = float(wait_s) if isinstance(wait_s, int | float) else AGAIN_S
        with self._lock:
            self._ask_at[name, generation] = now + wait_s
            if isinstance(found.get("place"), str) and found.get("generation") == generation:
                self._places[name] = Place(found["place"], generation, now + wait_s)

    def take(self, dependency: str, generation: int, now: float) -> Place | None:
        """The place that is kept here for a run; one run gets it."""
        with self._lock:
            held = self._places.get(dependency)
            if held is None or held.generation != generation or now >= held.until:
                return None
            return self._places.pop(dependency)

    def claim(self, place: Place, dependency: str, opened_at: float | None, **asked: Any) -> Claim:
        """Ask for leave for one call, beside the caller, who waits on the claim."""
        claim = Claim(lambda leave: self.finish(leave, Outcome.CANCELLED, None, 0.0))

        def ask() -> None:
            began = time.monotonic()
            found = self._ask({"ask": "claim", "place": place.id, **asked}) or {}
            round_id, lease_s = found.get("round"), found.get("lease_s")
            if not isinstance(round_id, str) or not isinstance(lease_s, int | float):
                claim.answer(None)
                return
            leave = Leave(dependency, round_id, opened_at, began + lease_s)
            if not claim.answer(leave):
                self._finished(leave, Outcome.CANCELLED, None, None)

        if not self._start(ask):
            claim.answer(None)
        return claim

    def finish(self, leave: Leave, outcome: Outcome, retry_after_s: float | None, took_s: float) -> None:
        """Tell how the call ended, beside the caller; until it is heard or its lease is over."""
        self._start(lambda: self._finished(leave, outcome, retry_after_s, took_s))

    def _finished(self, leave: Leave, outcome: Outcome, retry_after_s: float | None, took_s: float | None) -> None:
        body = {
            "ask": "finish", "round": leave.round_id, "outcome": outcome.value,
            "retry_after_s": None if retry_after_s is None else min(retry_after_s, 3600.0), "took_s": took_s,
        }  # fmt: skip
        pause = threading.Event()
        while self._ask(body) is None and time.monotonic() + FINISH_EVERY_S < leave.until:
            pause.wait(FINISH_EVERY_S)

    def wait(self, seconds: float) -> None:
        """Let what is being told come to its end, within that time."""
        end = time.monotonic() + seconds
        for thread in list(self._threads):
            thread.join(max(0.0, end - time.monotonic()))

    def _start(self, work: Callable[[], None]) -> bool:
        """Begin it beside the caller; False where the process can have no further thread."""

        def run() -> None:
            try:
                work()
            except Exception:
                log.exception("recloser: the control plane could not be asked about a permit")
            finally:
                self._threads.discard(thread)

        thread = threading.Thread(target=run, name="recloser-permit", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._threads.discard(thread)
            log.warning("recloser: there is no thread to ask about a permit with")
            return False
        return True


class RunPermits:
    """What one run holds of permits. The caller holds the run's lock."""

    __slots__ = ("_held", "_kept", "_permits", "_root_began_at", "_testing", "_used")

    def __init__(self, permits: Permits, root_began_at: float | None) -> None:
        self._permits = permits
        self._root_began_at = root_began_at
        self._held: dict[str, Place] = {}
        self._testing: set[str] = set()
        self._used: set[str] = set()
        self._kept: dict[str, float | None] = {}

    def keeps(self, dependency: str, view: CircuitView) -> bool:
        """A permit's run keeps the tool after success, for the rest of this outage."""
        return dependency in self._kept and self._kept[dependency] == view.opened_at

    def testing(self, dependency: str) -> bool:
        """Is its one call under way?"""
        return dependency in self._testing

    def place(self, dependency: DependencyRule, view: CircuitView, tool: ToolRule, at: Snapshot, now: float) -> bool:
        """Is this run one of the few that may test the circuit by this tool? Its place is taken at first sight."""
        name, server_now = dependency.name, at.server_now(now)
        if name in self._used or not may_test(tool.side_effect, confirmed=tool.confirmed):
            return False
        began = None if self._root_began_at is None else at.server_now(self._root_began_at)
        if not _testable(dependency, view, server_now) or not is_later(began, view.opened_at):
            return False
        held = self._held.get(name)
        if held is None or held.generation != view.generation:
            held = self._permits.take(name, view.generation, now)
        if held is None or now >= held.until:
            return False
        self._held[name] = held
        return True

    def claim(self, dependency: str, view: CircuitView | None, run: str, tool: str, now: float) -> Claim | None:
        """Ask for leave; None where there is no place any more."""
        held = self._held.pop(dependency, None)
        if held is None or self._root_began_at is None:
            return None
        self._used.add(dependency)
        self._testing.add(dependency)
        opened_at = None if view is None else view.opened_at
        ago = max(0.0, now - self._root_began_at)
        return self._permits.claim(held, dependency, opened_at, run=run, tool=tool, root_began_s_ago=ago)

    def refused(self, dependency: str) -> None:
        """There was no leave."""
        self._testing.discard(dependency)

    def ended(self, leave: Leave, outcome: Outcome, retry_after_s: float | None, took_s: float) -> None:
        """The call has ended; on success the run keeps the tool."""
        self._testing.discard(leave.dependency)
        if verdict_of(outcome) is Verdict.GOOD:
            self._kept[leave.dependency] = leave.opened_at
        self._permits.finish(leave, outcome, retry_after_s, took_s)


def _testable(dependency: DependencyRule, view: CircuitView, server_now: float) -> bool:
    """Is it due, and are permits how it is tested?"""
    waiting = is_due(view.state, view.mode, view.due_at, server_now)
    return waiting and by_permit(dependency.policy, probed=view.probed)
