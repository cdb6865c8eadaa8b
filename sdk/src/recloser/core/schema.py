# ruff: noqa: RUF009 (the table below is made of such calls)
"""The policy schema, declared once: the two dataclasses below *are* the table, and `FIELDS` is read off them.

Circuit fields belong to a dependency, run fields to a tool or (step limit, budgets, loops) to the environment's
runs. `None` means off; 0 is a value. Durations end in `_s` or `_ms`, rates are 0 to 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recloser.core.outcomes import Rule
from recloser.core.types import Action, DegradedBehaviour, Delivery


class Level(StrEnum):
    """The deepest layer that may set a field. Every field may be set for a whole environment."""

    ENVIRONMENT = "environment"
    CIRCUIT = "circuit"
    TOOL = "tool"


class Kind(StrEnum):
    """What a value looks like."""

    NUMBER = "number"
    INTEGER = "integer"
    FLAG = "flag"
    CHOICE = "choice"
    TEXT = "text"
    NAMES = "names"
    SHARES = "shares"
    OUTCOMES = "outcomes"


class Looser(StrEnum):
    """Which way a change protects less: a greater number, a smaller one, true, false, or none that can be told."""

    UP = "up"
    DOWN = "down"
    WHEN_TRUE = "when_true"
    WHEN_FALSE = "when_false"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Field:
    """One row of the schema."""

    name: str
    policy: str
    """`circuit` or `run`: the dataclass that holds it."""
    kind: Kind
    default: Any
    level: Level
    help: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    nullable: bool = False
    choices: tuple[str, ...] = ()
    shown_to_model: bool = False
    template: bool = False
    """A text with the variables of `core.texts`."""
    looser: Looser = Looser.NEITHER


def _setting(
    default: Any,
    kind: Kind,
    help: str,
    *,
    level: Level = Level.CIRCUIT,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    nullable: bool = False,
    choices: type[StrEnum] | tuple[StrEnum, ...] | tuple[str, ...] = (),
    shown_to_model: bool = False,
    template: bool = False,
    looser: Looser = Looser.NEITHER,
) -> Any:
    row = {
        "kind": kind,
        "help": help,
        "level": level,
        "unit": unit,
        "low": low,
        "high": high,
        "nullable": nullable,
        "choices": tuple(str(choice) for choice in choices),
        "shown_to_model": shown_to_model,
        "template": template,
        "looser": looser,
    }
    return dataclasses.field(default=default, metadata=row)


def _count(default: int | None, help: str, *, low: float = 0, high: float = 1_000_000, **more: Any) -> Any:
    return _setting(default, Kind.INTEGER, help, low=low, high=high, **more)


def _rate(default: float | None, help: str, **more: Any) -> Any:
    return _setting(default, Kind.NUMBER, help, unit="share", low=0, high=1, **more)


def _seconds(default: float | None, help: str, *, low: float = 0, high: float = 86_400, **more: Any) -> Any:
    return _setting(default, Kind.NUMBER, help, unit="s", low=low, high=high, **more)


def _flag(default: bool, help: str, **more: Any) -> Any:
    return _setting(default, Kind.FLAG, help, **more)


def _delivery(default: Delivery, help: str, **more: Any) -> Any:
    return _setting(default, Kind.CHOICE, help, choices=Delivery, looser=Looser.UP, **more)


_REMOVING = (Action.ADVISE, Action.REMOVE_TOOL, Action.END_RUN, Action.ESCALATE)
_ENDING = (Action.END_RUN, Action.ESCALATE)


def _action(default: Action, help: str, among: tuple[Action, ...] = _REMOVING, **more: Any) -> Any:
    return _setting(default, Kind.CHOICE, help, choices=among, looser=Looser.DOWN, **more)


@dataclass(frozen=True, slots=True)
class CircuitPolicy:
    """Thresholds and timing of one dependency's shared circuit, and of each worker's own breaker for it."""

    delivery: Delivery = _delivery(
        Delivery.ENFORCE, "Act on trips, only record what would have tripped, or do nothing."
    )
    window_s: float = _seconds(60.0, "Length of the sliding window that rates are taken over.", low=1)
    failure_rate: float | None = _rate(
        0.5, "Open at this share of failed calls in the window.", nullable=True, looser=Looser.UP
    )
    thin_sample_streak: int | None = _count(
        3,
        "A failure rate that barely has enough evidence opens only after this many failures in a row.",
        nullable=True,
        looser=Looser.UP,
    )
    failure_rate_delivery: Delivery = _delivery(Delivery.ENFORCE, "How the failure rate is delivered.")
    min_calls: int = _count(20, "Judge a rate only with at least this many calls in the window.", looser=Looser.UP)
    consecutive_failures: int | None = _count(
        5,
        "Open at this many failures in a row, while the window holds too few calls for a rate.",
        low=1,
        nullable=True,
        looser=Looser.UP,
    )
    consecutive_failures_delivery: Delivery = _delivery(Delivery.ENFORCE, "How consecutive failures are delivered.")
    slow_call_rate: float | None = _rate(
        0.5, "Open at this share of slow calls in the window.", nullable=True, looser=Looser.UP
    )
    slow_call_rate_delivery: Delivery = _delivery(
        Delivery.OBSERVE, "How the slow-call rate is delivered; watched only, at first."
    )
    slow_call_ms: float = _setting(
        5000.0,
        Kind.NUMBER,
        "A call that takes longer than this is slow, whatever its outcome.",
        unit="ms",
        low=0,
        high=3_600_000,
        looser=Looser.UP,
    )
    min_workers: int = _count(
        2, "Open only when this many workers see the trouble by their own calls.", low=1, looser=Looser.UP
    )
    settle_s: float = _seconds(
        0.5, "Wait this long after a first suspicion for successes that are still on their way.", high=30,
        looser=Looser.UP,
    )  # fmt: skip
    cooldown_s: float = _seconds(30.0, "Wait this long after opening before the first probe.", looser=Looser.DOWN)
    cooldown_max_s: float = _seconds(45.0, "Failed probes never stretch the wait beyond this.", looser=Looser.DOWN)
    backoff: float = _setting(
        2.0, Kind.NUMBER, "Each failed probe multiplies the wait by this.", low=1, high=10, looser=Looser.DOWN
    )
    jitter: float = _rate(0.1, "Shift each backed-off wait at random by up to this share.")
    cooldown_reset_s: float = _seconds(600.0, "Closed for this long, the wait starts small again.")
    probe_successes: int = _count(
        1, "Close after this many good probe rounds in a row.", low=1, high=100, looser=Looser.DOWN
    )
    probe_interval_s: float = _seconds(5.0, "Wait this long between good rounds, when several are asked for.")
    probe_timeout_s: float = _seconds(10.0, "A round without a verdict by then is inconclusive.", low=0.1)
    probe_paid: bool = _flag(False, "A probe costs money: once locked out, probe no oftener than the lockout time.")
    vantage_points: int = _count(1, "Send each round from this many places.", low=1, high=20)
    vantage_quorum: int = _count(1, "This many places must find it good.", low=1, high=20, looser=Looser.DOWN)
    ramp: tuple[float, ...] = _setting(
        (),
        Kind.SHARES,
        "Shares of workers to admit, step by step, after a good probe; the last one closes.",
        unit="share",
    )
    ramp_step_s: float = _seconds(10.0, "Stay this long at each share of the ramp.", low=0.1)
    permits: bool = _flag(True, "Later runs may test the half-open tool with a real call.", looser=Looser.WHEN_TRUE)
    permit_candidates: int = _count(3, "This many runs may see the half-open tool.", low=1, high=100)
    permit_wait_ms: float = _setting(
        300.0, Kind.NUMBER, "The longest wait for leave to test.", unit="ms", low=0, high=300
    )
    untestable_alert_s: float = _seconds(900.0, "Alert when nobody could test recovery for this long.")
    lockout_after_s: float | None = _seconds(
        600.0, "Open for this long, a human is called; probing goes on.", nullable=True
    )
    stale_after_s: float = _seconds(
        120.0, "Agents take circuit states older than this for stale when the control plane is away."
    )
    worker_consecutive_failures: int | None = _count(
        5, "A worker's own breaker opens at this many failures in a row.", low=1, nullable=True, looser=Looser.UP
    )
    worker_cooldown_s: float = _seconds(
        30.0, "A worker's own breaker waits this long before a later run tests it.", looser=Looser.DOWN
    )


_RUNS = Level.ENVIRONMENT
_TOOL = Level.TOOL


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """Thresholds, actions and texts of one tool inside a run, and the run's own limits."""

    delivery: Delivery = _delivery(
        Delivery.ENFORCE, "Act on trips, only record what would have tripped, or do nothing.", level=_TOOL
    )
    consecutive_failures: int | None = _count(
        5,
        "Withdraw the tool from a run after this many failing steps in a row.",
        low=1,
        nullable=True,
        level=_TOOL,
        looser=Looser.UP,
    )
    consecutive_failures_action: Action = _action(
        Action.REMOVE_TOOL, "What happens after that many failures.", level=_TOOL
    )
    consecutive_failures_delivery: Delivery = _delivery(
        Delivery.ENFORCE, "How failures in a row are delivered.", level=_TOOL
    )
    short_run_steps: int | None = _count(
        10, "A run with a step limit up to this is short.", nullable=True, level=_TOOL, looser=Looser.DOWN
    )
    short_run_consecutive_failures: int | None = _count(
        3, "In a short run, withdraw after this many.", low=1, nullable=True, level=_TOOL, looser=Looser.UP
    )
    dependency_consecutive_failures: int | None = _count(
        5,
        "Withdraw all tools of a dependency after this many failing steps in a row, whichever tool failed.",
        low=1,
        nullable=True,
        level=_TOOL,
        looser=Looser.UP,
    )
    semantic_failures: int | None = _count(
        3,
        "After this many rejected calls in a row, tell the model to change its approach.",
        low=1,
        nullable=True,
        level=_TOOL,
        looser=Looser.UP,
    )
    semantic_failures_action: Action = _action(
        Action.ADVISE, "What happens after that many rejected calls.", level=_TOOL
    )
    semantic_failures_delivery: Delivery = _delivery(Delivery.ENFORCE, "How rejected calls are delivered.", level=_TOOL)
    semantic_remove_after: int | None = _count(
        6, "After this many rejected calls in a row, withdraw the tool.", low=1, nullable=True, level=_TOOL,
        looser=Looser.UP,
    )  # fmt: skip
    identical_calls: int | None = _count(
        5,
        "Stop the same call after this many unchanged results.",
        low=1,
        nullable=True,
        level=_TOOL,
        looser=Looser.UP,
    )
    identical_calls_action: Action = _action(
        Action.BLOCK_CALL,
        "Block that one call, or do more.",
        (Action.ADVISE, Action.BLOCK_CALL, Action.REMOVE_TOOL, Action.END_RUN, Action.ESCALATE),
        level=_TOOL,
    )
    identical_calls_delivery: Delivery = _delivery(Delivery.ENFORCE, "How repeated calls are delivered.", level=_TOOL)
    identical_calls_exempt: bool = _flag(
        False, "This tool may be called again and again with the same arguments.", level=_TOOL,
        looser=Looser.WHEN_TRUE,
    )  # fmt: skip
    repeat_at_once: bool = _flag(
        False,
        "Block a repeated identical call at once, whatever the first one returned.",
        level=_TOOL,
        looser=Looser.WHEN_FALSE,
    )
    retry_ambiguous: bool = _flag(
        False,
        "A call that may have happened (a time-out) may be repeated without a human or an idempotency key.",
        level=_TOOL,
        looser=Looser.WHEN_TRUE,
    )
    ignored_args: tuple[str, ...] = _setting(
        (), Kind.NAMES, "Argument names that do not make a call new, such as a free-text note.", level=_TOOL
    )
    casefold_args: tuple[str, ...] = _setting(
        (), Kind.NAMES, "Argument names whose letter case has no meaning.", level=_TOOL
    )
    never_open: bool = _flag(False, "No failure withdraws this tool from a run.", level=_TOOL, looser=Looser.WHEN_TRUE)
    run_failure_rate: float | None = _rate(
        None, "Withdraw the tool at this share of failed calls in a run.", nullable=True, level=_TOOL,
        looser=Looser.UP,
    )  # fmt: skip
    run_failure_min_calls: int = _count(
        10, "Judge a run's failure rate only with this many calls.", low=1, level=_TOOL, looser=Looser.UP
    )
    run_failure_rate_action: Action = _action(
        Action.REMOVE_TOOL, "What happens at that share of failed calls.", level=_TOOL
    )
    run_failure_rate_delivery: Delivery = _delivery(
        Delivery.ENFORCE, "How the failure rate of a run is delivered.", level=_TOOL
    )
    call_timeout_s: float | None = _seconds(
        None, "Give up on a single call after this long.", low=0.001, nullable=True, level=_TOOL
    )
    outcomes: tuple[tuple[str, Rule], ...] = _setting(
        (), Kind.OUTCOMES, "This tool's own map from status codes and error markers to outcomes.", level=_TOOL
    )
    degraded_behaviour: DegradedBehaviour = _setting(
        DegradedBehaviour.UNDECIDED,
        Kind.CHOICE,
        "What a run does without this tool.",
        choices=DegradedBehaviour,
        level=_TOOL,
    )
    fallback_tool: str | None = _setting(
        None, Kind.TEXT, "The tool to offer instead.", high=128, nullable=True, level=_TOOL, shown_to_model=True
    )
    model_text: str = _setting(
        "", Kind.TEXT, "What the model is told to do without this tool. {tool}, {fallback}, {dependency}, {since}.",
        high=400, level=_TOOL, shown_to_model=True, template=True,
    )  # fmt: skip
    user_text: str = _setting(
        "", Kind.TEXT, "What the end user reads about it. {tool}, {fallback}, {dependency}, {since}.",
        high=400, level=_TOOL, template=True,
    )  # fmt: skip
    readmit: bool = _flag(
        False, "A run that lost the tool may get it back, once, when the circuit closes.", level=_TOOL,
        looser=Looser.WHEN_TRUE,
    )  # fmt: skip
    readmit_after_s: float = _seconds(600.0, "Only runs that went on without the tool for this long.", level=_TOOL)
    oscillation_cycles: int | None = _count(
        2, "Stop a circle of calls after this many unchanged rounds.", low=2, nullable=True, level=_RUNS,
        looser=Looser.UP,
    )  # fmt: skip
    oscillation_action: Action = _action(Action.REMOVE_TOOL, "What happens to the circle's tools.", level=_RUNS)
    oscillation_delivery: Delivery = _delivery(
        Delivery.ENFORCE, "How the oscillation signal is delivered.", level=_RUNS
    )
    no_progress_steps: int | None = _count(
        6, "Trip after this many steps in a row that changed nothing.", low=1, nullable=True, level=_RUNS,
        looser=Looser.UP,
    )  # fmt: skip
    no_progress_action: Action = _action(Action.ADVISE, "What happens after steps without progress.", level=_RUNS)
    no_progress_delivery: Delivery = _delivery(
        Delivery.OBSERVE, "How the no-progress signal is delivered; watched only, at first.", level=_RUNS
    )
    budget_burn: float | None = _setting(
        3.0,
        Kind.NUMBER,
        "Trip when a run spends this many times what healthy runs of its kind spend a step.",
        unit="times",
        low=1,
        high=1000,
        nullable=True,
        level=_RUNS,
        looser=Looser.UP,
    )
    budget_burn_action: Action = _action(
        Action.ADVISE, "What happens when spending runs ahead.", (Action.ADVISE, *_ENDING), level=_RUNS
    )
    budget_burn_delivery: Delivery = _delivery(
        Delivery.ENFORCE, "How the budget-burn signal is delivered.", level=_RUNS
    )
    unknown_tool: int | None = _count(
        3, "Trip after this many calls to tools that are not there.", low=1, nullable=True, level=_RUNS,
        looser=Looser.UP,
    )  # fmt: skip
    unknown_tool_action: Action = _action(
        Action.ADVISE, "What happens when the model keeps naming unknown tools.", level=_RUNS
    )
    unknown_tool_delivery: Delivery = _delivery(
        Delivery.ENFORCE, "How calls to unknown tools are delivered.", level=_RUNS
    )
    step_limit: int | None = _count(
        None, "End a run after this many model steps.", low=1, nullable=True, level=_RUNS, looser=Looser.UP
    )
    token_budget: int | None = _count(
        None, "End a run before it spends more tokens.", low=1, high=10**12, unit="tokens", nullable=True,
        level=_RUNS, looser=Looser.UP,
    )  # fmt: skip
    cost_budget: float | None = _setting(
        None, Kind.NUMBER, "End a run before it spends more money.", unit="money", low=0, high=10**9,
        nullable=True, level=_RUNS, looser=Looser.UP,
    )  # fmt: skip
    wall_clock_s: float | None = _seconds(
        None, "End a run after this long.", high=30 * 86_400, nullable=True, level=_RUNS, looser=Looser.UP
    )
    backstop_action: Action = _action(
        Action.END_RUN, "What happens at a step, token, cost or time limit.", _ENDING, level=_RUNS
    )


