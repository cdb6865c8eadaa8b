"""Language-neutral cases: maps their names to ours, plays them through the replay driver, compares what is expected."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from recloser.core.budget import Baseline, Spend
from recloser.core.circuit import Circuit, EffectiveState, effective_of
from recloser.core.fingerprint import fingerprint
from recloser.core.policy import (
    CIRCUIT_FIELDS,
    RUN_FIELDS,
    CircuitPolicy,
    PolicyError,
    RunPolicy,
    parse,
)
from recloser.core.replay import (
    Ask,
    Bill,
    Call,
    Change,
    ClockStep,
    Compaction,
    Event,
    Fleet,
    Operate,
    PolicyEdit,
    ProbeEnd,
    ProbeStart,
    Runs,
    Said,
    Turn,
    fixed,
    opened,
)
from recloser.core.run import RunState, ToolRules
from recloser.core.types import Action, Delivery, Outcome, Verdict

OFFERED = frozenset(
    {
        "alerts",
        "batches",
        "cancelled",
        "compaction",
        "probe_successes_to_close",
        "progress",
        "several_dependencies",
    }
)
"""What a case may need. Anything else is a reason to skip it."""

_WHICH = ("run", "tool", "dep", "probe")
LONGEST_S = 1e9
SALT = b"conformance"

OUTCOMES: Mapping[str, Outcome] = {
    **{str(outcome): outcome for outcome in Outcome},
    "retryable": Outcome.RETRYABLE_ERROR,
    "semantic": Outcome.SEMANTIC_ERROR,
    "slow": Outcome.OK,
}
VERDICTS: Mapping[str, Verdict] = {
    "ok": Verdict.GOOD,
    "empty": Verdict.GOOD,
    "retryable": Verdict.BAD,
    "retryable_error": Verdict.BAD,
    "timeout": Verdict.BAD,
    "rate_limited": Verdict.BAD,
    "slow": Verdict.BAD,
    "semantic": Verdict.INCONCLUSIVE,
    "semantic_error": Verdict.INCONCLUSIVE,
    "blocked": Verdict.INCONCLUSIVE,
    "cancelled": Verdict.INCONCLUSIVE,
}
CAUSES: Mapping[str, str] = {"slow_call_rate": "slow_rate", "identical_calls": "repeat_calls"}

_CIRCUIT_NAMES: Mapping[str, str] = {
    "slow_rate": "slow_call_rate",
    "probe_successes_to_close": "probe_successes",
}
_RUN_NAMES: Mapping[str, str] = {
    "semantic_cap": "semantic_failures",
    "repeat_cap": "identical_calls",
    "ignore_args": "ignored_args",
    "no_progress_cap": "no_progress_steps",
}


T = TypeVar("T")


class BadFile(ValueError):
    """A file that is not an array of cases: one line that names the field."""


class Unheard(Exception):
    """What one side of the wire decided did not reach the other."""


class Skip(Exception):
    """The case needs something that is not offered; the reason is its text."""


@dataclass(slots=True)
class Report:
    """What came of a file."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    """One line per failing case."""
    skipped: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """As the command prints it."""
        yield from self.failed
        yield from self.skipped
        yield f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"


def run_file(path: Path, stage: Stage | None = None) -> Report:
    """Play every case of a file, through the core unless told where; BadFile if it is none."""
    return run_cases(_read(path), stage)


def run_cases(cases: Sequence[Mapping[str, Any]], stage: Stage | None = None) -> Report:
    """Play every case."""
    report = Report()
    for number, case in enumerate(cases):
        name = _field(case, "id", str, f"case {number}")
        try:
            wrong = run_case(case, stage)
        except Skip as reason:
            report.skipped.append(f"SKIP {name}: {reason}")
            continue
        except Unheard as lost:
            wrong = [str(lost)]
        if wrong:
            report.failed.append(f"FAIL {name}: {'; '.join(wrong)}")
        else:
            report.passed += 1
    return report


def run_case(case: Mapping[str, Any], stage: Stage | None = None) -> list[str]:
    """What differs from the expectations; nothing if the case passes."""
    for need in _list(case, "needs", optional=True):
        if need not in OFFERED:
            raise Skip(str(need))
    stage = stage or IN_MEMORY
    match _field(case, "scope", str, _name(case)):
        case "dependency":
            return _played(case, stage.dependency(case))
        case "run":
            return _played(case, stage.run(case))
        case other:
            raise Skip(f"scope {other}")


class Case:
    """One case at play: feeds events in the order of their times, and remembers the answers."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.case = case
        self.policy: Mapping[str, Any] = _field(case, "policy", dict, _name(case))
        self.dependency_of = _dependencies_of(self.policy, f"{_name(case)}, policy")
        self.answers: list[tuple[Mapping[str, Any], bool]] = []
        self.alerts = 0

    def take(self, raw: Mapping[str, Any]) -> None:
        """Play one line of the case."""
        for event in self.events(raw):
            said = self.feed(event)
            self.alerts += len(opened(said.changes))
            answer = said.granted if said.admitted is None else said.admitted
            if answer is not None:
                self.answers.append((raw, answer))

    def answer(self, op: str, wanted: Mapping[str, Any]) -> bool | None:
        """The latest answer at that very time that fits what the expectation names."""
        asked = ("admit?", "step?") if op == "admit?" else (op,)
        for raw, answer in reversed(self.answers):
            if raw["t"] == wanted["t"] and raw.get("op") in asked and _concerns(raw, wanted):
                return bool(answer)
        return None

    def events(self, raw: Mapping[str, Any]) -> list[Event]:
        """One line of the case as events of the driver; empty where it changes nothing."""
        raise NotImplementedError

    def feed(self, event: Event) -> Said:
        """Let one event happen."""
        raise NotImplementedError

    def advance(self, to: float) -> None:
        """Let time pass without an event."""

    def seen(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """State and cause of what the expectation names."""
        raise NotImplementedError

    def close(self) -> None:
        """The case is over."""


class Circuits(Protocol):
    """The shared circuits of a case, wherever they are: the core's `Fleet` is one."""

    def feed(self, event: Event, /) -> Said:
        """Take one event."""

    def advance(self, to: float, /) -> Sequence[Change]:
        """Let time alone act."""

    def circuit(self, dependency: str, /) -> Circuit:
        """The circuit as it stands."""

    def wall(self, at: float, /) -> float:
        """Elapsed time as the wall clock shows it."""

    @property
    def dependencies(self) -> Sequence[str]:
        """Every dependency met so far."""


class DependencyCase(Case):
    """The shared breaker."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        self.per_dep: Mapping[str, Mapping[str, Any]] = _tables(self.policy, "per_dep", dict, f"{_name(case)}, policy")
        self.given = {name: value for name, value in self.policy.items() if name not in ("dependency_of", "per_dep")}
        default = circuit_policy(self.given, _name(case))
        policies = {name: self._own(name) for name in self.per_dep}
        self.first = self._first_dependency()
        self.fleet = self.make_fleet(fixed(policies, default))
        self.fleet.circuit(self.first)

    def make_fleet(self, policy_of: Callable[[str], CircuitPolicy]) -> Circuits:
        """What plays the shared circuits."""
        return Fleet(policy_of, self.dependencies_of)

    def _own(self, name: str) -> CircuitPolicy:
        return circuit_policy({**self.given, **self.per_dep.get(name, {})}, _name(self.case))

    def dependencies_of(self, tool: str) -> tuple[str, ...]:
        """What stands behind a tool."""
        return self.dependency_of.get(tool, (self.first if not self.dependency_of else tool,))

    def _first_dependency(self) -> str:
        named = [name for names in self.dependency_of.values() for name in names]
        return named[0] if named else "dependency"

    def feed(self, event: Event) -> Said:
        """Let one event happen."""
        return self.fleet.feed(event)

    def advance(self, to: float) -> None:
        """Let time pass without an event."""
        self.alerts += len(opened(self.fleet.advance(to)))

    def events(self, raw: Mapping[str, Any]) -> list[Event]:
        """One line of the case as events of the driver."""
        at, dependency = raw["t"], raw.get("dep", self.first)
        match raw.get("op"):
            case None:
                return [_call(raw, None)]
            case "admit?":
                return [Ask(at, raw["tool"], raw.get("run", ""))]
            case "probe_start":
                return [ProbeStart(at, dependency, raw["probe"])]
            case "probe_result":
                return [_probe_end(raw, dependency)]
            case "force_close" | "force_open" | "force_closed" | "release":
                return [Operate(at, dependency, raw["op"], str(raw.get("operator", "")), raw.get("until"))]
            case "policy_change":
                return self._edits(raw)
            case "advance_clock":
                return [] if "worker" in raw else [ClockStep(at, float(raw["by"]))]
            case "worker_start" | "disconnect" | "store_loss" | "compaction":
                return []  # state and evidence live in the database, time is its own: none of these has a say
            case other:
                raise Skip(f"op {other}")

    def _edits(self, raw: Mapping[str, Any]) -> list[Event]:
        change = _field(raw, "set", dict, _name(self.case))
        if "dep" in raw:
            self.per_dep = {**self.per_dep, raw["dep"]: {**self.per_dep.get(raw["dep"], {}), **change}}
        else:
            self.given = {**self.given, **change}
        return [PolicyEdit(raw["t"], name, self._own(name)) for name in self.fleet.dependencies]

    def seen(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """State and cause of the circuit, and the alerts so far."""
        dependency = wanted.get("dep") or self._behind(wanted.get("tool"))
        circuit = self.fleet.circuit(dependency)
        state = effective_of(circuit, Delivery.ENFORCE, self.fleet.wall(wanted["t"]))
        cause = str(circuit.cause) if circuit.cause is not None else None
        return {"state": str(state), "cause": CAUSES.get(str(cause), cause), "alerts": self.alerts}

    def _behind(self, tool: str | None) -> str:
        return self.first if tool is None else self.dependencies_of(tool)[0]


class RunCase(Case):
    """The breaker inside one agent run."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__(case)
        given = {name: value for name, value in self.policy.items() if name not in _NOT_OF_THE_RUN}
        self.run_policy = run_policy(given, _name(case))
        folded = self.policy.get("casefold_args", ())
        self.fold_all = folded is True
        self.folded = () if isinstance(folded, bool) else _names(folded)
        self.steps: dict[tuple[str, Any], int] = {}
        self.baseline = _baseline(self.policy, f"{_name(case)}, policy")
        self.runs = Runs(self._make)
        self.first_run, self.first_tool = self._first("run"), self._first("tool")

    def _first(self, name: str) -> str:
        return next((raw[name] for raw in self.case["events"] if name in raw), "")

    def _make(self, name: str, at: float) -> RunState:
        tools = {raw["tool"] for raw in self.case["events"] if "tool" in raw}
        rules = {tool: ToolRules(self.run_policy, self.dependency_of.get(tool, (tool,))) for tool in sorted(tools)}
        return RunState(rules, self.run_policy, started_at=at, baseline=self.baseline)

    def feed(self, event: Event) -> Said:
        """Let one event happen."""
        return self.runs.feed(event)

    def events(self, raw: Mapping[str, Any]) -> list[Event]:
        """One line of the case as events of the driver."""
        match raw.get("op"):
            case None:
                call = _call(raw, self.step(raw))
                return [dataclasses.replace(call, fingerprint=self._identity(raw), result=raw.get("result"))]
            case "admit?":
                return [Ask(raw["t"], raw["tool"], raw.get("run", ""), self.step(raw), self._identity(raw))]
            case "compaction":
                return [Compaction(raw["t"], raw.get("run", self.first_run))]
            case "step?":
                return [Turn(raw["t"], raw.get("run", ""), _spend(raw) if "tokens" in raw or "cost" in raw else None)]
            case "used":
                return [Bill(raw["t"], raw.get("run", ""), _spend(raw))]
            case "worker_start" | "disconnect" | "store_loss" | "advance_clock":
                return []
            case other:
                raise Skip(f"op {other}")

    def step(self, raw: Mapping[str, Any]) -> int | None:
        """The model step that a call belongs to; None: one of its own."""
        if "batch" not in raw:
            return None
        return self.steps.setdefault((raw.get("run", ""), raw["batch"]), len(self.steps))

    def _identity(self, raw: Mapping[str, Any]) -> str | None:
        if "args" not in raw:
            return None
        args = raw["args"]
        folded = tuple(args) if self.fold_all and isinstance(args, dict) else self.folded
        ignored = self.run_policy.ignored_args
        return fingerprint(raw["tool"], args, salt=SALT, ignored=ignored, casefold=folded)

    def seen(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """What a run lacks and why, and whether it goes on."""
        run = self.runs.run(wanted.get("run", self.first_run), wanted["t"])
        lost = run.withdrawn.get(wanted.get("tool", self.first_tool))
        cause = None if lost is None else str(lost.signal)
        return {
            "state": str(EffectiveState.CLOSED if lost is None else EffectiveState.OPEN),
            "cause": CAUSES.get(str(cause), cause),
            "run_alive": run.ended is None,
            "alerts": self.alerts,
        }


@dataclass(frozen=True, slots=True)
class Stage:
    """Where cases are played."""

    dependency: Callable[[Mapping[str, Any]], Case]
    run: Callable[[Mapping[str, Any]], Case]


IN_MEMORY = Stage(DependencyCase, RunCase)


def circuit_policy(given: Mapping[str, Any], where: str) -> CircuitPolicy:
    """A dependency case's policy: signals that it does not name are off."""
    values: dict[str, Any] = {
        "min_calls": 10,
        "failure_rate": 0.5,
        "consecutive_failures": None,
        "slow_call_rate": None,
        "slow_call_rate_delivery": "enforce",
        "settle_s": 0,
        "thin_sample_streak": None,
        "backoff": 1,
        "jitter": 0,
        "lockout_after_s": None,
        "cooldown_max_s": 86_400,
    }
    for name, value in given.items():
        if name == "enabled":
            values["delivery"] = "enforce" if value else "off"
        elif name == "slow_s":
            values["slow_call_ms"] = _field(given, name, (int, float), f"{where}, policy") * 1000
        else:
            values[_CIRCUIT_NAMES.get(name, name)] = value
    return CircuitPolicy(**_parsed(values, CIRCUIT_FIELDS, where))


def run_policy(given: Mapping[str, Any], where: str) -> RunPolicy:
    """A run case's policy: a confirmed read-only tool, every action `remove_tool`, signals not named are off."""
    off = (
        "consecutive_failures",
        "dependency_consecutive_failures",
        "short_run_consecutive_failures",
        "semantic_failures",
        "semantic_remove_after",
        "identical_calls",
        "oscillation_cycles",
        "no_progress_steps",
        "budget_burn",
        "unknown_tool",
    )
    values: dict[str, Any] = dict.fromkeys(off) | {"retry_ambiguous": True, "no_progress_delivery": "enforce"}
    values |= {name: str(Action.REMOVE_TOOL) for name, row in RUN_FIELDS.items() if _may_remove(row.choices)}
    for name, value in given.items():
        values[_RUN_NAMES.get(name, name)] = value
    values["dependency_consecutive_failures"] = given.get(
        "dependency_consecutive_failures", given.get("consecutive_failures")
    )
    return RunPolicy(**_parsed(values, RUN_FIELDS, where))


_NOT_OF_THE_RUN = frozenset({"dependency_of", "casefold_args", "baseline"})


def _baseline(policy: Mapping[str, Any], where: str) -> Baseline | None:
    if "baseline" not in policy:
        return None
    told = _field(policy, "baseline", dict, where)
    where = f"{where}, baseline"
    rates = [_field(told, name, (int, float), where) if name in told else None for name in _RATES]
    return Baseline(_field(told, "runs", int, where), *rates)


_RATES = ("tokens_per_step", "cost_per_step")


def _spend(raw: Mapping[str, Any]) -> Spend:
    return Spend(int(raw.get("tokens", 0)), float(raw.get("cost", 0)))


def _may_remove(choices: tuple[str, ...]) -> bool:
    return str(Action.REMOVE_TOOL) in choices


def _parsed(values: Mapping[str, Any], known: Mapping[str, Any], where: str) -> dict[str, Any]:
    unknown = [name for name in values if name not in known]
    if unknown:
        raise Skip(str(unknown[0]))
    try:
        return {name: parse(known[name], value) for name, value in values.items()}
    except PolicyError as error:
        raise BadFile(f"{where}, policy: {error}") from None


def _call(raw: Mapping[str, Any], step: int | None) -> Call:
    return Call(
        at=raw["t"],
        tool=raw["tool"],
        outcome=_known(OUTCOMES, raw["outcome"], "outcome"),
        worker=str(raw.get("worker", "")),
        run=str(raw.get("run", "")),
        started=raw.get("started"),
        duration_s=raw.get("duration"),
        retry_after_s=raw.get("retry_after"),
        step=step,
        progress=raw.get("progress"),
        slow=True if raw["outcome"] == "slow" and "duration" not in raw else None,
    )


def _probe_end(raw: Mapping[str, Any], dependency: str) -> ProbeEnd:
    verdict = _known(VERDICTS, raw["outcome"], "probe outcome")
    return ProbeEnd(raw["t"], dependency, raw["probe"], verdict, raw.get("operation"), raw.get("retry_after"))


def _known(table: Mapping[str, T], name: Any, kind: str) -> T:
    if name not in table:
        raise Skip(f"{kind} {name}")
    return table[name]


def _played(case: Mapping[str, Any], play: Case) -> list[str]:
    try:
        return _play(case, play)
    finally:
        play.close()


def _play(case: Mapping[str, Any], play: Case) -> list[str]:
    where = _name(case)
    events = sorted((_event(raw, where) for raw in _list(case, "events")), key=lambda raw: float(raw["t"]))
    wrong: list[str] = []
    for wanted in sorted(
        (_timed(raw, where, "expect") for raw in _list(case, "expect")), key=lambda raw: float(raw["t"])
    ):
        while events and events[0]["t"] <= wanted["t"]:
            play.take(events.pop(0))
        play.advance(wanted["t"])
        wrong += _differences(play, wanted)
    return wrong


def _differences(play: Case, wanted: Mapping[str, Any]) -> list[str]:
    seen = play.seen(wanted)
    seen["admit"], seen["granted"] = play.answer("admit?", wanted), play.answer("probe_start", wanted)
    return [
        f"at {wanted['t']:g} {name} is {seen.get(name)}, expected {value}"
        for name, value in wanted.items()
        if name not in ("t", *_WHICH) and not _fits(seen.get(name), value)
    ]


def _concerns(raw: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(raw.get(name, wanted[name]) == wanted[name] for name in _WHICH if name in wanted)


def _fits(seen: Any, wanted: Any) -> bool:
    return seen in wanted if isinstance(wanted, list) else bool(seen == wanted)


# -- reading a file that anybody may have written


def _read(path: Path) -> list[Mapping[str, Any]]:
    try:
        cases = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror or 'cannot be read'}") from None
    except (ValueError, RecursionError):
        raise BadFile(f"{path}: not JSON") from None
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise BadFile(f"{path}: not an array of cases")
    return cases


def _name(case: Mapping[str, Any]) -> str:
    return f"case {case.get('id', '?')}"


def _field(holder: Mapping[str, Any], name: str, kind: type | tuple[type, ...], where: str) -> Any:
    if name not in holder:
        raise BadFile(f"{where}: {name} is missing")
    if not isinstance(holder[name], kind):
        raise BadFile(f"{where}: {name} has the wrong type ({type(holder[name]).__name__})")
    return holder[name]


def _list(case: Mapping[str, Any], name: str, *, optional: bool = False) -> list[Any]:
    if optional and name not in case:
        return []
    found: list[Any] = _field(case, name, list, _name(case))
    return found


def _names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _tables(holder: Mapping[str, Any], name: str, kind: type | tuple[type, ...], where: str) -> dict[str, Any]:
    table: dict[str, Any] = _field(holder, name, dict, where) if name in holder else {}
    return {key: _field(table, key, kind, f"{where}, {name}") for key in table}


def _dependencies_of(policy: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    return {tool: _names(value) for tool, value in _tables(policy, "dependency_of", (str, list), where).items()}


def _timed(raw: Any, where: str, part: str) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise BadFile(f"{where}: {part} holds something that is no object")
    _field(raw, "t", (int, float), f"{where}, {part}")
    _checked(raw, f"{where}, {part}")
    return raw


_DEMANDED: Mapping[str | None, tuple[str, ...]] = {
    None: ("tool", "outcome"),
    "admit?": ("tool",),
    "probe_start": ("probe",),
    "probe_result": ("probe", "outcome"),
    "advance_clock": ("by",),
    "policy_change": ("set",),
}
_WORDS = ("op", "tool", "outcome", "probe", "run", "worker", "dep", "operator", "operation")
_NUMBERS = ("t", "started", "duration", "retry_after", "by", "until", "tokens", "cost")


def _event(raw: Any, where: str) -> Mapping[str, Any]:
    event = _timed(raw, where, "events")
    for name in _DEMANDED.get(event.get("op"), ()):
        _field(event, name, object, f"{where}, event at {event['t']:g}")
    return event


def _checked(raw: Mapping[str, Any], where: str) -> None:
    for name in _WORDS:
        if name in raw:
            _field(raw, name, str, where)
    for name in _NUMBERS:
        if name in raw and not _is_time(_field(raw, name, (int, float), where)):
            raise BadFile(f"{where}: {name} is no number of seconds")


def _is_time(value: float) -> bool:
    return not isinstance(value, bool) and -LONGEST_S <= value <= LONGEST_S
