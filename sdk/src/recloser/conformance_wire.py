"""The same cases against a live server: events become batches of real sessions, the shared circuits are the server's.

The server's clock is moved by hand through its `/test/v1` routes, which it has only where `RECLOSER_TEST_CLOCK` is
set. A run case plays through an SDK client attached to that server: its policies arrive by the config document, its
withdrawals are told by run reports, and both ends must agree.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from recloser.client import Client
from recloser.config_sync import CircuitView, parse_circuits
from recloser.conformance import CAUSES, OUTCOMES, Circuits, DependencyCase, RunCase, Skip, Stage, Unheard
from recloser.core.circuit import Circuit, EffectiveState
from recloser.core.policy import CircuitPolicy, Level, fields_for, to_wire
from recloser.core.replay import (
    Ask,
    Call,
    Change,
    ClockStep,
    Compaction,
    Event,
    Operate,
    PolicyEdit,
    ProbeEnd,
    ProbeStart,
    Said,
)
from recloser.core.types import FAILURES, Cause, Outcome
from recloser.core.window import is_slow
from recloser.run import Run
from recloser.transport import PREFIX, Transport, decode

TELLS_EVERY_S = 50.0
"""A session with nothing to tell sends an empty batch: after a minute of silence it would be taken for dead."""
PATIENCE_S = 15.0
LOOKS_EVERY_S = 0.01
KIND = "rehearsal"
"""The kind of task of every run of a case."""


def stage(url: str, key: str) -> Stage:
    """The server there as a place to play cases. `key` may be any agent's; each case gets an environment of its own."""
    return Stage(lambda case: WireDependencyCase(case, url, key), lambda case: WireRunCase(case, url, key))


class Rehearsal:
    """One case's environment on the server, and the hand on its clock."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        begun = _Hand(url, key).ask("begin")
        self.environment: str = begun["environment"]
        self.key: str = begun["key"]
        self.begins: float = begun["now"]
        self._hand = _Hand(url, self.key)
        self.agent = Transport(url, self.key)

    def ask(self, route: str, **asked: Any) -> dict[str, Any]:
        """One step of the case; the server first ends what it has begun."""
        return self._hand.ask(route, **asked)

    def client(self, instance: str) -> Client:
        """An agent process attached to the server, which has heard its config."""
        client = Client(self._url, self.key, instance=instance, environment=self.environment, cache_dir=False)
        _wait(lambda: client.status()["config"]["source"] == "server", "the config did not arrive")
        return client

    def close(self) -> None:
        """Let the clock go."""
        self.ask("end")
        self._hand.close()
        self.agent.close()


class _Hand(Transport):
    """The routes that only a rehearsing server has."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, key, timeout_s=30.0)
        self._base = self._base.removesuffix(PREFIX) + "/test/v1"

    def ask(self, route: str, **asked: Any) -> dict[str, Any]:
        answer: dict[str, Any] = decode(self.post(f"/{route}", asked).body)
        return answer


class _Session:
    """One agent process as the wire sees it."""

    def __init__(self, agent: Transport, instance: str) -> None:
        self._agent = agent
        self._instance = instance
        self._id = str(uuid4())
        self._seq = 0
        self.told_at = float("-inf")

    def tell(self, at: float, observations: Sequence[Mapping[str, Any]] = ()) -> None:
        """The next batch; empty where there is nothing to tell."""
        self._seq += 1
        self.told_at = at
        batch = {"format": 1, "session": self._id, "seq": self._seq, "instance": self._instance}
        self._agent.post("/batch", {**batch, "sdk": "conformance", "observations": list(observations)})


