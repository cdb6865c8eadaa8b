"""What an agent holds: one task execution, its tools, its budget, and at its end what it had to do without.

The short way through `call` and `acall` is a `Tap`. Where no rule compares a tool's calls it makes nothing but the line
it leaves, and holds no lock. Under the built-in policy calls are compared (`identical_calls`): then it makes a key of
the arguments and one of the result too, and holds the run's own lock while the result is judged; before the call only
where something could stop it.

Everything else goes through `Ticket`s: asked for before a call, handed back after it, so that loops which dispatch by
themselves are served by the same rules. No lock is held during a call.
What a run holds is in `memory`, what it tells in `telling`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from types import CoroutineType, TracebackType
from typing import Any

from recloser import calls, classify, given, notices
from recloser.calls import CallTimeout
from recloser.classify import FLAT, Classifier, Reading
from recloser.config_sync import ToolRule
from recloser.core.budget import Reservation, Spend
from recloser.core.ending import dead_end
from recloser.core.fingerprint import SHORT, call_key, result_fingerprint, result_key
from recloser.core.run import NOTHING, RunDecision
from recloser.core.types import FAILURES, SUCCESSES, Action, Delivery, Outcome, Scope
from recloser.guard import Obstacle, Tap, obstacle, untouched
from recloser.memory import RunResult, Ticket
from recloser.outbox import new_id
from recloser.permits import Claim, Leave
from recloser.telling import Telling
from recloser.wire import wire_id

log = logging.getLogger("recloser")

OK = Outcome.OK
FOLD_AT = 400
"""So many finished calls may wait to be counted before a caller counts them itself: few enough that the garbage
collector never looks at them, enough that counting them costs little each."""
MOST_TICKETS = 10_000

__all__ = ["CallTimeout", "Run", "RunResult"]


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """A call that waits for leave to be the fleet's test; `claim` None: there is none to be had."""

    ticket: Ticket
    found: Obstacle
    claim: Claim | None
    wait_s: float


