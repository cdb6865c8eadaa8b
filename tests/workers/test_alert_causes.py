"""What people are told of though no circuit moved: once when it begins, once when it is over."""

import uuid
from datetime import timedelta

import pytest

from controlplane import clock
from controlplane.models import AlertCause, AlertDelivery, Circuit, Environment, Probe, ProbeRound, Transition
from controlplane.services import alert_causes, alerts, circuits, system, tools
from tests.controlplane.evidence.batches import observe
from tests.factories import NOON
from tests.workers.receiver import proves
from workers.tasks.alerts import run_deliveries
from workers.watch import SchedulerWatch

pytestmark = pytest.mark.django_db


def look():
    """What the scheduler and a Celery worker do in one go."""
    alert_causes.dispatch_due_causes(now=clock.now())
    alerts.dispatch_due_transitions(now=clock.now(), limit=100)
    claims = alerts.claim_deliveries(now=clock.now(), limit=100)
    run_deliveries([(str(key), attempt) for key, attempt in claims])


def told(receiver):
    return [body["event"] for body in receiver.bodies]


def _circuit(dependency, **values):
    Circuit.objects.filter(dependency=dependency).update(**values)
    return Circuit.objects.get(dependency=dependency)


def _fault(stage, worker=0):
    return _circuit(stage.search_api, fault_worker=stage.workers[worker], fault_seen_at=clock.now())


def test_a_worker_that_fails_alone_is_told_once_by_name_and_taken_back_once(stage, receiver, secret, frozen_clock):
    circuit = _fault(stage)
    for _ in range(4):
        look()
        frozen_clock.advance(10)
        _fault(stage)
    _circuit(stage.search_api, fault_worker=None, fault_seen_at=None)
    for _ in range(4):
        frozen_clock.advance(60)
        look()

    assert told(receiver) == ["worker_fault", "resolved"]
    first, last = receiver.bodies
    assert first["title"] == "Worker fault: research/pod-1 fails alone on search-api (prod)"
    assert "the circuit stays closed for the fleet" in first["text"]
    assert first["incident"] == last["incident"] != first["group"] == last["group"] == f"circuit-{circuit.pk}"
    assert last["title"].startswith("Resolved: worker fault")
    assert proves(receiver.seen[0], secret)


def test_a_fault_found_by_the_core_on_real_evidence_is_told(stage, receiver, secret, frozen_clock):
    sick, *others = stage.sessions
    for _ in range(2):
        observe(sick, stage.search_api, failures=5)
        for other in others:
            observe(other, stage.search_api, ok=20)
        frozen_clock.advance(6)
        circuits.consider(dependency_id=stage.search_api.pk, now=clock.now())
    look()

    assert told(receiver) == ["worker_fault"]
    assert receiver.bodies[0]["worker"] == "research/pod-1"


def test_what_comes_and_goes_is_one_cause(stage, receiver, secret, frozen_clock):
    for _ in range(5):
        _fault(stage)
        look()
        _circuit(stage.search_api, fault_worker=None, fault_seen_at=None)
        frozen_clock.advance(30)
        look()

    assert told(receiver) == ["worker_fault"]


def test_another_worker_is_another_cause_of_the_same_group(stage, receiver, secret, frozen_clock):
    _fault(stage)
    look()
    _fault(stage, worker=1)
    look()

    assert told(receiver) == ["worker_fault", "worker_fault"]
    one, other = receiver.bodies
    assert one["incident"] != other["incident"]
    assert one["group"] == other["group"]


def test_a_circuit_that_opened_for_the_fleet_is_no_workers_fault(stage, receiver, secret):
    _fault(stage)
    _circuit(stage.search_api, state="open")
    look()

    assert "worker_fault" not in told(receiver)


def test_a_quorum_out_of_reach_says_what_protects_meanwhile(stage, receiver, secret, frozen_clock):
    _circuit(stage.search_api, quorum_short_at=NOON)
    frozen_clock.advance(59)
    look()
    assert told(receiver) == []

    frozen_clock.advance(1)
    look()
    look()
    assert told(receiver) == ["quorum_short"]
    assert "own breaker is the protection" in receiver.bodies[0]["text"]

    _circuit(stage.search_api, quorum_short_at=None)
    look()
    frozen_clock.advance(121)
    look()
    assert told(receiver) == ["quorum_short", "resolved"]


def _open(stage):
    now = clock.now()
    until = now + timedelta(seconds=60)
    circuits.hold_open(dependency_id=stage.search_api.pk, actor="otto", reason="a drill", now=now, until=until)
    circuits.release(dependency_id=stage.search_api.pk, actor="otto", reason="go on", now=now)
    Transition.objects.update(alerted_at=now)


def _round(stage, verdict, at):
    circuit = Circuit.objects.get(dependency=stage.search_api)
    ProbeRound.objects.create(
        id=uuid.uuid4(), circuit=circuit, generation=circuit.generation, due_at=at, granted_at=at, lease_expires_at=at,
        finished_at=at, verdict=verdict,
    )  # fmt: skip


def test_a_circuit_that_nobody_could_test_for_a_quarter_of_an_hour(stage, receiver, secret, frozen_clock):
    _open(stage)
    frozen_clock.advance(899)
    look()
    assert told(receiver) == []

    frozen_clock.advance(1)
    look()
    look()
    assert told(receiver) == ["untestable"]
    assert receiver.bodies[0]["since"] == "2026-06-01T12:00:00+00:00"

    circuits.force_close(dependency_id=stage.search_api.pk, actor="otto", reason="it works", now=clock.now())
    look()
    frozen_clock.advance(121)
    look()
    assert told(receiver) == ["untestable", "closed", "resolved"]


