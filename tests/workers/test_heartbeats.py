"""Closed circuits that are asked at a slow heartbeat: a warning, and nothing else."""

import pytest
from recloser.core.probe import heartbeat_streak
from recloser.core.types import Verdict

from controlplane.models import AlertCause, AuditEntry, Circuit, Probe, ProbeTest, Transition
from controlplane.services import alert_causes, heartbeats, probes
from controlplane.services.errors import Refused
from tests.factories import NOON
from tests.workers.stage import staged
from workers.tasks.probes import run_tests

pytestmark = pytest.mark.django_db


@pytest.fixture
def stage(frozen_clock):
    return staged()


def save(stage, url, heartbeat_s=60, **more):
    return probes.save_probe(
        dependency=stage.search, operation="web_search", spec={"url": url}, heartbeat_s=heartbeat_s, actor="ada",
        now=NOON, **more,
    )  # fmt: skip


def beat(now):
    """What the scheduler and a Celery worker do in one go; how many were asked."""
    asked = heartbeats.claim_due(now=now)
    run_tests([str(each) for each in probes.claim_tests(now=now, limit=100)])
    return asked


def told(now):
    alert_causes.dispatch_due_causes(now=now)
    return [(row.kind, row.ended_at is not None) for row in AlertCause.objects.order_by("pk")]


def test_without_a_heartbeat_a_closed_circuit_is_not_asked(stage, vendor):
    save(stage, f"{vendor.url}/ok", heartbeat_s=None)
    assert beat(NOON) == 0 and vendor.seen == []


def test_two_bad_ones_warn_once_one_good_one_resolves_and_the_circuit_never_moves(stage, vendor, frozen_clock):
    save(stage, f"{vendor.url}/down")
    before = stage.circuit
    assert beat(NOON) == 1
    assert told(frozen_clock.advance(5)) == []
    assert beat(frozen_clock.advance(70)) == 1
    assert told(frozen_clock.advance(1)) == told(frozen_clock.advance(1)) == [("heartbeat_failing", False)]

    for _ in range(30):
        beat(frozen_clock.advance(70))
    after = stage.circuit
    assert (after.state, after.generation, after.core) == (before.state, before.generation, before.core)
    assert not Transition.objects.exists()

    Probe.objects.update(spec={"url": f"{vendor.url}/ok"})
    beat(frozen_clock.advance(70))
    told(frozen_clock.advance(1))
    assert told(frozen_clock.advance(200)) == [("heartbeat_failing", True)]
    assert Probe.objects.get().heartbeat_failing_at is None


def test_it_is_asked_at_its_pace_and_by_one(stage, vendor, frozen_clock):
    save(stage, f"{vendor.url}/ok", heartbeat_s=300)
    assert [beat(NOON), beat(NOON), beat(frozen_clock.advance(200))] == [1, 0, 0]
    assert beat(frozen_clock.advance(131)) == 1
    assert len(vendor.seen) == 2


def test_a_circuit_that_is_not_closed_by_itself_is_left_to_its_rounds(stage, vendor):
    save(stage, f"{vendor.url}/ok")
    stage.open()
    assert beat(NOON) == 0
    Circuit.objects.update(state="closed", mode="forced_closed")
    assert beat(NOON) == 0


def test_what_was_heard_before_an_outage_says_nothing_after_it(stage, vendor, frozen_clock):
    save(stage, f"{vendor.url}/down")
    beat(NOON)
    beat(frozen_clock.advance(70))
    Circuit.objects.update(changed_at=frozen_clock.advance(10))
    assert told(frozen_clock.advance(1)) == []


def test_what_proves_nothing_neither_warns_nor_resolves(stage, vendor, frozen_clock):
    save(stage, f"{vendor.url}/down")
    beat(NOON)
    Probe.objects.update(spec={"url": "http://169.254.169.254/"})
    beat(frozen_clock.advance(70))
    assert Probe.objects.get().heartbeat_bad == 1


def test_an_answer_that_comes_twice_counts_once(stage, vendor):
    save(stage, f"{vendor.url}/down")
    heartbeats.claim_due(now=NOON)
    for _ in range(2):
        probes.finish_test(test_id=ProbeTest.objects.get().pk, result={"verdict": "bad"}, now=NOON)
    assert Probe.objects.get().heartbeat_bad == 1


def test_a_try_out_by_hand_is_no_heartbeat(stage, vendor):
    save(stage, f"{vendor.url}/ok")
    probes.test_now(dependency=stage.search, spec={"url": f"{vendor.url}/down"}, actor="ada", now=NOON)
    run_tests([str(each) for each in probes.claim_tests(now=NOON, limit=10)])
    assert (Probe.objects.get().heartbeat_bad, Probe.objects.get().heartbeat_at) == (0, None)


@pytest.mark.parametrize(("heartbeat_s", "ask_from"), [(59, None), (86_401, None), (60, "agents")])
def test_a_pace_that_cannot_be_is_refused_at_its_field(stage, vendor, heartbeat_s, ask_from):
    with pytest.raises(Refused) as refused:
        save(stage, f"{vendor.url}/ok", heartbeat_s=heartbeat_s, ask_from=ask_from)
    assert refused.value.field == "heartbeat_s" and refused.value.mend
    assert not Probe.objects.exists() and not AuditEntry.objects.filter(accepted=True, action="save_probe").exists()


def test_a_streak_is_ended_by_a_good_one_alone():
    counts, bad = [], 0
    for verdict in (Verdict.BAD, Verdict.INCONCLUSIVE, Verdict.BAD, Verdict.GOOD, Verdict.INCONCLUSIVE):
        bad = heartbeat_streak(bad, verdict)
        counts.append(bad)
    assert counts == [1, 1, 2, 0, 0]


@pytest.mark.parametrize("step_s", [-7200, 7200])
def test_a_step_of_the_clock_neither_holds_a_heartbeat_back_nor_brings_it_early(stage, vendor, frozen_clock, step_s):
    save(stage, f"{vendor.url}/ok")
    assert beat(NOON) == 1
    now = frozen_clock.advance(step_s)

    heartbeats.shift_deadlines(by_s=step_s)

    assert beat(now) == 0
    assert beat(frozen_clock.advance(70)) == 1
