"""The documents an agent works by: checked whole before they are applied, ordered by (epoch, n), replaced whole.

One thread writes (`Documents`), every other reads `Documents.snapshot` once and uses what it got. Instants in documents
are the
server's; `Snapshot.server_now` translates from the monotonic clock, so no wall clock is ever compared.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from recloser.core.budget import HEALTHY_RUNS, Baseline
from recloser.core.circuit import EffectiveState, effective
from recloser.core.policy import CircuitPolicy, RunPolicy, from_wire, resolve_circuit, resolve_run, to_wire
from recloser.core.types import Delivery, Mode, SideEffectClass, Signal, State
from recloser.errors import BadDocument
from recloser.override import Forced

FORMAT = 1
_SIGNALS = frozenset(signal.value for signal in Signal)
Version = tuple[str, int]


class Source(StrEnum):
    """Where a document in use came from."""

    DEFAULTS = "defaults"
    BOOTSTRAP = "bootstrap"
    DISK = "disk"
    SERVER = "server"


class Taken(StrEnum):
    """What became of something the server said."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    OLDER = "older"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class DependencyRule:
    """One dependency and the policy of its circuit; `digest` names the resolved policy on the wire."""

    name: str
    policy: CircuitPolicy
    digest: str


@dataclass(frozen=True, slots=True)
class ToolRule:
    """One tool: its run policy, what stands behind it, and what a call does to the world."""

    name: str
    policy: RunPolicy
    digest: str
    dependencies: tuple[DependencyRule, ...]
    side_effect: SideEffectClass = SideEffectClass.UNKNOWN
    confirmed: bool = False
    operation: str | None = None

    @property
    def slow_s(self) -> float:
        """Longer than this is slow for one of its dependencies at least."""
        return min(rule.policy.slow_call_ms for rule in self.dependencies) / 1000.0


@dataclass(frozen=True, slots=True)
class Config:
    """Policies resolved to plain numbers. A tool that is not listed gets the defaults and its own dependency."""

    version: Version | None = None
    tools: Mapping[str, ToolRule] = field(default_factory=dict)
    dependencies: Mapping[str, DependencyRule] = field(default_factory=dict)
    circuit_policy: CircuitPolicy = field(default_factory=CircuitPolicy)
    circuit_digest: str = ""
    run_policy: RunPolicy = field(default_factory=RunPolicy)
    run_digest: str = ""
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    """What a step of a healthy run costs, by kind of task; only for this agent, and only where it is known."""

    def tool(self, name: str) -> ToolRule:
        """The rule of any tool, listed or not."""
        return self.tools.get(name) or ToolRule(name, self.run_policy, self.run_digest, (self.dependency(name),))

    def dependency(self, name: str) -> DependencyRule:
        """The rule of any dependency, listed or not."""
        return self.dependencies.get(name) or DependencyRule(name, self.circuit_policy, self.circuit_digest)


@dataclass(frozen=True, slots=True)
class CircuitView:
    """A circuit as the server last told it; instants are the server's."""

    state: State = State.CLOSED
    mode: Mode = Mode.AUTO
    generation: int = 0
    mode_expires_at: float | None = None
    delivery: Delivery = Delivery.ENFORCE
    cause: str = ""
    opened_at: float | None = None
    due_at: float | None = None
    operation: str | None = None
    tripped_by: str = ""
    ramp_started_at: float | None = None
    """Since when a share of the workers is admitted again; only while it is half open."""
    probed: bool = True
    """A synthetic probe tests it, so no run's call does."""

    def expired(self, now: float) -> bool:
        """Has an override run out?"""
        return self.mode_expires_at is not None and self.mode_expires_at <= now

    def signal(self, now: float) -> Signal | None:
        """What opened it, as far as it was told; None where an operator did."""
        if self.cause == "operator" or (self.mode is Mode.FORCED_OPEN and not self.expired(now)):
            return None
        for told in (self.tripped_by, self.cause):
            if told in _SIGNALS:
                return Signal(told)
        return Signal.FAILURE_RATE

    def effective(self, now: float) -> EffectiveState:
        """What calls meet, by the core's one rule; `now` is the server's."""
        return effective(self.state, self.mode, self.mode_expires_at, self.delivery, now)

    @property
    def quiet(self) -> bool:
        """Nothing about it can stop a call or matter to the worker's breaker."""
        return self.state is State.CLOSED and self.mode is Mode.AUTO and self.delivery is Delivery.ENFORCE