class WireFleet:
    """The server's circuits: what the core's `Fleet` is in memory. Times are a case's elapsed seconds."""

    def __init__(
        self,
        rehearsal: Rehearsal,
        policies: Mapping[str, CircuitPolicy],
        dependencies_of: Callable[[str], tuple[str, ...]],
    ) -> None:
        self._rehearsal = rehearsal
        self._policies = dict(policies)
        self._dependencies_of = dependencies_of
        self._offset = 0.0
        self._sessions: dict[str, _Session] = {}
        self._rounds: dict[str, str] = {}
        self._moves: dict[str, list[tuple[float, int]]] = {}
        for name, policy in policies.items():
            self._publish(name, policy)

    @property
    def dependencies(self) -> Sequence[str]:
        """Every dependency of the case."""
        return tuple(self._policies)

    def wall(self, at: float) -> float:
        """The server's clock at that moment of the case."""
        return self._rehearsal.begins + at + self._offset

    def advance(self, to: float) -> list[Change]:
        """Bring the server's clock there; sessions that have long been silent say that they live."""
        told = self._rehearsal.ask("clock", to=self.wall(to))
        for name, moves in told["moves"].items():
            known = self._moves.setdefault(name, [])
            newest = known[-1][1] if known else 0
            known += [(at - self.wall(0.0), number) for at, number in moves if number > newest]
        for session in self._sessions.values():
            if to - session.told_at >= TELLS_EVERY_S:
                session.tell(to)
        return []

    def circuit(self, dependency: str) -> Circuit:
        """The circuit as agents hear of it."""
        view = self._views().get(dependency, CircuitView())
        cause = Cause(view.cause) if view.cause else None
        return Circuit(view.state, view.mode, view.mode_expires_at, view.generation, cause)

    def feed(self, event: Event) -> Said:
        """Let one event happen on the server."""
        self.advance(event.at)
        match event:
            case Call():
                self._called(event)
            case Ask():
                return Said(event.at, admitted=self._admits(event.tool, event.at))
            case ProbeStart():
                return Said(event.at, granted=self._probe_asked(event))
            case ProbeEnd():
                self._probe_ended(event)
            case Operate():
                until = None if event.until is None else self.wall(event.until)
                self._rehearsal.ask("operate", dependency=event.dependency, verb=event.verb, until=until)
            case PolicyEdit():
                self._policies[event.dependency] = event.policy
                self._publish(event.dependency, event.policy)
            case ClockStep():
                self._rehearsal.ask("clock", jump_s=event.by_s)
                self._offset += event.by_s
            case Compaction():
                pass
        return Said(event.at)

    def alerts(self) -> int:
        """How many alerts have said that a circuit opened."""
        return int(self._rehearsal.ask("look")["alerts"])

    def lose_store(self, at: float) -> None:
        """The shared counters are gone."""
        self.advance(at)
        self._rehearsal.ask("store-loss")

    def join(self, worker: str, at: float) -> None:
        """A process begins: a new session of its worker."""
        self.advance(at)
        self._sessions.pop(worker, None)
        self._session(worker).tell(at)

    def leave(self, worker: str) -> None:
        """A process vanishes: nothing is heard of its session any more."""
        self._sessions.pop(worker, None)

    def _session(self, worker: str) -> _Session:
        return self._sessions.setdefault(worker, _Session(self._rehearsal.agent, worker or "worker"))

    def _views(self) -> Mapping[str, CircuitView]:
        return parse_circuits(decode(self._rehearsal.agent.get("/circuits").body))[1]

    def _admits(self, tool: str, at: float) -> bool:
        views, now = self._views(), self.wall(at)
        return all(views.get(name, CircuitView()).effective(now).admits for name in self._dependencies_of(tool))

    def _called(self, call: Call) -> None:
        names = self._dependencies_of(call.tool) if call.at_fault is None else call.at_fault
        self._session(call.worker).tell(call.at, [self._observation(call, name) for name in names])

    def _observation(self, call: Call, dependency: str) -> dict[str, Any]:
        slow = self._is_slow(call, dependency)
        failed = call.outcome in FAILURES
        return {
            "tool": call.tool,
            "dependency": dependency,
            "operation": call.tool,
            "generation": self._admitted_under(dependency, call.at if call.started is None else call.started),
            "age_s": 0.0,
            "counts": {call.outcome.value: 1},
            "attempts": 1,
            "slow": int(slow),
            "slow_failures": int(slow and failed),
            "streak": int(failed),
            "retry_after_s": call.retry_after_s if failed else None,
        }

    def _is_slow(self, call: Call, dependency: str) -> bool:
        if call.slow is not None or call.duration_s is None:
            return bool(call.slow)
        return is_slow(call.duration_s, self._policies[dependency].slow_call_ms)

    def _admitted_under(self, dependency: str, at: float) -> int:
        """The circuit's generation at the moment of an admission."""
        return next((number for moved_at, number in reversed(self._moves.get(dependency, ())) if moved_at <= at), 0)

    def _probe_asked(self, event: ProbeStart) -> bool:
        found = self._rehearsal.ask("probe", dependency=event.dependency)["round"]
        self._rounds[event.probe] = found or str(uuid4())
        return found is not None

    def _probe_ended(self, event: ProbeEnd) -> None:
        self._rehearsal.ask(
            "probe",
            round=self._rounds.get(event.probe, str(uuid4())),
            verdict=event.verdict.value,
            operation=event.operation,
            retry_after_s=event.retry_after_s,
        )

    def _publish(self, dependency: str, policy: CircuitPolicy) -> None:
        self._rehearsal.ask("policy", level="dependency", owner=dependency, values=to_wire(policy))