class Run(Telling):
    """One task execution. Made by `Client.run`; safe to use from several threads."""

    __slots__ = ()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is not None:
            self._failure = kind.__name__[:64]
        if self._result is None:
            self.finish()

    async def __aenter__(self) -> Run:
        if self._client.threadless:
            import asyncio

            await asyncio.to_thread(self._client.refreshed)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is not None:
            self._failure = kind.__name__[:64]
        if self._result is None:
            await self.afinish()

    # -- steps and money

    def step(self, estimate: int | Mapping[str, float] | Spend | None = None) -> bool:
        """Ask leave for one model call; False ends the run (`end_cause` says why).

        `estimate` sets the tokens (or `{"tokens": …, "cost": …}`) aside at once, so that parallel calls cannot
        overspend
        together; without one, the largest bill so far is set aside.
        """
        try:
            return self._stepped(estimate)
        except Exception:
            log.exception("recloser: a step could not be booked; it is admitted")
            return True

    def _stepped(self, estimate: int | Mapping[str, float] | Spend | None) -> bool:
        self._client.look_around()
        with self._lock:
            if self._result is not None:
                return False
            self._follow_config()
            answer = self._state.reserve(given.spend(estimate), time.monotonic())
            admitted = isinstance(answer, Reservation) or not answer.enforced
            if admitted:
                self._step = (self._step or 0) + 1
                self._forget_answers()
            watched, self._state.noted = self._state.noted, []
        for noted in watched:
            self._tell_limit(noted)
        if isinstance(answer, RunDecision) and answer.tool == "":
            self._tell_limit(answer)
        if len(self._seen) > FOLD_AT:
            self._client.fold()
        return admitted

    def used(self, tokens: int = 0, seconds: float = 0.0, cost: float = 0.0) -> None:
        """Book what the model call of a step really cost, and how long it took."""
        tokens, seconds, cost = int(given.amount(tokens)), given.amount(seconds), given.amount(cost)
        with self._lock:
            if self._result is not None:
                return
            decisions = self._state.settle(Spend(tokens, cost))
            self._lose(decisions, time.monotonic())
            self._tokens += tokens
            self._cost += cost
            self._model_seconds += seconds
        if decisions:
            self._tell(decisions, None)

    # -- what the model is shown

    def tools(self, tools: Iterable[Any] | None) -> list[Any]:
        """The array without the tools that are gone: for every request. OpenAI's, Anthropic's and MCP's shapes alike.

        The names are remembered: a notice speaks only of these. What has no name of a known shape is left in place.
        """
        listed = given.listed(tools)
        try:
            return self._without_gone(listed)
        except Exception:
            log.exception("recloser: an array of tools could not be looked through; it is shown as it is")
            return listed

    def _without_gone(self, listed: list[Any]) -> list[Any]:
        names = [given.name_of(tool) for tool in listed]
        for name, told in zip(names, map(given.hints_of, listed), strict=True):
            if told and name is not None:
                self._client.hinted(name, told)
        with self._lock:
            for name in names:
                if name is not None:
                    self._declared[name] = None
        for name in {name for name in names if name is not None}:
            self._look(name)
        return [
            tool for tool, name in zip(listed, names, strict=True) if name is None or not self._state.is_withdrawn(name)
        ]

    def notice(self) -> str | None:
        """What to add to the system block of every request, at most 400 characters; None while there is nothing to say.

        Advice stands in the request after the step that gave rise to it; what is gone, in every one.
        """
        try:
            return self._noticed()
        except Exception:
            log.exception("recloser: a notice could not be written; there is none")
            return None

    def _noticed(self) -> str | None:
        with self._lock:
            losses = [self._loss(name, lost) for name, lost in self._state.withdrawn.items() if self._own(name)]
            fresh = [one for one in self._advice if (one.step or 0) + 1 >= self.steps]
            return notices.notice(losses, ended=self._state.ended, advice=fresh)

    # -- calls

    def call(
        self,
        name: str,
        args: Any,
        fn: Callable[..., Any] | None,
        id: str | None = None,
        call_timeout: float | None = None,
        idempotency_key: str | None = None,
        classify: Classifier | None = None,
    ) -> Any:
        """Make one tool call, or answer it: the tool's own result, or a structured one that says why there is none.

        `args`: a mapping becomes keyword arguments; JSON text of an object is read first; None calls `fn()`; anything
        else is
        the one argument. `fn` None: the model named a tool that is not there. `id` is yours and comes back untouched by
        us.
        An exception of `fn` is counted for what it means and answered with an error result, unless the run was begun
        with
        `raise_errors=True`; one that is no `Exception` (an interrupt, a cancellation) always goes on. Nothing else is
        raised.
        """
        try:
            tap: Tap | None = self._taps[name]
        except Exception:  # no short way, or not even a name
            tap = None
        if (
            tap is None
            or tap.pulse is not self._pulse.now
            or fn is None
            or call_timeout is not None
            or classify is not None
        ):
            return self._guarded_call(name, args, fn, call_timeout, idempotency_key, classify)
        if not tap.plain:
            if tap.answer is not None:
                return self._answered_again(tap, tap.answer)
            return self._compared_call(tap, args, fn, idempotency_key)
        step, began = self._step, monotonic()
        try:
            result = fn(**args) if type(args) is dict else fn() if args is None else calls.invoke(fn, args)
        except BaseException as problem:
            answer = self._raised(_late(tap, step, began, None), problem)
            if answer is None:
                raise
            return answer
        ended = monotonic()
        if (type(result) is not str and type(result) not in FLAT) or not result or not tap.live:
            return self._returned(_late(tap, step, began, None), result, ended, None)
        seen = self._seen
        seen.append((tap, step, began, ended))
        if len(seen) > FOLD_AT:
            self._client.fold()
        return result

    async def acall(
        self,
        name: str,
        args: Any,
        fn: Callable[..., Any] | None,
        id: str | None = None,
        call_timeout: float | None = None,
        idempotency_key: str | None = None,
        classify: Classifier | None = None,
    ) -> Any:
        """`call`, to be awaited: `fn` is a coroutine function, or a plain one, which then runs in a thread of its own.

        A time limit (`call_timeout`, else the policy's) works as `asyncio.timeout` does and is recorded as one
        `timeout`. A cancellation is recorded as `cancelled`, and goes on. Calls awaited together in one step are one
        observation for a streak.
        """
        try:
            tap: Tap | None = self._taps[name]
        except Exception:  # no short way, or not even a name
            tap = None
        if (
            tap is None
            or tap.pulse is not self._pulse.now
            or (tap.awaits is not fn and not tap.can_await(fn))
            or call_timeout is not None
            or classify is not None
        ):
            return await self._guarded_acall(name, args, fn, call_timeout, idempotency_key, classify)
        if not tap.plain:
            if tap.answer is not None:
                return self._answered_again(tap, tap.answer)
            return await self._compared_acall(tap, args, fn, idempotency_key)
        step, began = self._step, monotonic()
        try:
            result = await (fn(**args) if type(args) is dict else calls.invoke(fn, args))  # type: ignore[misc,arg-type]
        except BaseException as problem:
            answer = self._raised(_late(tap, step, began, None), problem)
            if answer is None:
                raise
            return answer
        ended = monotonic()
        if (type(result) is not str and type(result) not in FLAT) or not result or not tap.live:
            return self._returned(_late(tap, step, began, None), result, ended, None)
        seen = self._seen
        seen.append((tap, step, began, ended))
        if len(seen) > FOLD_AT:
            self._client.fold()
        return result

    def check(
        self, name: str, args: Any = None, *, id: str | None = None, idempotency_key: str | None = None
    ) -> dict[str, Any] | None:
        """For loops that dispatch themselves: None lets the call run (then `record` it), else the result to give.

        With an `id`, the `record` of the same id belongs to it; without one, calls of a name end as they began.
        """
        name = given.named(name)
        answer = self._leave(name, args, idempotency_key)
        if not isinstance(answer, Ticket):
            return answer
        with self._lock:
            self._keep(answer, id)
        return None

    def _keep(self, ticket: Ticket, id: Any) -> None:
        """Until `record`; of those that nobody comes back for, the oldest goes first."""
        if id is None:
            waiting = self._tickets.setdefault(ticket.name, [])
            waiting.append(ticket)
            del waiting[:-MOST_TICKETS]
            return
        self._tickets_by_id[given.key_of(id)] = ticket
        if len(self._tickets_by_id) > MOST_TICKETS:
            del self._tickets_by_id[next(iter(self._tickets_by_id))]

    def record(
        self,
        name: str,
        outcome: Outcome | str | None = None,
        *,
        id: str | None = None,
        args: Any = None,
        result: Any = None,
        error: BaseException | None = None,
        seconds: float | None = None,
        attempts: int = 1,
        status: int | None = None,
        retry_after_s: float | None = None,
        dependency: str | None = None,
    ) -> dict[str, Any] | None:
        """Count a call that the loop made itself, once it is known how it ended.

        By its outcome, its exception, or its result. Returns the structured result to give the model for a failure,
        else None.
        """
        outcome = None if outcome is None else classify.stated(outcome)
        try:
            name, now = given.named(name), time.monotonic()
            ticket = self._ended(name, id, args, now, seconds)
            reading = self._read(ticket, outcome, result, error, status)
            reading = Reading(
                reading.outcome,
                error=reading.error,
                text=reading.text,
                status=status if isinstance(status, int) else reading.status,
                retry_after_s=classify.seconds(retry_after_s) if retry_after_s is not None else reading.retry_after_s,
                attempts=max(int(given.amount(attempts)), reading.attempts),
                at_fault=given.named(dependency) if dependency is not None else reading.at_fault,
            )
            decisions = self._settle(ticket, reading, result, now)
            return None if reading.outcome in SUCCESSES else self._answer(ticket, reading, decisions)
        except Exception:
            log.exception("recloser: a finished call could not be counted")
            return None

    def _ended(self, name: str, id: Any, args: Any, now: float, seconds: float | None) -> Ticket:
        """The ticket of a call that the loop made; a new one where it was not asked for."""
        with self._lock:
            ticket = self._claimed(name, id)
            if ticket is not None and seconds is None:
                return ticket
            ticket = ticket or self._ticket(name)
        if ticket.began == 0.0:
            ticket.call = self._key(ticket, args)
        ticket.began = now if seconds is None else now - given.amount(seconds)
        return ticket

    def _claimed(self, name: str, id: str | None) -> Ticket | None:
        """What `check` gave for this call; None where it was not asked."""
        if id is not None:
            return self._tickets_by_id.pop(given.key_of(id), None)
        waiting = self._tickets.get(name)
        return waiting.pop(0) if waiting else None

    def replaced(self, tool: str, by: str) -> None:
        """Say that another tool really answered in the place of a missing one; the policy's fallback is noticed."""
        with self._lock:
            self._replaced_by[given.named(tool)] = given.named(by)

    def state(self, value: Any) -> None:
        """Tell your agent's working state after a step, of any shape: from now on only a change of it is progress.

        Without it, new results are. It stays in this process, as a salted hash.
        """
        fingerprint = result_fingerprint(value, salt=self._salt) or new_id()  # what cannot be compared has changed
        now = time.monotonic()
        with self._lock:
            if self._result is not None:
                return
            decisions = self._state.state(fingerprint, step=self.steps)
            self._lose(decisions, now)
        self._tell(decisions, None)

    def compaction(self) -> None:
        """The context was shortened: repetitions are forgotten, failures are not."""
        with self._lock:
            self._state.compaction()

    # -- the end

    def finish(self, text: str | None = None, *, shows_block: bool = False) -> RunResult:
        """End the run, report it, and say what it had to do without.

        `text` is what will be delivered; `shows_block` declares that the consumer shows the degradation block itself.
        """
        result = self._finish(text, shows_block)
        self._client.delivered()
        return result

    async def afinish(self, text: str | None = None, *, shows_block: bool = False) -> RunResult:
        """`finish`, to be awaited: where a client without a thread sends at the end of a run, no event loop waits."""
        result = self._finish(text, shows_block)
        if self._client.threadless:
            import asyncio

            await asyncio.to_thread(self._client.delivered)
        return result

    def _finish(self, text: str | None, shows_block: bool) -> RunResult:
        try:
            return self._finished(text, shows_block)
        except Exception:
            log.exception("recloser: a run could not be ended as it should; what it lacked is not told")
            self._result = self._result or RunResult(False, {}, None, False, self.end_cause)
            return self._result

    def _finished(self, text: str | None, shows_block: bool) -> RunResult:
        self._client.fold()
        with self._lock:
            if self._result is not None:
                return self._result
            result = self._result = self._conclude(text, shows_block)
            self._drop_taps()
            told_up = (self._block(), self._all_missing()) if self._parent is not None else None
        self._report(last=True)
        self._client.ended(self)
        if told_up is not None and self._parent is not None and told_up[0].degraded:
            self._parent.child_ended(self.id, *told_up)
        return result

    def _end_without_path(self) -> None:
        """Something was lost: where that leaves no way on, the run ends on purpose."""
        if self._state.ended is not None:
            return
        remaining = not self._declared or any(not self._state.is_withdrawn(name) for name in self._declared)
        last = dead_end(self._lost(), remaining=remaining)
        if last is not None:
            self._state.ended = dataclasses.replace(last, action=Action.END_RUN, step=self._step)
            self._pathless = True
            self._drop_taps()

    # -- admission

    def _ask(self, name: str, args: Any, idempotency_key: str | None) -> Ticket | Wanted | dict[str, Any]:
        """Leave for a call, or the result that stands in for it."""
        with self._lock:
            ticket = self._ticket(name)
        ticket.call = self._key(ticket, args)
        found = self._look(name)
        now = time.monotonic()
        with self._lock:
            refused = self._admitted(ticket, now, idempotency_key is not None)
        if refused is None and found is not None and found.test:
            if found.busy:
                return self._refuse_meanwhile(ticket, found, now)
            own = found.own if found.permit else found
            refused = None if own is None else self._claim(ticket, own, now)
            if refused is None and found.permit:
                return self._wanted(ticket, found, now)
        if refused is None:
            return ticket
        return self._refuse(ticket, refused, found, now)

    def _wanted(self, ticket: Ticket, found: Obstacle, now: float) -> Wanted:
        """The call is the fleet's test if the control plane says so: ask, and let the caller wait as it can."""
        name = found.dependency.name
        with self._lock:
            view = ticket.snapshot.circuits.get(name)
            claim = self._permits.claim(name, view, wire_id(self.id), ticket.name, now)
        return Wanted(ticket, found, claim, found.dependency.policy.permit_wait_ms / 1000.0)

    def _permitted(self, wanted: Wanted, leave: Leave | None) -> Ticket | dict[str, Any]:
        """A ticket with leave to test; without, the tool is gone for this run as for every other."""
        ticket, now = wanted.ticket, time.monotonic()
        if leave is not None:
            ticket.permit = leave
            return ticket
        self._untest(wanted, now)
        with self._lock:
            self._withdraw(ticket.name, wanted.found, now)
            refused = self._state.admit(ticket.name, ticket.call, ticket.step, now)
        return ticket if refused is None else self._refuse(ticket, refused, wanted.found, now)

    def _refuse_meanwhile(self, ticket: Ticket, found: Obstacle, now: float) -> dict[str, Any]:
        """This run's own test is under way: a second call beside it has no leave, but the tool is not gone yet."""
        self._seen.append(
            (None, ticket.rule, ticket.snapshot, self, ticket.step, now, now, Outcome.REJECTED, ticket.call, None, None)
        )
        lost = RunDecision(
            Action.BLOCK_CALL, found.signal, 0.0, 0.0, ticket.name,
            step=ticket.step, dependency=found.dependency.name, scope=found.scope,
        )  # fmt: skip
        with self._lock:
            return notices.unavailable(self._loss(ticket.name, lost), retry_after_s=found.wait_s)

    def _admitted(self, ticket: Ticket, now: float, keyed: bool) -> RunDecision | None:
        if self._result is not None or ticket.rule.policy.delivery is Delivery.OFF:
            lost = self._state.withdrawn.get(ticket.name)
            return lost if lost is not None and lost.scope is not Scope.RUN else None
        return self._state.admit(ticket.name, ticket.call, ticket.step, now, keyed=keyed)

    def _look(self, name: str) -> Obstacle | None:
        """Note a tool that the fleet's circuit or this worker's breaker has taken: for this run it stays gone."""
        now = time.monotonic()
        with self._lock:
            snapshot, rule = self._rule(name)
            permits = None if self._state.is_withdrawn(name) else self._permits
            found = obstacle(rule, snapshot, self._breakers, self.root_began_at, now, permits)
            if found is not None and found.scope is Scope.FLEET:
                self._client.permits.want(found.dependency.name, now)
            if found is None or found.test or self._state.is_withdrawn(name):
                if found is None and self._state.is_withdrawn(name):
                    self._readmit(name, rule, now)
                return found
            self._withdraw(name, found, now)
        self._warn(name, found.signal)
        self._report()
        return found

    def _withdraw(self, name: str, found: Obstacle, now: float) -> None:
        self._state.withdraw(
            (name,), signal=found.signal, scope=found.scope, step=self._step, dependency=found.dependency.name
        )
        self._lost_at[name] = now
        self._drop_taps()
        self._end_without_path()

    def _readmit(self, name: str, rule: ToolRule, now: float) -> None:
        if rule.policy.readmit:
            self._state.readmit(name, now=now, since=self._lost_at.get(name, now))

    def _claim(self, ticket: Ticket, found: Obstacle, now: float) -> RunDecision | None:
        """Take the one testing call of the worker's breaker; where another run has it, the tool is gone here."""
        round_id = self._client.claim(found.dependency, now)
        if round_id is not None:
            ticket.test = (found.dependency.name, round_id)
            return None
        with self._lock:
            self._withdraw(ticket.name, found, now)
            return self._state.admit(ticket.name, ticket.call, ticket.step, now)

    def _refuse(self, ticket: Ticket, refused: RunDecision, found: Obstacle | None, now: float) -> dict[str, Any]:
        pulse = self._pulse.now
        self._seen.append(
            (None, ticket.rule, ticket.snapshot, self, ticket.step, now, now, Outcome.REJECTED, ticket.call, None, None)
        )
        if len(self._seen) > FOLD_AT:
            self._client.fold()
        if refused.action is Action.BLOCK_CALL:
            self._tell_once(refused, ticket)
            return notices.blocked(refused)
        with self._lock:
            lost = self._state.withdrawn.get(ticket.name)
            if lost is None:
                return notices.ended(refused, ticket.name)
            loss = self._loss(ticket.name, lost)
        answer = notices.unavailable(loss, retry_after_s=found.wait_s if found is not None else None)
        if ticket.snapshot is self._documents.snapshot:
            self._remember(ticket, pulse, answer)
        return answer

    def _remember(self, ticket: Ticket, pulse: object, answer: dict[str, Any]) -> None:
        """The same tool asked for again in the same step gets the same answer."""
        tap = Tap(
            ticket.name, ticket.rule, ticket.snapshot, pulse, self, self._state.tool(ticket.name), answer=dict(answer)
        )
        with self._lock:
            if self._result is None and self._state.is_withdrawn(ticket.name):
                self._taps = {**self._taps, ticket.name: tap}
                self._answered.append(ticket.name)

    def _forget_answers(self) -> None:
        if self._answered:
            self._taps = {name: tap for name, tap in self._taps.items() if tap.answer is None}
            self._answered = []

    def _answered_again(self, tap: Tap, answer: dict[str, Any]) -> dict[str, Any]:
        now, seen = monotonic(), self._seen
        seen.append((tap, self._step, now, now))
        if len(seen) > FOLD_AT:
            self._client.fold()
        return notices.StandIn(answer)

    def refused(self, name: str, calls: int) -> None:
        """So many calls were answered from memory."""
        with self._lock:
            self._state.refuse(name, calls)

    # -- calls that are compared

    def _compared_call(self, tap: Tap, args: Any, fn: Callable[..., Any], idempotency_key: str | None) -> Any:
        step = self._step
        key = tap.keys.of(args) if type(args) is dict and tap.keys is not None else None
        if key is None or not self._state.is_clear(tap.tool):
            key, refusal = self._compare(tap, args, step, key, idempotency_key)
            if refusal is not None:
                return refusal
        began = monotonic()
        try:
            result = fn(**args) if type(args) is dict else calls.invoke(fn, args)
        except BaseException as problem:
            answer = self._raised(_late(tap, step, began, key), problem)
            if answer is None:
                raise
            return answer
        ended = monotonic()
        if (type(result) is not str and type(result) not in FLAT) or not result or not tap.live:
            return self._returned(_late(tap, step, began, key), result, ended, None)
        return self._compared(tap, step, key, began, result, ended)

    async def _compared_acall(self, tap: Tap, args: Any, fn: Any, idempotency_key: str | None) -> Any:
        step = self._step
        key = tap.keys.of(args) if type(args) is dict and tap.keys is not None else None
        if key is None or not self._state.is_clear(tap.tool):
            key, refusal = self._compare(tap, args, step, key, idempotency_key)
            if refusal is not None:
                return refusal
        began = monotonic()
        try:
            result = await (fn(**args) if type(args) is dict else calls.invoke(fn, args))
        except BaseException as problem:
            answer = self._raised(_late(tap, step, began, key), problem)
            if answer is None:
                raise
            return answer
        ended = monotonic()
        if (type(result) is not str and type(result) not in FLAT) or not result or not tap.live:
            return self._returned(_late(tap, step, began, key), result, ended, None)
        return self._compared(tap, step, key, began, result, ended)

    def _compare(
        self, tap: Tap, args: Any, step: int | None, key: str | None, idempotency_key: str | None
    ) -> tuple[str | None, dict[str, Any] | None]:
        """The key of a call, and the result that stands in for it where it repeats another."""
        policy = tap.rule.policy
        if key is None:
            ignored, folded = policy.ignored_args, policy.casefold_args
            key = call_key(tap.name, args, salt=self._salt, ignored=ignored, casefold=folded)
        try:
            with self._lock:
                refused = self._state.admit(tap.name, key, step, 0.0, keyed=idempotency_key is not None)
                if refused is None or self._result is not None:
                    return key, None
        except Exception:  # a mistake of ours never costs the agent a call
            log.exception("recloser: a call could not be compared; it is made without")
            return key, None
        return key, self._refuse(_late(tap, step, 0.0, key), refused, None, monotonic())

    def _compared(self, tap: Tap, step: int | None, key: str | None, began: float, result: Any, ended: float) -> Any:
        """Count a call that went well, and judge whether it brought anything new."""
        try:
            if type(result) is str and len(result) <= SHORT:  # as `result_key` has it, without the price of asking it
                content: str | None = "=" + result.strip()
            else:
                content = result_key(result, self._salt)
            lock = self._lock
            lock.acquire()  # `with` asks for two special methods, which is half the price of a lock
            try:
                decisions = NOTHING if self._result is not None else self._state.worked(tap.tool, step, key, content)
            finally:
                lock.release()
            seen = self._seen
            seen.append((tap, step, began, ended, key, content))
            if len(seen) > FOLD_AT:
                self._client.fold()
            if decisions:
                self._decided(decisions, tap, step, began, key, ended)
        except Exception:
            log.exception("recloser: a finished call could not be counted")
        return result

    def _decided(
        self, decisions: tuple[RunDecision, ...], tap: Tap, step: int | None, began: float, key: str | None, at: float
    ) -> None:
        with self._lock:
            self._lose(decisions, at)
        self._tell(decisions, _late(tap, step, began, key))

    # -- a call and what became of it

    def _guarded_call(
        self,
        name: str,
        args: Any,
        fn: Callable[..., Any] | None,
        call_timeout: float | None,
        idempotency_key: str | None,
        classifier: Classifier | None,
    ) -> Any:
        name = given.named(name)
        if fn is None:
            return self._invented(name)
        asked = self._leave(name, args, idempotency_key)
        if asked is None:
            return calls.invoke(fn, args)
        if isinstance(asked, dict):
            return asked
        limit = call_timeout if call_timeout is not None else asked.rule.policy.call_timeout_s
        try:
            result = calls.invoke(fn, args) if limit is None else calls.limited(fn, args, limit)
        except BaseException as problem:
            answer = self._raised(asked, problem)
            if answer is None:
                raise
            return answer
        return self._returned(asked, result, monotonic(), classifier)

    async def _guarded_acall(
        self,
        name: str,
        args: Any,
        fn: Callable[..., Any] | None,
        call_timeout: float | None,
        idempotency_key: str | None,
        classifier: Classifier | None,
    ) -> Any:
        name = given.named(name)
        if fn is None:
            return self._invented(name)
        asked = await self._aleave(name, args, idempotency_key)
        if asked is None:
            return await calls.awaited(fn, args, call_timeout)
        if isinstance(asked, dict):
            return asked
        limit = call_timeout if call_timeout is not None else asked.rule.policy.call_timeout_s
        try:
            result = await calls.awaited(fn, args, limit)
        except BaseException as problem:
            answer = self._raised(asked, problem)
            if answer is None:
                raise
            return answer
        return self._returned(asked, result, monotonic(), classifier)

    def _leave(self, name: str, args: Any, idempotency_key: str | None) -> Ticket | dict[str, Any] | None:
        """A ticket, the result that stands in for the call, or None where a mistake of ours leaves it unguarded."""
        try:
            asked = self._ask(name, args, idempotency_key)
            if isinstance(asked, Wanted):
                with self._undone_if_left(asked):
                    leave = None if asked.claim is None else asked.claim.wait(asked.wait_s)
                asked = self._permitted(asked, leave)
        except Exception:
            log.exception("recloser: a call could not be guarded; it is made without")
            return None
        if isinstance(asked, Ticket):
            asked.began = monotonic()
        return asked

    async def _aleave(self, name: str, args: Any, idempotency_key: str | None) -> Ticket | dict[str, Any] | None:
        """`_leave`, to be awaited: no event loop waits for the control plane's leave."""
        try:
            asked = self._ask(name, args, idempotency_key)
            if isinstance(asked, Wanted):
                with self._undone_if_left(asked):
                    leave = None if asked.claim is None else await _awaited_leave(asked.claim, asked.wait_s)
                asked = self._permitted(asked, leave)
        except Exception:
            log.exception("recloser: a call could not be guarded; it is made without")
            return None
        if isinstance(asked, Ticket):
            asked.began = monotonic()
        return asked

    @contextlib.contextmanager
    def _undone_if_left(self, wanted: Wanted) -> Iterator[None]:
        """A caller that goes away while it waits makes no call: what was taken for its test is given back."""
        try:
            yield
        except BaseException:
            if wanted.claim is not None:
                wanted.claim.abandon()
            self._untest(wanted, time.monotonic())
            raise

    def _untest(self, wanted: Wanted, now: float) -> None:
        """No test comes of it."""
        ticket = wanted.ticket
        if ticket.test is not None:
            self._client.tested(*ticket.test, Reading(Outcome.CANCELLED), ticket.rule, now)
        with self._lock:
            self._permits.refused(wanted.found.dependency.name)

    def _raised(self, ticket: Ticket, problem: BaseException) -> dict[str, Any] | None:
        """The result that answers for an exception; None where it must go on."""
        reading, decisions = classify.of_exception(problem, ticket.rule.policy), NOTHING
        try:
            decisions = self._settle(ticket, reading, None, time.monotonic())
        except Exception:
            log.exception("recloser: a failed call could not be counted")
        if self.raise_errors or not isinstance(problem, Exception):
            return None
        return self._answer(ticket, reading, decisions)

    def _returned(self, ticket: Ticket, result: Any, ended: float, classifier: Classifier | None) -> Any:
        if type(result) is CoroutineType:
            return self._returned_later(ticket, result, classifier)
        try:
            self._settle(ticket, classify.of_result(result, ticket.rule.policy, classifier), result, ended)
        except Exception:
            log.exception("recloser: a finished call could not be counted")
        return result

    def _returned_later(self, ticket: Ticket, result: Any, classifier: Classifier | None) -> Any:
        """An async tool came through `call`: it has not begun; it counts when whoever awaits it sees its end."""
        if ("", "async") not in self._told:
            self._told.add(("", "async"))
            log.warning("recloser: %s is async and was given to `call`; await it, or better use `acall`", ticket.name)

        async def ending() -> Any:
            ticket.began = monotonic()
            try:
                found = await result
            except BaseException as problem:
                answer = self._raised(ticket, problem)
                if answer is None:
                    raise
                return answer
            return self._returned(ticket, found, monotonic(), classifier)

        return ending()

    def _read(
        self,
        ticket: Ticket,
        outcome: Outcome | str | None,
        result: Any,
        error: BaseException | None,
        status: int | None,
    ) -> Reading:
        policy = ticket.rule.policy
        if outcome is not None:
            name = None if error is None else type(error).__name__[:64]
            return Reading(classify.stated(outcome), error=name)
        if error is not None:
            return classify.of_exception(error, policy)
        if status is not None:
            return classify.of_status(status, policy)
        return classify.of_result(result, policy)

    def _settle(self, ticket: Ticket, reading: Reading, result: Any, ended: float) -> tuple[RunDecision, ...]:
        """Count one finished call everywhere it counts: this run, this worker, the fleet."""
        content = result_key(result, self._salt) if ticket.hashes and reading.outcome in SUCCESSES else None
        with self._lock:
            late = self._result is not None
            decisions = NOTHING if late else self._judge(ticket, reading, content, ended)
        self._seen.append(
            (
                None, ticket.rule, ticket.snapshot, None if late else self, ticket.step, ticket.began, ended,
                reading.outcome, ticket.call, content, None if reading is classify.OK else reading,
            )
        )  # fmt: skip
        if ticket.test is not None:
            self._client.tested(*ticket.test, reading, ticket.rule, ended)
        if ticket.permit is not None:
            self._permit_ended(ticket, ticket.permit, reading, ended)
        if reading.outcome in FAILURES:
            self._client.fold()
            self._client.hurry()
        elif len(self._seen) > FOLD_AT:
            self._client.fold()
        if decisions:
            self._tell(decisions, ticket)
        return decisions

    def _permit_ended(self, ticket: Ticket, leave: Leave, reading: Reading, ended: float) -> None:
        ticket.permit = None
        at_fault = reading.at_fault in (None, leave.dependency)
        outcome = reading.outcome if at_fault else Outcome.CANCELLED  # it says nothing about this dependency
        with self._lock:
            self._permits.ended(leave, outcome, reading.retry_after_s, max(0.0, ended - ticket.began))

    def _judge(self, ticket: Ticket, reading: Reading, content: str | None, now: float) -> tuple[RunDecision, ...]:
        if ticket.rule.policy.delivery is Delivery.OFF:
            return NOTHING
        decisions = self._state.record(
            ticket.name,
            reading.outcome,
            step=ticket.step,
            now=now,
            fingerprint=ticket.call,
            result=content,
            at_fault=None if reading.at_fault is None else (reading.at_fault,),
        )
        self._lose(decisions, now)
        if reading.outcome not in SUCCESSES:
            self._drop_taps()
            return decisions
        self._note_fallback(ticket.name)
        if ticket.test is None and (ticket.hashes or ticket.rule.policy.run_failure_rate is None):
            self._shorten(ticket)
        return decisions

    def _lose(self, decisions: Iterable[RunDecision], now: float) -> None:
        for decision in decisions:
            if notices.advises_in_block(decision):
                self._advice = [*self._advice[-7:], decision]
            for name in decision.tools if decision.enforced else ():
                self._lost_at.setdefault(name, now)
                self._drop_taps()
                self._end_without_path()

    def _shorten(self, ticket: Ticket) -> None:
        """Nothing stands against the tool: its next calls take the short way, while all stays as it is."""
        pulse = self._pulse.now  # first this: whatever changes from here on makes the tap useless
        snapshot, breakers, name = self._documents.snapshot, self._breakers.open, ticket.name
        if (
            snapshot is not ticket.snapshot
            or not untouched(ticket.rule, snapshot, monotonic())
            or any(one.name in snapshot.circuits or one.name in breakers for one in ticket.rule.dependencies)
        ):
            return
        if (
            self._state.ended is None
            and not self._state.is_withdrawn(name)
            and ticket.rule.policy.call_timeout_s is None
        ):
            tool = self._state.tool(name)
            self._taps = {**self._taps, name: Tap(name, ticket.rule, snapshot, pulse, self, tool, hashes=ticket.hashes)}

    def _note_fallback(self, name: str) -> None:
        for lost in self._state.withdrawn:
            if lost not in self._replaced_by and self._rule(lost)[1].policy.fallback_tool == name:
                self._replaced_by[lost] = name

    def _answer(self, ticket: Ticket, reading: Reading, decisions: tuple[RunDecision, ...]) -> dict[str, Any]:
        with self._lock:
            lost = self._state.withdrawn.get(ticket.name)
            loss = None if lost is None else self._loss(ticket.name, lost)
        return notices.failed(ticket.name, reading.outcome, reading.text, decisions, loss)

    def _invented(self, name: str) -> dict[str, Any]:
        """The model named a tool that is not there; a tool that was withdrawn is answered as such."""
        now = time.monotonic()
        with self._lock:
            known = [tool for tool in self._declared if not self._state.is_withdrawn(tool)]
            if name in self._declared and self._state.is_withdrawn(name):
                self._state.admit(name, None, self._step, now)
                return notices.unavailable(self._loss(name, self._state.withdrawn[name]))
            decisions = NOTHING
            if self._result is None and len(self._state.withdrawn) < 1000:
                decisions = self._state.record("(unknown)", Outcome.UNKNOWN_TOOL, step=self._step, now=now)
        self._tell(decisions, None)
        return notices.unknown(name, known, decisions)


async def _awaited_leave(claim: Claim, seconds: float) -> Leave | None:
    """The answer, if it comes in time, also where every thread of the loop's own is taken by other work."""
    import asyncio

    try:
        return await asyncio.wait_for(asyncio.to_thread(claim.wait, seconds), seconds)
    except TimeoutError:
        return claim.give_up()


def _late(tap: Tap, step: int | None, began: float, key: str | None) -> Ticket:
    """A call that began the short way, and has to be looked at after all."""
    ticket = Ticket(tap.name, tap.rule, tap.snapshot, step)
    ticket.began, ticket.hashes, ticket.call = began, tap.hashes, key
    return ticket