@dataclass(slots=True)
class Heard:
    """When the circuits were last known to be current, on the monotonic clock; None before the first time."""

    at: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the hot path reads, once per call: never changed, only replaced."""

    config: Config = field(default_factory=Config)
    circuits: Mapping[str, CircuitView] = field(default_factory=dict)
    """All that is not quiet; a dependency that is absent admits calls."""
    generations: Mapping[str, int] = field(default_factory=dict)
    offset: float = 0.0
    """Server time minus the monotonic clock."""
    heard: Heard = field(default_factory=Heard)
    worker: str = ""
    """This process's instance: whether a ramp admits it hangs on its name."""
    forced: Forced | None = None
    """What the break-glass file forces; None where it forces nothing."""

    def server_now(self, now: float) -> float:
        """The server's clock at a monotonic instant."""
        return now + self.offset

    def generation(self, dependency: str) -> int:
        """The circuit's generation as last heard; 0 if never."""
        return self.generations.get(dependency, 0)


@dataclass(slots=True)
class Copy:
    """One document in use, and how it stands with it."""

    source: Source = Source.DEFAULTS
    document: Mapping[str, Any] | None = None
    version: Version | None = None
    etag: str | None = None
    confirmed_at: float | None = None
    stale_since: float | None = None
    problem: str | None = None

    def confirm(self, now: float) -> None:
        """The server says that this is current."""
        self.confirmed_at, self.stale_since, self.problem = now, None, None

    def fail(self, problem: str, now: float) -> None:
        """The last attempt brought nothing usable: what is held stays, and says since when it is stale."""
        self.problem = problem
        if self.stale_since is None:
            self.stale_since = now if self.confirmed_at is None else self.confirmed_at


class Pulse:
    """One mark for all that a decision rests on: replaced, never changed, when any of it is.

    Who keeps the mark it decided under need compare nothing else.
    """

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = object()

    def beat(self) -> None:
        """Something has changed."""
        self.now = object()