class WireDependencyCase(DependencyCase):
    """A case of the shared breaker, played by a server."""

    fleet: WireFleet

    def __init__(self, case: Mapping[str, Any], url: str, key: str) -> None:
        self._url, self._key = url, key
        super().__init__(case)

    def make_fleet(self, policy_of: Callable[[str], CircuitPolicy]) -> Circuits:
        """A fresh environment with the case's tools, dependencies and policies."""
        self.rehearsal = Rehearsal(self._url, self._key)
        tools = _named(self.case, "tool") | set(self.dependency_of)
        behind = {tool: list(self.dependencies_of(tool)) for tool in sorted(tools)}
        every = {
            self.first,
            *_named(self.case, "dep"),
            *self.per_dep,
            *(name for names in behind.values() for name in names),
        }
        self.rehearsal.ask("names", dependencies=sorted(every), tools=behind)
        policies = {name: policy_of(name) for name in sorted(every)}
        return WireFleet(self.rehearsal, policies, self.dependencies_of)

    def take(self, raw: Mapping[str, Any]) -> None:
        """An event; what the core has no need to hear may still matter to a server."""
        match raw.get("op"):
            case "store_loss":
                self.fleet.lose_store(raw["t"])
            case "worker_start":
                self.fleet.join(raw.get("worker", ""), raw["t"])
            case "disconnect":
                self.fleet.leave(raw.get("worker", ""))
            case _:
                super().take(raw)

    def seen(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """State and cause as agents hear them, alerts as the server counts them."""
        if "alerts" in wanted:
            self.alerts = self.fleet.alerts()
        return super().seen(wanted)

    def close(self) -> None:
        """The case is over."""
        self.rehearsal.close()


class WireRunCase(RunCase):
    """A case of the run breaker, played through SDK clients attached to a server."""

    def __init__(self, case: Mapping[str, Any], url: str, key: str) -> None:
        super().__init__(case)
        self._tools = sorted(_named(case, "tool") | set(self.dependency_of))
        self._clients: dict[str, Client] = {}
        self._runs: dict[str, Run] = {}
        self._batch_of: dict[str, Any] = {}
        self._calls = 0
        self.rehearsal = Rehearsal(url, key)
        self._set_up()

    def take(self, raw: Mapping[str, Any]) -> None:
        """One call, one question or one compaction, in the run that it belongs to."""
        if "progress" in raw:
            raise Skip("progress: an SDK's run is not told of it")
        self.events(raw)  # what is not offered is skipped, as everywhere
        run = self._run(raw)
        match raw.get("op"):
            case None:
                self._begin_step(run, raw)
                outcome = OUTCOMES[raw["outcome"]]
                run.record(raw["tool"], outcome, args=self._args(raw), result=raw.get("result", self._calls))
            case "admit?":
                self._begin_step(run, raw)
                self.answers.append((raw, self._admits(run, raw)))
            case "compaction":
                run.compaction()
            case "step?":
                self.answers.append((raw, run.step(_spent(raw))))
            case "used":
                run.used(**_spent(raw))

    def advance(self, to: float) -> None:
        """A run's rules ask no server for the time."""

    def seen(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """What the run's own tools array lacks, and why, as the server has heard it."""
        run, tool = self._run(wanted), wanted.get("tool", self.first_tool)
        gone = tool not in {each["name"] for each in run.tools(_array(self._tools))}
        cause = self._cause(run, tool) if gone else None
        return {
            "state": str(EffectiveState.OPEN if gone else EffectiveState.CLOSED),
            "cause": CAUSES.get(str(cause), cause),
            "run_alive": run.end_cause is None,
            "alerts": self.alerts,
        }

    def close(self) -> None:
        """The case is over."""
        for run in self._runs.values():
            run.finish()
        for client in self._clients.values():
            client.close()
        self.rehearsal.close()

    def _set_up(self) -> None:
        behind = {tool: list(self.dependency_of.get(tool, (tool,))) for tool in self._tools}
        every = sorted({name for names in behind.values() for name in names})
        self.rehearsal.ask("names", dependencies=every, tools=behind)
        plain = to_wire(self.run_policy)
        shared = {"delivery": "off", "worker_consecutive_failures": None}
        whole = {name: value for name, value in plain.items() if name not in fields_for(Level.TOOL)}
        self.rehearsal.ask("policy", level="environment", values={"circuit": shared, "run": whole})
        for tool in self._tools:
            own = {name: plain[name] for name in fields_for(Level.TOOL)}
            values = {**own, "casefold_args": self._folded_of(tool)}
            self.rehearsal.ask("policy", level="tool", owner=tool, values=values)

        if self.baseline is not None:
            self.rehearsal.ask("baseline", kind=KIND, **dataclasses.asdict(self.baseline))

    def _folded_of(self, tool: str) -> list[str]:
        if not self.fold_all:
            return list(self.folded)
        every = [raw["args"] for raw in self.case["events"] if raw.get("tool") == tool and "args" in raw]
        return sorted({name for args in every if isinstance(args, dict) for name in args})

    def _run(self, named: Mapping[str, Any]) -> Run:
        name = named.get("run", self.first_run)
        if name not in self._runs:
            run = self._runs[name] = self._client(named.get("worker", "")).run(KIND)
            run.tools(_array(self._tools))
        return self._runs[name]

    def _client(self, worker: str) -> Client:
        if worker not in self._clients:
            self._clients[worker] = self.rehearsal.client(worker or "worker")
        return self._clients[worker]

    def _begin_step(self, run: Run, raw: Mapping[str, Any]) -> None:
        """Calls of one batch are one model step, every other call is one of its own."""
        batch = raw.get("batch")
        if batch is None or self._batch_of.get(run.id) != batch:
            self._batch_of[run.id] = batch
            run.step()

    def _args(self, raw: Mapping[str, Any]) -> Any:
        """The call's arguments; where the case names none, none that were seen before."""
        self._calls += 1
        return raw.get("args", {"call": self._calls})

    def _admits(self, run: Run, raw: Mapping[str, Any]) -> bool:
        if run.check(raw["tool"], self._args(raw)) is not None:
            return False
        run.record(raw["tool"], Outcome.CANCELLED)  # the question was all: the call is not made
        return True

    def _cause(self, run: Run, tool: str) -> str:
        def heard() -> str | None:
            cause: str | None = self.rehearsal.ask("look", run=run.id)["missing"].get(tool)
            return cause

        return str(_wait(heard, f"the server did not hear that {tool} is gone"))


def _wait(condition: Callable[[], Any], otherwise: str) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        if time.monotonic() > end:
            raise Unheard(otherwise)
        time.sleep(LOOKS_EVERY_S)
    return value


def _spent(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: raw[name] for name in ("tokens", "cost") if name in raw}


def _array(names: Iterable[str]) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def _named(case: Mapping[str, Any], field: str) -> set[str]:
    """Every tool (or dependency) that a case speaks of."""
    return {raw[field] for part in ("events", "expect") for raw in case[part] if field in raw}
