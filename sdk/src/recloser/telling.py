"""What a run tells: its trips and reports to the control plane, the block and the sentence at its end."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from recloser import notices
from recloser.core.degrade import Degradation, MissingTool, block_of, degradation, disclosed, disclosure
from recloser.core.ending import Lost, passed_on
from recloser.core.fingerprint import told
from recloser.core.run import RunDecision
from recloser.core.types import SUCCESSES, Delivery, Signal
from recloser.count import Line
from recloser.memory import Memory, RunResult, Teller, Ticket, signal_name
from recloser.outbox import new_id
from recloser.report import RunReport, TripReport
from recloser.wire import text_of, wire_id

log = logging.getLogger("recloser")

REPORT_EVERY_S = 10.0
MOST_CHILDREN = 200
MAX_MISSING = 200
KEPT_SHARE = 20
"""One healthy run in so many keeps its step log."""


class Telling(Memory):
    """A run as others hear of it."""

    __slots__ = ()

    def child(self, block: Mapping[str, Any]) -> None:
        """Take over the `block` of a child run that ended in another process: what it lacked, this run lacked, too."""
        read = block_of(block)
        id = block.get("run") if isinstance(block, Mapping) else None
        if read.degraded:
            missing = [
                {"tool": item.tool, "cause": item.cause, "scope": item.scope.value, "step": item.step,
                 "replaced_by": item.replaced_by, "refused": item.calls_refused}
                for item in _all_items(read)
            ]  # fmt: skip
            self.child_ended(text_of(id) if id else new_id(), read, missing)

    def child_ended(self, id: str, block: Degradation, missing: list[dict[str, Any]]) -> None:
        """A child run had to do without something: so had this one, and its report says so."""
        with self._lock:
            if self._result is not None or len(self._children) >= MOST_CHILDREN:
                return
            self._children[id] = (block, [{"run": id, **entry} for entry in missing])
        self._report()

    def _conclude(self, text: str | None, shows_block: bool) -> RunResult:
        block = self._block()
        own_words = self._own_words(block)
        sentence = disclosure(block, own_words) or None
        said = disclosed(
            "" if text is None else text_of(text), block, consumer_shows_block=shows_block, own_words=own_words
        )
        used = self._tools_used()
        closing = None if block.ended_by is None else f"{_done(self.steps, used)} {sentence}"
        readable = self._readable(block, used)
        return RunResult(block.degraded, readable, sentence, said, block.ended_by, closing, Teller(self))

    def sentence_added(self) -> None:
        """What is delivered says it after all: the report does so, too, from its next revision on."""
        try:
            with self._lock:
                if self._said or self._result is None:
                    return
                self._said = True
            self._report(last=True)
        except Exception:
            log.exception("recloser: a run that is disclosed could not be reported so")

    def _own_words(self, block: Degradation) -> dict[str, str]:
        """The product owner's sentences for the reader, by tool; a child's tools are spoken of in ours."""
        replaced = {item.tool: item.replaced_by for item in block.items}
        words = {}
        for name, instead in replaced.items():
            loss = self._loss(name, self._state.withdrawn[name])
            loss = dataclasses.replace(loss, instead=instead or loss.instead)
            words[name] = notices.said(loss.policy.user_text, loss) or ""
        return words

    def _tools_used(self) -> list[str]:
        """The tools that brought something, as far back as the log goes."""
        return list(dict.fromkeys(mark.name for mark, *_ in self.log if mark.outcome in SUCCESSES))

    def _readable(self, block: Degradation, used: list[str]) -> dict[str, Any]:
        """The block for whoever reads the result: with what was done, and where to ask why a tool was missing."""
        whole = block.to_dict()
        for item in whole["items"]:
            item["why"] = self._client.why(self.id, item["tool"])
        return {"run": self.id, **whole, "done": {"steps": self.steps, "tools": used}}

    def _block(self) -> Degradation:
        whole = degradation(self._state, replaced_by=self._replaced_by)
        return dataclasses.replace(
            whole,
            items=tuple(item for item in whole.items if self._own(item.tool)),
            children=tuple((id, block) for id, (block, _) in self._children.items()),
            ended_by=self.end_cause,
            handover=self._handover(),
        )

    def _handover(self) -> str | None:
        """What people are told, where there is a control plane to tell them."""
        if not self._client.tells:
            return None
        found = passed_on(self._lost(), self._state.ended)
        return None if found is None else found.value

    def _lost(self) -> list[Lost]:
        """The tools of the run's own array that are gone, in the order in which they went."""
        gone = sorted(self._state.withdrawn.items(), key=lambda one: self._lost_at.get(one[0], 0.0))
        losses = [self._loss(name, lost) for name, lost in gone if self._own(name)]
        return [Lost(loss.decision, loss.policy, loss.instead is not None) for loss in losses]

    def _tell(self, decisions: Iterable[RunDecision], ticket: Ticket | None) -> None:
        """Report each trip as it happens, and the run when it has begun to be degraded."""
        now = time.monotonic()
        for decision in decisions:
            self._client.trip(self._trip(decision, ticket, now))
            for name in decision.tools if decision.enforced else ():
                self._warn(name, decision.signal)
        if self._state.withdrawn or self._state.ended is not None:
            self._report()

    def _warn(self, name: str, signal: Signal | None) -> None:
        """For the developer who reads the log: what is gone, and where to ask why."""
        cause, where = "operator" if signal is None else signal.value, self._client.why(self.id, name)
        more = "" if where is None else f"; why: {where}"
        log.warning("recloser: run %s goes on without %s (%s)%s", wire_id(self.id), notices.named(name), cause, more)

    def _tell_limit(self, decision: RunDecision) -> None:
        """A limit is reached once; that every further step is refused is no news."""
        key = ("", signal_name(decision))
        if key not in self._told:
            self._told.add(key)
            self._tell((decision,), None)

    def _tell_once(self, decision: RunDecision, ticket: Ticket) -> None:
        """A call blocked at once is a trip of its own, told once per tool."""
        key = (decision.tool, f"block:{decision.ambiguous}")
        at_once = decision.threshold == 2 and decision.evidence == 2
        if at_once and key not in self._told:
            self._told.add(key)
            self._client.trip(self._trip(decision, ticket, time.monotonic()))

    def _trip(self, decision: RunDecision, ticket: Ticket | None, now: float) -> TripReport:
        assert decision.signal is not None
        behind = ticket.rule.dependencies if ticket is not None else ()
        dependency = decision.dependency or (behind[0].name if len(behind) == 1 else None)
        return TripReport(
            id=new_id(),
            scope=decision.scope,
            signal=decision.signal,
            tool=decision.tool or None,
            dependency=dependency,
            run=self.id,
            step=decision.step if decision.step is not None else self._step,
            action=decision.action,
            delivery=Delivery.ENFORCE if decision.enforced else Delivery.OBSERVE,
            evidence={decision.signal.value: decision.evidence},
            threshold={decision.signal.value: decision.threshold},
            policy=ticket.rule.digest if ticket is not None else self._config.run_digest,
            at=now,
        )

    def _report(self, *, last: bool = False) -> None:
        """Tell the run as it stands, when what matters has changed."""
        report = self.report(time.monotonic(), last=last, changed_only=not last)
        if report is not None:
            self._client.report(report, at_once=True)

    def report(self, now: float, *, last: bool = False, changed_only: bool = False) -> RunReport | None:
        """The next revision of this run's report; None where there is nothing new to tell, or this process may not."""
        if not self._client.owns(self._life):
            return None
        tool_seconds, log = self._client.counted(self, with_log=last)
        with self._lock:
            if self._result is not None and not last:
                return None
            block = self._block()
            marks = (block, self.end_cause)
            if changed_only and (marks == self._reported or (self._reported is None and not block.degraded)):
                return None
            self._reported, self._reported_at = marks, now
            self._revision += 1
            return self._as_report(block, now, tool_seconds, log, last)

    def due(self, now: float) -> bool:
        """Has the run gone on for long enough since its last report?"""
        return self._result is None and now - self._reported_at >= REPORT_EVERY_S

    def _as_report(self, block: Degradation, now: float, tool_seconds: float, log: list[Line], last: bool) -> RunReport:
        result, ended_by = self._result, self.end_cause or (f"error:{self._failure}" if self._failure else None)
        keep = block.degraded or ended_by is not None or hash(self.id) % KEPT_SHARE == 0
        status = "running" if not last else "finished" if ended_by is None else "ended"
        disclosed_to = result.disclosed or self._said if result is not None and block.degraded else None
        if last and self._ended_at is None:
            self._ended_at = now
        return RunReport(
            id=self.id,
            revision=self._revision,
            parent=self.parent_id,
            task_kind=self.task_kind,
            status=status,
            started_at=self.began_at,
            ended_at=self._ended_at,
            steps=self.steps,
            step_limit=self._state.budget.limits.steps,
            degraded=block.degraded,
            disclosed=disclosed_to,
            end_cause=ended_by,
            tools=tuple(self._declared),
            missing=tuple(self._all_missing()),
            disclosure=result.disclosure if result is not None else None,
            handover=block.handover,
            tool_seconds=tool_seconds,
            model_seconds=self._model_seconds,
            tokens=self._tokens,
            cost=self._cost,
            step_log=tuple(_lines(log, self._salt)) if keep else (),
        )

    def _all_missing(self) -> list[dict[str, Any]]:
        """What this run lost, then what its children did."""
        below = [entry for _, missing in self._children.values() for entry in missing]
        return [*self._missing(), *below][:MAX_MISSING]

    def _missing(self) -> Iterable[dict[str, Any]]:
        for item in self._block().items:
            behind = self._rule(item.tool)[1].dependencies
            lost = self._state.withdrawn[item.tool]
            yield {
                "tool": item.tool,
                "dependency": lost.dependency or behind[0].name,
                "cause": item.cause,
                "scope": item.scope.value,
                "step": item.step,
                "replaced_by": item.replaced_by,
                "refused": item.calls_refused,
            }


def _all_items(block: Degradation) -> Iterable[MissingTool]:
    yield from block.items
    for _, below in block.children:
        yield from _all_items(below)


def _done(steps: int, used: list[str]) -> str:
    """What was done, in a sentence."""
    names = ", ".join(notices.named(name) for name in used[:10])
    by = f" and used {names}{' and others' if len(used) > 10 else ''}" if used else ""
    return f"The task went {steps} {'step' if steps == 1 else 'steps'} far{by}."


def _lines(log: Iterable[Line], salt: bytes) -> Iterable[dict[str, Any]]:
    """The step log as the wire has it; calls are numbered within their step."""
    step, call = object(), 0
    for mark, number, began, ended, *keys in log:
        args, result = keys or (None, None)
        call = call + 1 if number == step else 0
        step = number
        yield {
            "step": number or 0,
            "call": call,
            "tool": mark.name,
            "args": told(mark.name, args, salt=salt),
            "result": told("", result, salt=salt),
            "outcome": mark.outcome.value,
            "attempts": mark.attempts,
            "ms": round((ended - began) * 1000.0, 3),
        }
