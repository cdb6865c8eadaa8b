"""What one run holds: its memory, its limits, the rules of its tools. What it does with them is in `run` and `telling`.

Lock order: the client's, then the run's; whoever holds a run's lock never asks for the client's.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recloser import given, notices
from recloser.config_sync import Config, Snapshot, ToolRule
from recloser.core.budget import Baseline
from recloser.core.degrade import Degradation
from recloser.core.ending import NO_VIABLE_PATH
from recloser.core.fingerprint import call_key
from recloser.core.policy import RunPolicy
from recloser.core.run import RunDecision, RunState, ToolRules
from recloser.count import Line
from recloser.guard import Tap, needs_hashes, obstacle
from recloser.permits import Leave, RunPermits
from recloser.report import MAX_STEP_LINES
from recloser.wire import text_of

if TYPE_CHECKING:
    from recloser.client import Client
    from recloser.telling import Telling


class Teller:
    """Tells a run that its sentence was added to what is delivered; in another process it tells nobody."""

    __slots__ = ("_run",)

    def __init__(self, run: Telling | None = None) -> None:
        self._run = run

    def __call__(self) -> None:
        """The sentence was added."""
        if self._run is not None:
            self._run.sentence_added()

    def __deepcopy__(self, memo: Any) -> Teller:
        return self

    def __reduce__(self) -> tuple[type[Teller], tuple[()]]:
        return Teller, ()


@dataclasses.dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended: for the caller, beside the text."""

    degraded: bool
    block: Mapping[str, Any]
    """The machine-readable form: what was missing, why, since which step, what replaced it."""
    disclosure: str | None
    """The sentence for the human reader; None for a healthy run."""
    disclosed: bool
    """The delivered text says it, or the consumer declared that it shows the block."""
    end_cause: str | None
    closing: str | None = None
    """What a run that was ended says in the place of an answer: what was done, what could not be, who was told."""
    teller: Teller = dataclasses.field(default=Teller(), repr=False, compare=False)

    def text_with_disclosure(self, text: str) -> str:
        """The text to deliver, with the sentence added where it does not say so itself: the run counts as disclosed."""
        if self.disclosed or not self.disclosure:
            return text
        self.teller()
        return f"{text.rstrip()}\n\n{self.disclosure}"


class Ticket:
    """Leave for one call, from admission to its end."""

    __slots__ = ("began", "call", "hashes", "name", "permit", "rule", "snapshot", "step", "test")

    def __init__(self, name: str, rule: ToolRule, snapshot: Snapshot, step: int | None) -> None:
        self.name = name
        self.rule = rule
        self.snapshot = snapshot
        self.step = step
        self.call: str | None = None
        self.hashes = False
        self.test: tuple[str, str] | None = None
        self.permit: Leave | None = None
        self.began = 0.0