class Documents:
    """The config and the circuits in use. One thread calls the methods, save `force`; any thread reads `snapshot`.

    The snapshot is replaced before the copy that carries its tag: a process forked in between asks once too often,
    never too seldom.
    """

    def __init__(self, *, environment: str | None = None, worker: str = "", pulse: Pulse | None = None) -> None:
        self.config = Copy()
        self.circuits = Copy()
        self.snapshot = Snapshot(config=_defaults(), worker=worker)
        self.pulse = pulse or Pulse()
        self._writing = threading.Lock()
        self._environment = environment
        self._views: dict[str, CircuitView] = {}
        self._entry_versions: dict[str, Version] = {}

    def load(self, saved: Mapping[str, Any], *, age_s: float, now: float, source: Source = Source.DISK) -> None:
        """Start from documents of an earlier life. Raises `BadDocument`, having applied nothing."""
        config = parse_config(saved.get("config"), self._environment)
        circuits = saved.get("circuits")
        views = parse_circuits(circuits)[1] if circuits is not None else {}
        self.config = Copy(source, saved["config"], config.version, saved.get("config_etag"), now - age_s)
        self.config.stale_since = now - age_s
        self._replace(config=config)
        if circuits is None:
            return
        self.circuits = Copy(source, circuits, _version(circuits), saved.get("circuits_etag"), now - age_s)
        self.circuits.stale_since = self.snapshot.heard.at = now - age_s
        self._hold_offset(circuits["now"] + age_s, now)
        self._show(views)

    def saved(self) -> dict[str, Any] | None:
        """What is worth keeping on disk: only what the server itself said."""
        if self.config.source is not Source.SERVER:
            return None
        kept = {"config": self.config.document, "config_etag": self.config.etag}
        if self.circuits.source is Source.SERVER:
            kept |= {"circuits": _document(self.circuits, self._views, self.snapshot), "circuits_etag": None}
        return kept

    def take_config(self, document: Any, *, etag: str | None, now: float) -> Taken:
        """Apply a config document; raises `BadDocument`, having changed nothing but `config.problem`."""
        config = self._checked(self.config, now, lambda: parse_config(document, self._environment))
        assert config.version is not None
        if self._behind(self.config, config.version):
            return Taken.OLDER
        changed = (config.version, etag) != (self.config.version, self.config.etag)
        self._replace(config=config)
        self.config = Copy(Source.SERVER, document, config.version, etag, now)
        return Taken.APPLIED if changed else Taken.UNCHANGED

    def take_circuits(self, document: Any, *, etag: str | None, now: float) -> Taken:
        """Apply a whole circuits document; raises `BadDocument` as `take_config` does."""
        version, views = self._checked(self.circuits, now, lambda: parse_circuits(document))
        if self._behind(self.circuits, version):
            return Taken.OLDER
        for name, told in list(self._entry_versions.items()):
            if told[0] == version[0] and told[1] > version[1] and name in self._views:
                views[name] = self._views[name]
            else:
                del self._entry_versions[name]
        changed = version != self.circuits.version
        self._show(views)
        self.circuits = Copy(Source.SERVER, document, version, etag)
        self._current(document["now"], now)
        return Taken.APPLIED if changed else Taken.UNCHANGED

    def take_delta(self, delta: Any, *, now: float) -> Taken:
        """Apply a delta to the circuits; `GAP` when it does not follow what is held."""
        version, entries = self._checked(self.circuits, now, lambda: _parse_entries(delta))
        held = self.circuits.version
        if held is None or held[0] != version[0]:
            return Taken.GAP
        if version[1] <= held[1]:
            return Taken.OLDER
        if delta.get("previous") != held[1]:
            return Taken.GAP
        self._merge(entries, version)
        self.circuits.version, self.circuits.etag, self.circuits.source = version, None, Source.SERVER
        self._current(delta["now"], now)
        return Taken.APPLIED

    def take_entries(self, answer: Any, *, now: float) -> bool:
        """Apply the circuits that a batch's answer names; True where the whole document is behind and wants a fetch."""
        stated = {"circuits": answer.get("circuits"), "now": answer.get("now")}
        version = _pair(answer.get("circuits_version"))
        _, entries = self._checked(self.circuits, now, lambda: _parse_entries(stated, version))
        held = self.circuits.version
        if held is not None and held[0] == version[0] and version[1] < held[1]:
            return False
        if held is None or held[0] == version[0]:
            self._merge(entries, version)
        return held != version

    def unchanged(self, copy: Copy, sent_etag: str | None, now: float) -> bool:
        """A 304: it confirms the document whose tag was sent, and only while that is the one held."""
        if sent_etag is None or sent_etag != copy.etag:
            return False
        copy.confirm(now)
        copy.source = Source.SERVER
        if copy is self.circuits:
            self.snapshot.heard.at = now
        return True

    def heartbeat(self, now: float) -> None:
        """The stream is alive, so what it has told so far is current."""
        if self.circuits.source is Source.SERVER and self.circuits.problem is None:
            self.circuits.confirm(now)
            self.snapshot.heard.at = now

    def _checked(self, copy: Copy, now: float, parse: Any) -> Any:
        try:
            return parse()
        except BadDocument as problem:
            copy.fail(str(problem), now)
            raise

    def _behind(self, copy: Copy, version: Version) -> bool:
        """Within an epoch a lower number is never applied; another epoch is, whatever its number."""
        if copy.source not in (Source.SERVER, Source.DISK) or copy.version is None:
            return False
        return copy.version[0] == version[0] and version[1] < copy.version[1]

    def _current(self, server_now: float, now: float) -> None:
        self.circuits.confirm(now)
        self.snapshot.heard.at = now
        self._hold_offset(server_now, now)

    def _hold_offset(self, server_now: float, now: float) -> None:
        self._replace(offset=server_now - now)

    def force(self, forced: Forced | None) -> None:
        """Take over what the break-glass file says. For any thread."""
        self._replace(forced=forced)

    def shift(self, by_s: float) -> None:
        """The process slept for -`by_s` seconds: everything was heard that much earlier."""
        for copy in (self.config, self.circuits):
            copy.confirmed_at = None if copy.confirmed_at is None else copy.confirmed_at + by_s
            copy.stale_since = None if copy.stale_since is None else copy.stale_since + by_s
        heard = self.snapshot.heard
        heard.at = None if heard.at is None else heard.at + by_s
        forced = self.snapshot.forced
        self._replace(offset=self.snapshot.offset - by_s, forced=forced and forced.shifted(by_s))

    def after_fork(self) -> None:
        """In a forked child: nobody else is writing."""
        self._writing = threading.Lock()

    def _replace(self, **changed: Any) -> None:
        with self._writing:
            self.snapshot = _replaced(self.snapshot, **changed)
        self.pulse.beat()

    def _merge(self, entries: Mapping[str, CircuitView | None], version: Version) -> None:
        views = dict(self._views)
        for name, view in entries.items():
            self._entry_versions[name] = version
            if view is None:
                views.pop(name, None)
            else:
                views[name] = view
        self._show(views)

    def _show(self, views: dict[str, CircuitView]) -> None:
        self._views = views
        generations = {**self.snapshot.generations, **{name: view.generation for name, view in views.items()}}
        loud = {name: view for name, view in views.items() if not view.quiet}
        self._replace(circuits=loud, generations=generations)