def test_a_probe_that_never_says_anything_is_nobody_who_tests(stage, receiver, secret, frozen_clock):
    Probe.objects.create(
        dependency=stage.search_api, operation="web_search", spec={}, updated_at=NOON, updated_by="petra"
    )
    _open(stage)
    _round(stage, "bad", frozen_clock.advance(600))
    _round(stage, "inconclusive", frozen_clock.advance(600))
    look()
    assert told(receiver) == []

    _round(stage, "inconclusive", frozen_clock.advance(300))
    look()
    assert told(receiver) == ["untestable"]


def test_the_policy_says_after_how_long(stage, receiver, secret, frozen_clock):
    from controlplane.services import policies

    policies.publish(
        environment=stage.prod, level="dependency", dependency=stage.search_api, values={"untestable_alert_s": 60},
        reason="soon", actor="petra", now=NOON,
    )  # fmt: skip
    _open(stage)
    frozen_clock.advance(61)
    look()

    assert told(receiver) == ["untestable"]


def test_one_that_a_person_holds_open_needs_no_test(stage, receiver, secret, frozen_clock):
    until = NOON + timedelta(hours=2)
    circuits.hold_open(dependency_id=stage.search_api.pk, actor="otto", reason="a drill", now=NOON, until=until)
    frozen_clock.advance(1800)
    look()

    assert told(receiver) == ["opened"]


@pytest.fixture
def watch():
    """A Celery worker's, which has just come up."""
    made = SchedulerWatch()
    made.look()
    return made


def test_a_silent_scheduler_is_noticed_by_a_celery_worker_and_told_once(stage, receiver, secret, watch, frozen_clock):
    frozen_clock.advance(600)
    system.beat(kind="scheduler", name="a:1", detail={"leader": True})
    frozen_clock.advance(29)
    assert not watch.look()
    frozen_clock.advance(1)
    assert watch.look()
    frozen_clock.advance(5)
    assert watch.look()

    assert told(receiver) == ["scheduler_silent"]
    assert receiver.bodies[0]["since"] == "2026-06-01T12:10:00+00:00"
    assert AlertCause.objects.count() == Environment.objects.count()

    look()
    assert told(receiver) == ["scheduler_silent", "resolved"]
    assert not AlertCause.objects.filter(ended_at=None).exists()


def test_while_the_scheduler_is_silent_other_alerts_go_out_all_the_same(stage, receiver, secret, watch, frozen_clock):
    circuits.hold_open(
        dependency_id=stage.search_api.pk, actor="otto", reason="a drill", now=NOON, until=NOON + timedelta(hours=1)
    )
    frozen_clock.advance(31)
    watch.look()

    assert sorted(told(receiver)) == ["opened", "scheduler_silent"]


def test_a_scheduler_has_time_to_come_up_after_a_celery_worker(stage, frozen_clock):
    system.beat(kind="scheduler", name="a:1", detail={"leader": True}, now=NOON - timedelta(days=1))
    watch = SchedulerWatch()
    assert not watch.look()
    frozen_clock.advance(31)
    assert watch.look()


def test_a_scheduler_that_is_replaced_on_purpose_is_not_silent(stage, watch, frozen_clock):
    frozen_clock.advance(3600)
    system.beat(kind="scheduler", name="a:1", detail={"leader": True})
    watch.look()
    system.end_beat(kind="scheduler", name="a:1")
    frozen_clock.advance(20)

    assert not watch.look()


def test_only_those_who_were_told_hear_that_it_is_over(stage, receiver, frozen_clock):
    _fault(stage)
    look()
    alerts.save_channel(
        environment=stage.prod, kind="webhook", name="late", target=receiver.hook, actor="ada", now=NOON
    )
    _circuit(stage.search_api, fault_worker=None, fault_seen_at=None)
    frozen_clock.advance(200)
    look()

    assert told(receiver) == []
    assert AlertCause.objects.get().ended_at is not None


def test_environments_do_not_hear_of_each_other(stage, receiver, secret):
    _circuit(stage.staging_search_api, fault_worker=stage.workers[0], fault_seen_at=NOON)
    look()

    assert told(receiver) == []
    assert not AlertDelivery.objects.exists()


def test_causes_are_forgotten_long_after_they_ended(stage, frozen_clock):
    _fault(stage)
    look()
    _circuit(stage.search_api, fault_worker=None, fault_seen_at=None)
    frozen_clock.advance(200)
    look()

    assert alert_causes.prune_causes(now=NOON + timedelta(days=89)) == 0
    assert alert_causes.prune_causes(now=NOON + timedelta(days=92)) == 1


def test_many_of_a_kind_at_once_are_ten_messages_and_one_that_counts_the_rest(stage, receiver, secret, frozen_clock):
    """One key that fails alone on invented dependencies would send hundreds."""
    for number in range(40):
        dependency = tools.ensure_dependency(
            environment=stage.prod, slug=f"invented-{number:02}", actor="agent", now=clock.now()
        )
        _circuit(dependency, quorum_short_at=clock.now() - timedelta(minutes=2))
    look()
    frozen_clock.advance(5)
    _circuit(stage.search_api, quorum_short_at=clock.now() - timedelta(minutes=2))
    look()

    assert told(receiver) == ["quorum_short"] * 11
    [gathered] = [body for body in receiver.bodies if body["count"] != 1]
    assert gathered["title"].endswith(", and 29 more") and gathered["count"] == 30
    assert "the Board shows all of them" in gathered["text"]
    assert AlertCause.objects.filter(kind="quorum_short", ended_at=None).count() == 41

    Circuit.objects.update(quorum_short_at=None)
    frozen_clock.advance(300)
    look()
    assert told(receiver)[11:] == ["resolved"] * 11