class Memory:
    """What is known of one task execution, in this process."""

    __slots__ = (  # what a call reads is near
        "__dict__", "__weakref__", "_client", "_lock", "_pulse", "_result", "_salt", "_seen", "_state", "_step",
        "_taps",
    )  # fmt: skip

    def __init__(
        self,
        client: Client,
        *,
        id: str,
        task_kind: str | None,
        step_limit: int | None,
        token_budget: int | None,
        cost_budget: float | None,
        wall_clock_s: float | None,
        parent: Telling | str | None,
        raise_errors: bool,
    ) -> None:
        self.id = id
        self.task_kind = task_kind
        self._parent = parent if isinstance(parent, Memory) else None
        self.parent_id = parent.id if isinstance(parent, Memory) else None if parent is None else text_of(parent)
        self.raise_errors = raise_errors
        self.began_at = time.monotonic()
        self.root_began_at: float = parent.root_began_at if isinstance(parent, Memory) else self.began_at
        self._client = client
        self._life = client.life
        self._documents = client.documents
        self._breakers = client.breakers
        root_known = parent is None or isinstance(parent, Memory)
        self._permits = RunPermits(client.permits, self.root_began_at if root_known else None)
        self._pulse = client.pulse
        self._seen = client.seen
        self._lock = threading.Lock()
        self._salt = os.urandom(16)
        self._config = client.documents.snapshot.config
        self._declared_limits = (step_limit, token_budget, cost_budget, wall_clock_s)
        self._state = RunState(
            {}, self._own_policy(), started_at=self.began_at, step_limit=step_limit, baseline=self._baseline()
        )
        self._step: int | None = None
        self._declared: dict[str, None] = {}
        self._rules: dict[str, tuple[Snapshot, ToolRule]] = {}
        self._taps: dict[str, Tap] = {}
        self._answered: list[str] = []
        self._tickets: dict[str, list[Ticket]] = {}
        self._tickets_by_id: dict[str, Ticket] = {}
        self._children: dict[str, tuple[Degradation, list[dict[str, Any]]]] = {}
        self._replaced_by: dict[str, str] = {}
        self._lost_at: dict[str, float] = {}
        self._told: set[tuple[str, str]] = set()
        self._advice: list[RunDecision] = []
        self._pathless = False
        self._tokens, self._cost, self._model_seconds = 0, 0.0, 0.0
        self._revision = 0
        self._reported: tuple[Any, ...] | None = None
        self._reported_at = self.began_at
        self._result: RunResult | None = None
        self._ended_at: float | None = None
        self._said = False
        self._failure: str | None = None
        # Owned by the client's lock, written when finished calls are counted.
        self.log: deque[Line] = deque(maxlen=MAX_STEP_LINES)
        self.tool_seconds = 0.0

    @property
    def end_cause(self) -> str | None:
        """The signal that ended the run; None while it may go on."""
        ended = self._state.ended
        return None if ended is None else NO_VIABLE_PATH if self._pathless else signal_name(ended)

    @property
    def steps(self) -> int:
        """Model steps admitted so far."""
        return self._step or 0

    def _ticket(self, name: str) -> Ticket:
        snapshot, rule = self._rule(name)
        ticket = Ticket(name, rule, snapshot, self._step)
        ticket.hashes = needs_hashes(rule, snapshot)
        return ticket

    def _rule(self, name: str) -> tuple[Snapshot, ToolRule]:
        """The tool's rule under the present snapshot; made known to the run's own breaker at first sight."""
        snapshot = self._documents.snapshot
        held = self._rules.get(name)
        if held is None or held[0].config is not snapshot.config:
            held = self._rules[name] = (snapshot, snapshot.config.tool(name))
            self._state.declare(name, ToolRules(held[1].policy, tuple(one.name for one in held[1].dependencies)))
        return snapshot, held[1]

    def _own_policy(self) -> RunPolicy:
        """The run's own limits: the policy's, and no more than the run declared."""
        policy = self._config.run_policy
        _, tokens, cost, wall_clock_s = self._declared_limits
        return dataclasses.replace(
            policy,
            token_budget=given.least(policy.token_budget, tokens),
            cost_budget=given.least(policy.cost_budget, cost),
            wall_clock_s=given.least(policy.wall_clock_s, wall_clock_s),
        )

    def _follow_config(self) -> None:
        """An edited policy holds for a run that has begun, too: from its next step on."""
        config: Config = self._documents.snapshot.config
        if config is not self._config:
            self._config = config
            self._state.follow(self._own_policy(), step_limit=self._declared_limits[0], baseline=self._baseline())

    def _baseline(self) -> Baseline | None:
        """What a healthy run of this kind of task spends; a run of no kind has nothing to be compared with."""
        return self._config.baselines.get(self.task_kind) if isinstance(self.task_kind, str) else None

    def _key(self, ticket: Ticket, args: Any) -> str | None:
        policy = ticket.rule.policy
        if not ticket.hashes:
            return None
        return call_key(ticket.name, args, salt=self._salt, ignored=policy.ignored_args, casefold=policy.casefold_args)

    def _own(self, name: str) -> bool:
        """A tool of the run's own array; where no array was ever shown, every tool that was called."""
        return name in self._declared or (not self._declared and name in self._rules)

    def _loss(self, name: str, lost: RunDecision) -> notices.Loss:
        snapshot, rule = self._rule(name)
        instead = rule.policy.fallback_tool
        if instead is not None:
            own = instead in self._declared and not self._state.is_withdrawn(instead)
            other = snapshot.config.tool(instead)
            now = time.monotonic()
            if not own or obstacle(other, snapshot, self._breakers, self.root_began_at, now) is not None:
                instead = None
        behind = lost.dependency or rule.dependencies[0].name
        return notices.Loss(name, lost, rule.policy, instead, behind, self._client.why(self.id, name))

    def _drop_taps(self) -> None:
        """No call takes the short way any more, and what is under way does not end on it."""
        for tap in self._taps.values():
            tap.live = False
        self._taps, self._answered = {}, []

    def after_fork(self) -> None:
        """In a forked child: no other thread holds our lock here."""
        self._lock = threading.Lock()


def signal_name(decision: RunDecision) -> str:
    """What led to a decision, in one word."""
    return "operator" if decision.signal is None else decision.signal.value