def parse_config(document: Any, environment: str | None = None) -> Config:
    """A config document, checked whole. Raises `BadDocument`."""
    head = _head(document)
    if environment and head.get("environment") not in (None, environment):
        raise BadDocument(f"it is for environment {str(head.get('environment'))[:64]!r}")
    try:
        circuits = [from_wire(CircuitPolicy, given) for given in head["circuit_policies"]]
        runs = [from_wire(RunPolicy, given) for given in head["run_policies"]]
        circuit_digests = [digest(given) for given in head["circuit_policies"]]
        run_digests = [digest(given) for given in head["run_policies"]]
        default_circuit = _index(head["default_circuit_policy"], circuits)
        default_run = _index(head["default_run_policy"], runs)
        dependencies = {}
        for name, given in head["dependencies"].items():
            at = _index(given["policy"], circuits)
            dependencies[str(name)] = DependencyRule(str(name), circuits[at], circuit_digests[at])
        config = Config(
            version=_version(head),
            dependencies=dependencies,
            circuit_policy=circuits[default_circuit],
            circuit_digest=circuit_digests[default_circuit],
            run_policy=runs[default_run],
            run_digest=run_digests[default_run],
            baselines={str(kind): _baseline(given) for kind, given in head.get("baselines", {}).items()},
        )
        tools = {}
        for name, given in head["tools"].items():
            at = _index(given["policy"], runs)
            tools[str(name)] = _tool(str(name), given, runs[at], run_digests[at], config)
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        raise BadDocument(f"its policies cannot be read: {type(problem).__name__}: {problem}"[:300]) from problem
    object.__setattr__(config, "tools", tools)
    return config


def _baseline(given: Any) -> Baseline:
    """Of as many runs as it takes: the control plane tells no other."""
    rates = (given.get(name) for name in ("tokens_per_step", "cost_per_step"))
    return Baseline(HEALTHY_RUNS, *(None if rate is None else _positive(rate) for rate in rates))


def _positive(rate: Any) -> float:
    if not math.isfinite(number := float(rate)) or number < 0:
        raise ValueError("a baseline is no amount")
    return number


def parse_circuits(document: Any) -> tuple[Version, dict[str, CircuitView]]:
    """A circuits document, checked whole. Raises `BadDocument`."""
    head = _head(document)
    version, entries = _parse_entries(head)
    if any(view is None for view in entries.values()):
        raise BadDocument("one of its circuits is not told")
    return version, {name: view for name, view in entries.items() if view is not None}


def digest(wire: Any) -> str:
    """The name of a resolved policy on the wire: sha256[:12] of its canonical JSON."""
    canonical = json.dumps(wire, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:12]


