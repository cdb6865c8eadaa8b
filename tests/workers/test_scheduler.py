"""One turn of the scheduler, looked at closely; its life and death are in test_whatever_dies."""

import time
from datetime import timedelta

import pytest
from django.db import OperationalError

from controlplane import clock
from controlplane.evidence import recount
from controlplane.models import ActionToken, AlertDelivery, Observation, ProbeRound, ProcessBeat, RollupMark, Session
from controlplane.selectors import due, policies
from controlplane.services import alerts, circuits, partitions, probes, runs, system
from tests.controlplane.evidence.batches import observe
from tests.factories import NOON
from tests.workers.processes import until
from tests.workers.receiver import Receiver
from tests.workers.stage import staged
from workers import handoff
from workers.handoff import Handoff
from workers.scheduler import Scheduler
from workers.tasks import housekeeping
from workers.tasks.probes import run_rounds

pytestmark = pytest.mark.django_db


class Lead:
    """Leads without a lock; its clock runs as this machine's does, and can be put anywhere."""

    held = True

    def __init__(self):
        self.at, self._began = NOON, time.monotonic()

    def now(self):
        return self.at + timedelta(seconds=time.monotonic() - self._began)


class Recorder:
    """Celery, with a look at what it was given."""

    broker, room = "ok", True

    def __init__(self):
        self.given = []

    def look(self, *, worker_lives):
        self.worker_lives = worker_lives

    def give(self, task, items, *, expires_s):
        self.given += [(task.name.rpartition(".")[2], each, expires_s) for each in items]


@pytest.fixture
def stage(frozen_clock):
    return staged()


@pytest.fixture
def scheduler():
    return Scheduler(leadership=Lead(), handoff=Recorder())


def test_what_is_due_is_handed_on_at_once_and_once(stage, scheduler, vendor):
    stage.probe(f"{vendor.url}/ok")
    stage.pager(f"{vendor.url}/ok")
    probes.test_now(dependency=stage.search, spec={"url": f"{vendor.url}/ok"}, actor="ada", now=NOON)
    stage.open()
    scheduler.tick()
    scheduler.tick()

    [round_] = stage.rounds
    names = [name for name, _, _ in scheduler.handoff.given]
    assert sorted(name for name in names if name != "run_chores") == ["run_deliveries", "run_rounds", "run_tests"]
    assert ("run_rounds", str(round_.pk), 7.0) in scheduler.handoff.given
    assert AlertDelivery.objects.get().attempts == 1


def test_nothing_is_claimed_while_nobody_could_do_it(stage, scheduler, vendor):
    stage.probe(f"{vendor.url}/ok")
    stage.open()
    scheduler.handoff.room = False
    scheduler.tick()

    assert not ProbeRound.objects.exists()
    assert stage.circuit.state == "open"


def test_a_job_that_fails_is_shown_and_stops_no_other(stage, scheduler, vendor, monkeypatch):
    stage.probe(f"{vendor.url}/ok")
    stage.open()
    monkeypatch.setattr(circuits, "sweep_due", lambda **_: 1 / 0)
    scheduler.tick()
    scheduler._beat()

    assert "run_rounds" in [name for name, _, _ in scheduler.handoff.given]
    assert ProcessBeat.objects.get(kind="scheduler").detail["failing"] == ["sweep"]

    monkeypatch.undo()
    scheduler.tick()
    assert scheduler._failing == set()


def test_a_lost_database_ends_the_turn_and_not_the_scheduler(stage, scheduler, monkeypatch):
    turns = iter([OperationalError("gone"), None])

    def turn():
        error = next(turns)
        if error:
            raise error
        scheduler.stop()

    monkeypatch.setattr(scheduler, "_turn", turn)
    monkeypatch.setattr(scheduler, "_drop_connections", lambda: None)
    scheduler.run()

    assert list(turns) == []


@pytest.mark.case("B05")
def test_b05_a_step_of_the_database_clock_moves_every_deadline_with_it(stage, scheduler, frozen_clock):
    with Receiver() as receiver:
        stage.pager(receiver.hook)
        stage.open()
        alerts.dispatch_due_transitions(now=NOON, limit=10)
    due_at, page_at = stage.circuit.due_at, AlertDelivery.objects.get().due_at
    scheduler._look_at_the_clock()
    scheduler.leadership.at = NOON - timedelta(hours=2)
    frozen_clock.advance(-7200)
    scheduler._look_at_the_clock()

    assert abs(due_at - stage.circuit.due_at - timedelta(hours=2)) < timedelta(seconds=1)
    assert abs(page_at - AlertDelivery.objects.get().due_at - timedelta(hours=2)) < timedelta(seconds=1)


def test_after_a_step_back_the_dead_do_not_live_on_and_no_old_sample_counts_again(stage, scheduler, frozen_clock):
    observe(stage.cast.sessions[0], stage.search, failures=3)
    system.beat(kind="worker", name="a:1", detail={"listening": True}, now=NOON)
    scheduler._look_at_the_clock()
    scheduler.leadership.at = NOON - timedelta(hours=2)
    frozen_clock.advance(-7200)
    scheduler._look_at_the_clock()
    frozen_clock.advance(7200 + 10)

    policy = policies.circuit_policy(environment_id=stage.cast.prod.pk, dependency_id=stage.search.pk)
    assert recount.recount(stage.search.pk, 0, policy, clock.now()).failures == 0
    assert not Session.objects.filter(last_seen_at__gt=NOON - timedelta(hours=1)).exists()
    assert not due.celery_worker_lives(NOON - timedelta(hours=1))


