"""The leader loop: what is due is claimed and handed on at once. Any number may stand by; one leads.

It never ends by itself: without a database it tries again, a job that fails is logged and does not stop the others,
and while the broker refuses it does the work itself.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import structlog
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError, connection

from controlplane import clock
from controlplane.selectors import due
from controlplane.services import (
    alert_causes,
    alerts,
    circuits,
    clock_steps,
    handovers,
    heartbeats,
    partitions,
    probes,
    runs,
    system,
    vendor_status,
    votes,
)
from workers import database, vantage
from workers.beats import own_name
from workers.handoff import BATCH, Handoff
from workers.leadership import Leadership
from workers.steps import ClockSteps
from workers.tasks.alerts import run_deliveries
from workers.tasks.housekeeping import run_chores
from workers.tasks.probes import run_rounds, run_tests, run_votes
from workers.tasks.vendor_status import run_statuses

LONGEST_SLEEP_S, SHORTEST_SLEEP_S = 1.0, 0.02
STANDBY_S = 0.5
HUNG_S = 15.0
"""A leader that has not been heard for so long, while another stands by, has its lock taken away."""
BEAT_S = 2.0
CHORE_S = 60.0
"""A chore that nobody has begun by then is left to its next time."""
AT_ONCE, A_FEW = 200, 50
"""Of each kind of work, the most that one tick takes; a few of what is done here, so that probes do not wait for it."""

DATABASE_AWAY = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)

log = structlog.get_logger(__name__)


@dataclass
class Chore:
    """Housekeeping that is done now and then: here, or where there is no `work`, by a Celery worker."""

    name: str
    every_s: float
    work: Callable[[datetime], object] | None = None
    next_at: float = 0.0


@dataclass
class Scheduler:
    """One process of the kind; `run` returns after `stop`."""

    leadership: Leadership = field(default_factory=Leadership)
    handoff: Handoff = field(default_factory=Handoff)
    steps: ClockSteps = field(default_factory=ClockSteps)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _failing: set[str] = field(default_factory=set)
    _lag_s: float = 0.0
    _next_beat_at: float = 0.0
    _refused_at: float | None = None
    _away: bool = False

    def __post_init__(self) -> None:
        self._chores = (
            Chore("make partitions", 600.0, lambda now: partitions.make_ahead(now=now)),
            Chore("abandon lost runs", 15.0, lambda now: runs.abandon_lost(now=now)),
            Chore("tell causes", 2.0, lambda now: alert_causes.dispatch_due_causes(now=now)),
            Chore("vendor status", 5.0, self._statuses),
            Chore("heartbeats", 5.0, lambda now: heartbeats.claim_due(now=now)),
            Chore("judge by rows", 10.0),
            Chore("roll up", 10.0),
            Chore("add up runs", 60.0),
            Chore("baselines", 900.0),
            Chore("drop partitions", 3600.0),
            Chore("prune", 3600.0),
        )

    def stop(self) -> None:
        """End soon: the turn that is under way comes to its end."""
        self._stopping.set()

    def run(self) -> None:
        """Lead or stand by, until stopped."""
        log.info("scheduler started", name=own_name())
        while not self._stopping.is_set():
            try:
                self._turn()
            except DATABASE_AWAY as error:
                self._without_database(error)
            except Exception:
                log.exception("a turn failed")
                self._stopping.wait(LONGEST_SLEEP_S)
        self._end()

    def _turn(self) -> None:
        database.release()
        self._look_at_the_clock()
        if self._away:
            log.info("the database answers again")
        self._away = False
        led = self.leadership.held
        if not self.leadership.take():
            self._succeed_the_hung()
            self._beat()
            self._stopping.wait(STANDBY_S)
            return
        self._refused_at = None
        if not led:
            log.info("leading", name=own_name())
        self.tick()
        self._beat()
        self.leadership.wait(self._sleep_s())

    def _succeed_the_hung(self) -> None:
        """A leader is heard, or has only just begun; or else it hangs, and its lock is freed for the next turn."""
        if self._refused_at is None:
            self._refused_at = time.monotonic()
        if time.monotonic() - self._refused_at < HUNG_S:
            return
        heard, now = due.scheduler_heard_at(), clock.now()
        if heard is not None and (now - heard).total_seconds() < HUNG_S:
            return
        self._refused_at = None
        if self.leadership.end_holder():
            log.warning("the leader hangs: its connection was ended", unheard_for_s=HUNG_S)

    def tick(self) -> None:
        """Do once what is due now."""
        self.handoff.look(worker_lives=due.celery_worker_lives(clock.now()))
        self._try("settle", lambda: circuits.settle_due(now=clock.now(), limit=A_FEW))
        self._try("sweep", lambda: circuits.sweep_due(now=clock.now(), limit=A_FEW))
        self._try("probes", self._probes)
        self._try("announce", lambda: alerts.dispatch_due_transitions(now=clock.now(), limit=AT_ONCE))
        self._try("hand over", lambda: handovers.dispatch_due_handovers(now=clock.now(), limit=AT_ONCE))
        self._try("deliver", self._deliveries)
        self._try("try-outs", self._tests)
        self._try("housekeeping", self._housekeeping)

    def _probes(self) -> None:
        """By the batch, so that the first is asked while the next is claimed."""
        self._lag_s = 0.0
        for _ in range(AT_ONCE // BATCH):
            if not self.handoff.room or not self._batch_of_probes():
                return

    def _batch_of_probes(self) -> bool:
        now = clock.now()
        rounds = circuits.claim_rounds(now=now, limit=BATCH)
        if rounds:
            self._lag_s = max(self._lag_s, *((now - each.due_at).total_seconds() for each in rounds))
            lease_s = max((each.lease_expires_at - now).total_seconds() for each in rounds)
            alone = [str(each.pk) for each in rounds if each.quorum is None]
            self.handoff.give(run_rounds, alone, expires_s=lease_s)
            self._to_their_places([each.pk for each in rounds if each.quorum is not None], lease_s)
        return len(rounds) == BATCH

    def _to_their_places(self, rounds: list[UUID], lease_s: float) -> None:
        """Agent processes fetch theirs by themselves."""
        for place, seats in votes.to_ask(rounds).items() if rounds else ():
            self.handoff.give(run_votes, [str(pk) for pk in seats], expires_s=lease_s, queue=vantage.queue_of(place))

    def _deliveries(self) -> None:
        if self.handoff.room:
            claims = alerts.claim_deliveries(now=clock.now(), limit=AT_ONCE)
            wanted = [(str(key), attempt) for key, attempt in claims]
            self.handoff.give(run_deliveries, wanted, expires_s=alerts.LEASE.total_seconds())

    def _tests(self) -> None:
        if self.handoff.room:
            ids = probes.claim_tests(now=clock.now(), limit=AT_ONCE)
            self.handoff.give(run_tests, [str(each) for each in ids], expires_s=probes.TEST_LIMIT.total_seconds())

    def _statuses(self, now: datetime) -> None:
        """Vendors' own words are context: they wait until there is room for them."""
        if self.handoff.room:
            ids = vendor_status.claim_due(now=now, limit=A_FEW)
            self.handoff.give(run_statuses, ids, expires_s=vendor_status.LEASE.total_seconds())

    def _housekeeping(self) -> None:
        """What may take long is somebody else's, so that no probe waits for it."""
        due = [chore for chore in self._chores if time.monotonic() >= chore.next_at]
        for chore in due:
            chore.next_at = time.monotonic() + chore.every_s
            if chore.work is not None:
                self._chore(chore.name, chore.work)
        if self.handoff.room:
            self.handoff.give(run_chores, [chore.name for chore in due if chore.work is None], expires_s=CHORE_S)

    def _chore(self, name: str, work: Callable[[datetime], object]) -> None:
        self._try(name, lambda: work(clock.now()))

    def _try(self, name: str, work: Callable[[], object]) -> None:
        """A job that fails is told once, shown in the beat and tried again; only a lost database ends the turn."""
        try:
            work()
        except DATABASE_AWAY:
            raise
        except Exception:
            if name not in self._failing:
                log.exception("a job failed", job=name)
            self._failing.add(name)
        else:
            self._failing.discard(name)

    def _look_at_the_clock(self) -> None:
        """A step of the database clock shifts deadlines and leases, so that it neither frees nor freezes circuits."""
        before = time.monotonic()
        database = self.leadership.now()
        step_s = self.steps.since_last_look(database.timestamp(), before, time.monotonic())
        if step_s and self.leadership.held:
            log.warning("the database clock has stepped", by_s=round(step_s, 3))
            self._try("shift circuits", lambda: circuits.shift_deadlines(by_s=step_s))
            self._try("shift heartbeats", lambda: heartbeats.shift_deadlines(by_s=step_s))
            self._try("shift alerts", lambda: alerts.shift_deadlines(by_s=step_s))
            self._try("rein in", lambda: clock_steps.rein_in(by_s=step_s, now=clock.now()))

    def _sleep_s(self) -> float:
        wait = due.next_due_s(clock.now())
        return LONGEST_SLEEP_S if wait is None else min(max(wait, SHORTEST_SLEEP_S), LONGEST_SLEEP_S)

    def _beat(self) -> None:
        if time.monotonic() < self._next_beat_at:
            return
        self._next_beat_at = time.monotonic() + BEAT_S
        detail: dict[str, Any] = {
            "leader": self.leadership.held,
            "broker": self.handoff.broker,
            "lag_s": round(self._lag_s, 3),
            "failing": sorted(self._failing),
            "pid": os.getpid(),
        }
        system.beat(kind="scheduler", name=own_name(), detail=detail)

    def _without_database(self, error: Exception) -> None:
        if not self._away:
            log.warning("the database does not answer: trying again", error=type(error).__name__)
        self._away = True
        self._drop_connections()
        self._stopping.wait(STANDBY_S)

    def _end(self) -> None:
        try:
            system.end_beat(kind="scheduler", name=own_name())
        except DatabaseError as error:
            log.warning("the last beat was not taken back", error=type(error).__name__)
        self._drop_connections()
        log.info("scheduler stopped", name=own_name())

    def _drop_connections(self) -> None:
        self.leadership.close()
        connection.close()