def _defaults() -> Config:
    """What holds without any document: every tool of class `unknown`, resolved from the built-in values."""
    circuit, run = resolve_circuit([]).policy, resolve_run([]).policy
    return Config(
        circuit_policy=circuit,
        circuit_digest=digest(to_wire(circuit)),
        run_policy=run,
        run_digest=digest(to_wire(run)),
    )


def _tool(name: str, given: Mapping[str, Any], policy: RunPolicy, named: str, config: Config) -> ToolRule:
    behind = given.get("dependencies")
    if not isinstance(behind, list) or not behind or not all(isinstance(one, str) for one in behind):
        raise BadDocument(f"tool {name[:64]!r} names no dependencies")
    operation = given.get("operation")
    return ToolRule(
        name,
        policy,
        named,
        tuple(config.dependency(one) for one in behind),
        SideEffectClass(given.get("side_effect", "unknown")),
        given.get("confirmed", False) is True,
        None if operation is None else str(operation),
    )


def _head(document: Any) -> Mapping[str, Any]:
    """What both documents begin with."""
    if not isinstance(document, Mapping):
        raise BadDocument("it is no object")
    if document.get("format") != FORMAT:
        raise BadDocument(f"its format {str(document.get('format'))[:16]} is not known to this SDK")
    if document.get("complete") is not True:
        raise BadDocument("it is not complete")
    _version(document)
    _finite(document.get("now"))
    return document


def _parse_entries(document: Any, version: Version | None = None) -> tuple[Version, dict[str, CircuitView | None]]:
    if not isinstance(document, Mapping) or not isinstance(document.get("circuits"), Mapping):
        raise BadDocument("it names no circuits")
    _finite(document.get("now"))
    told = version or _version(document)
    return told, {str(name): _view(given) for name, given in document["circuits"].items()}


def _view(given: Any) -> CircuitView | None:
    if given is None:
        return None
    try:
        return CircuitView(
            State(given["state"]),
            Mode(given.get("mode", "auto")),
            _count(given.get("generation", 0)),
            _maybe(given.get("mode_expires_at")),
            Delivery(given.get("delivery", "enforce")),
            str(given.get("cause") or "")[:64],
            _maybe(given.get("opened_at")),
            _maybe(given.get("due_at")),
            None if given.get("operation") is None else str(given["operation"])[:200],
            str(given.get("tripped_by") or "")[:64],
            _maybe(given.get("ramp_started_at")),
            given.get("probed") is not False,
        )
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        raise BadDocument(f"a circuit cannot be read: {problem}"[:300]) from problem


def _version(document: Mapping[str, Any]) -> Version:
    return _pair([document.get("epoch"), document.get("version")])


def _pair(given: Any) -> Version:
    match given:
        case [str() as epoch, int() as number] if not isinstance(number, bool):
            return epoch, number
    raise BadDocument("it has no version")


def _index(given: Any, among: list[Any]) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < len(among):
        raise BadDocument("it refers to a policy that is not there")
    return given


def _count(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError("a generation must be 0 or more")
    return given


def _finite(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise BadDocument("it does not say when it was made")
    return float(given)


def _maybe(given: Any) -> float | None:
    return None if given is None else _finite(given)


def _replaced(snapshot: Snapshot, **changed: Any) -> Snapshot:
    values = {name: getattr(snapshot, name) for name in Snapshot.__slots__}
    return Snapshot(**{**values, **changed})


def _document(copy: Copy, views: Mapping[str, CircuitView], snapshot: Snapshot) -> dict[str, Any]:
    """The circuits as they stand, deltas included, in the shape of the document."""
    assert copy.version is not None and copy.confirmed_at is not None
    entries = {
        name: {
            "state": view.state,
            "mode": view.mode,
            "generation": view.generation,
            "mode_expires_at": view.mode_expires_at,
            "delivery": view.delivery,
            "cause": view.cause,
            "opened_at": view.opened_at,
            "due_at": view.due_at,
            "operation": view.operation,
            "tripped_by": view.tripped_by,
            "ramp_started_at": view.ramp_started_at,
            "probed": view.probed,
        }
        for name, view in views.items()
    }
    epoch, number = copy.version
    now = snapshot.server_now(copy.confirmed_at)
    return {"format": FORMAT, "epoch": epoch, "version": number, "complete": True, "now": now, "circuits": entries}