def _rows(policy: str, holder: type[CircuitPolicy] | type[RunPolicy]) -> tuple[Field, ...]:
    return tuple(
        Field(name=row.name, policy=policy, default=row.default, **row.metadata) for row in dataclasses.fields(holder)
    )


CIRCUIT_FIELDS: Mapping[str, Field] = {row.name: row for row in _rows("circuit", CircuitPolicy)}
RUN_FIELDS: Mapping[str, Field] = {row.name: row for row in _rows("run", RunPolicy)}
FIELDS: tuple[Field, ...] = (*CIRCUIT_FIELDS.values(), *RUN_FIELDS.values())
"""Every field of the schema. A name may occur twice (`consecutive_failures`): once per `Field.policy`."""


def fields_for(level: Level | str) -> Mapping[str, Field]:
    """The fields that one form may set: a dependency's, a tool's, or a whole environment's run fields.

    An environment also sets circuit fields, in a mapping of its own that is validated at level `circuit`.
    """
    match Level(level):
        case Level.CIRCUIT:
            return CIRCUIT_FIELDS
        case Level.ENVIRONMENT:
            return RUN_FIELDS
        case Level.TOOL:
            return {name: row for name, row in RUN_FIELDS.items() if row.level is Level.TOOL}


def worker_scope(policy: CircuitPolicy) -> CircuitPolicy:
    """The same policy as one worker's own breaker applies it: its streak alone, no quorum, nothing to wait for."""
    return dataclasses.replace(
        policy,
        min_workers=1,
        settle_s=0.0,
        failure_rate=None,
        slow_call_rate=None,
        consecutive_failures=policy.worker_consecutive_failures,
        cooldown_s=policy.worker_cooldown_s,
        lockout_after_s=None,
        ramp=(),
    )