def test_after_a_step_forward_nothing_is_touched(stage, scheduler, frozen_clock):
    observe(stage.cast.sessions[0], stage.search, failures=3)
    scheduler._look_at_the_clock()
    scheduler.leadership.at = NOON + timedelta(hours=2)
    frozen_clock.advance(7200)
    scheduler._look_at_the_clock()

    assert Observation.objects.get().counted


def test_a_clock_that_runs_moves_nothing(stage, scheduler):
    stage.open()
    before = stage.circuit.core
    scheduler._look_at_the_clock()
    scheduler._look_at_the_clock()

    assert stage.circuit.core == before


def test_housekeeping_is_done_at_once_and_then_now_and_then(stage, scheduler, monkeypatch):
    done = []
    for place, name in ((partitions, "make_ahead"), (runs, "abandon_lost")):
        monkeypatch.setattr(place, name, lambda *, now, name=name: done.append(name))
    scheduler.tick()
    scheduler.tick()

    assert sorted(done) == ["abandon_lost", "make_ahead"]
    handed_on = [chore for task, chore, _ in scheduler.handoff.given if task == "run_chores"]
    assert sorted(handed_on) == ["add up runs", "baselines", "drop partitions", "judge by rows", "prune", "roll up"]


def test_a_celery_worker_does_every_chore_and_one_that_fails_stops_no_other(stage, monkeypatch):
    old = NOON - timedelta(hours=25)
    for at, token in ((old, "old"), (NOON, "new")):
        ActionToken.objects.create(
            environment=stage.cast.prod, circuit=stage.circuit, token=token, action="force_close", actor="otto", at=at
        )
    monkeypatch.setitem(housekeeping.CHORES, "drop partitions", lambda now: 1 / 0)
    housekeeping.run_chores(["drop partitions", *housekeeping.CHORES])

    assert list(ActionToken.objects.values_list("token", flat=True)) == ["new"]
    assert RollupMark.objects.get().runs_until == NOON


def test_it_sleeps_no_longer_than_to_the_next_deadline(stage, scheduler):
    stage.open()
    assert scheduler._sleep_s() == 1.0
    circuits.force_close(dependency_id=stage.search.pk, actor="otto", reason="enough", now=NOON)
    until_at = NOON + timedelta(seconds=0.4)
    circuits.hold_open(dependency_id=stage.search.pk, actor="otto", reason="a drill", now=NOON, until=until_at)

    assert scheduler._sleep_s() == pytest.approx(0.4)


def test_a_celery_worker_counts_while_it_reports_that_it_listens(stage):
    assert not due.celery_worker_lives(NOON)
    system.beat(kind="worker", name="a:1", detail={"listening": False}, now=NOON)
    assert not due.celery_worker_lives(NOON)
    system.beat(kind="worker", name="a:1", detail={"listening": True}, now=NOON)
    assert due.celery_worker_lives(NOON + timedelta(seconds=5))
    assert not due.celery_worker_lives(NOON + timedelta(seconds=7))


def test_a_beat_keeps_its_start_and_silence_is_forgotten_after_a_day(stage):
    system.beat(kind="edge", name="a:1", detail={}, now=NOON)
    system.beat(kind="edge", name="a:1", detail={"streams": 3}, now=NOON + timedelta(hours=1))

    row = ProcessBeat.objects.get()
    assert (row.started_at, row.beat_at, row.detail) == (NOON, NOON + timedelta(hours=1), {"streams": 3})
    assert system.prune_beats(now=NOON + timedelta(hours=24)) == 0
    assert system.prune_beats(now=NOON + timedelta(hours=26)) == 1


@pytest.mark.parametrize(
    ("answers", "lives", "broker"), [(True, True, "ok"), (True, False, "no_worker"), (False, True, "away")]
)
def test_where_work_goes_is_decided_by_broker_and_celery_workers(monkeypatch, answers, lives, broker):
    monkeypatch.setattr(handoff, "_broker_answers", lambda: answers)
    hands = Handoff()
    hands.look(worker_lives=lives)

    assert hands.broker == broker
    assert hands.room


def test_its_own_hands_are_bounded_and_come_free_again(stage, monkeypatch):
    import threading

    monkeypatch.setattr(handoff, "_broker_answers", lambda: False)
    go, begun = threading.Event(), []

    def work(batch):
        begun.append(batch)
        assert go.wait(10)

    hands = Handoff()
    hands.look(worker_lives=False)
    monkeypatch.setattr(run_rounds, "run", work)
    hands.give(run_rounds, list(range(20 * handoff.OWN_THREADS)), expires_s=5)
    assert not hands.room

    go.set()
    until(lambda: hands.room, what="a hand comes free")
    until(lambda: len(begun) == handoff.OWN_THREADS, what="every batch was begun")
