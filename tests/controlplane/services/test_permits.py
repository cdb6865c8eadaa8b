"""A circuit without a probe is tested by the first later run that calls; and readmitted by a ramp where asked for."""

import threading
import uuid
from datetime import timedelta

import pytest
from django.db import connections
from recloser.core.types import Outcome

from controlplane import clock
from controlplane.delivery import documents
from controlplane.models import Candidate, Circuit, ProbeRound, Transition
from controlplane.services import circuits, permits, probes
from controlplane.services.ingest import Caller
from tests.controlplane.evidence.batches import observe

pytestmark = pytest.mark.django_db


@pytest.fixture
def caller(cast):
    key = cast.sessions[0].key
    return Caller(key.pk, key.agent_id, key.agent.slug, cast.search_api.environment_id, "prod")


@pytest.fixture
def due(cast, set_policy, frozen_clock):
    """search-api is open and due, has no probe, and its one tool is read-only by confirmed class."""
    cast.search_api.tools.update(side_effect="read_only", class_confirmed=True)
    set_policy(cast.search_api, settle_s=0, jitter=0, consecutive_failures=5)
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, failures=10)
    circuits.consider(dependency_id=cast.search_api.pk, now=clock.now())
    frozen_clock.advance(30)
    return cast.search_api


def place(caller, dependency, session=None):
    return permits.keep_place(
        caller=caller, dependency=dependency.slug, session=session or uuid.uuid4(), instance="pod-1", now=clock.now()
    )


def claim(caller, kept, *, run=None, began_s_ago=5.0, tool="web_search"):
    return permits.claim(
        caller=caller, place=kept.id, run=run or uuid.uuid4(), tool=tool, root_began_s_ago=began_s_ago, now=clock.now()
    )


def finish(caller, permit, outcome=Outcome.OK, retry_after_s=None):
    return permits.finish(
        caller=caller, round_id=permit.round_id, outcome=outcome, retry_after_s=retry_after_s, took_s=0.2,
        now=clock.now(),
    )  # fmt: skip


def test_three_processes_keep_a_place_and_a_fourth_waits(caller, due):
    kept = [place(caller, due) for _ in range(4)]
    assert [each.id is not None for each in kept] == [True, True, True, False]
    assert (kept[3].reason, kept[3].wait_s) == ("enough candidates", permits.AGAIN_S)


def test_a_process_that_asks_twice_keeps_the_same_place(caller, due):
    session = uuid.uuid4()
    assert place(caller, due, session).id == place(caller, due, session).id


def test_a_place_that_nobody_used_goes_to_another(caller, due, frozen_clock):
    session = uuid.uuid4()
    for each in (session, uuid.uuid4(), uuid.uuid4()):
        place(caller, due, each)
    frozen_clock.advance(61)
    assert place(caller, due).id is not None
    assert place(caller, due, session).id is not None


def test_the_first_that_calls_gets_the_permit_and_its_outcome_closes(caller, due, row_of):
    first, second = place(caller, due), place(caller, due)
    run = uuid.uuid4()
    permit = claim(caller, first, run=run)

    assert row_of(due).state == "half_open"
    assert claim(caller, second).round_id is None
    assert claim(caller, first, run=run).round_id == permit.round_id
    assert finish(caller, permit)
    assert row_of(due).state == "closed"
    assert not finish(caller, permit, Outcome.TIMEOUT)
    assert row_of(due).state == "closed"
    started = Transition.objects.get(circuit__dependency=due, cause="probe_started")
    assert started.evidence["permit"] == {"run": str(run), "tool": "web_search", "instance": "pod-1"}


def test_a_call_that_fails_opens_again_with_back_off(caller, due, row_of):
    assert finish(caller, claim(caller, place(caller, due)), Outcome.TIMEOUT)
    row = row_of(due)
    assert (row.state, row.cause) == ("open", "probe_failed")
    assert row.due_at - clock.now() == timedelta(seconds=45)


def test_a_call_that_the_model_got_wrong_proves_nothing(caller, due, row_of):
    assert finish(caller, claim(caller, place(caller, due)), Outcome.SEMANTIC_ERROR)
    assert row_of(due).cause == "probe_inconclusive"


def test_a_permit_whose_run_dies_frees_the_slot(caller, due, frozen_clock, row_of):
    permit = claim(caller, place(caller, due))
    frozen_clock.advance(61)
    circuits.sweep_due(now=clock.now())
    assert (row_of(due).state, row_of(due).cause) == ("open", "probe_inconclusive")
    assert ProbeRound.objects.get(pk=permit.round_id).verdict == "inconclusive"
    assert not finish(caller, permit)
    frozen_clock.advance(30)
    assert claim(caller, place(caller, due)).round_id is not None


def test_a_stuck_run_never_tests(caller, due):
    assert claim(caller, place(caller, due), began_s_ago=31.0).reason == "the run began before the opening"


@pytest.mark.parametrize("change", [{"class_confirmed": False}, {"side_effect": "side_effect"}])
def test_a_call_that_could_do_harm_never_tests(caller, due, change):
    kept = place(caller, due)
    due.tools.update(**change)
    refused = claim(caller, kept) if kept.id else kept
    assert refused.reason in ("its class may not test", "not tested by permits")


def test_a_tool_of_another_dependency_says_nothing_about_this_one(caller, due):
    assert claim(caller, place(caller, due), tool="charge_card").reason == "its class may not test"


def test_a_configured_probe_comes_first(caller, due, add_probe):
    kept = place(caller, due)
    add_probe(due)
    assert place(caller, due).reason == "not tested by permits"
    assert claim(caller, kept).reason == "not tested by permits"


def test_another_environment_and_another_agent_have_no_say(caller, due, cast):
    kept = place(caller, due)
    stranger = Caller(caller.key_id, caller.agent_id, "x", caller.environment_id + 1, "y")
    assert place(stranger, due).id is None
    assert claim(stranger, kept).reason == "no such place"
    permit = claim(caller, kept)
    assert not finish(Caller(caller.key_id, caller.agent_id + 1, "x", caller.environment_id, "y"), permit)


def test_whose_evidence_does_not_count_does_not_test(caller, due, cast):
    key = cast.sessions[0].key
    key.quarantined_at = clock.now()
    key.save()
    assert place(caller, due).id is None


def test_who_is_quarantined_while_it_keeps_a_place_gets_no_leave(caller, due, cast):
    kept, key = place(caller, due), cast.sessions[0].key
    key.quarantined_at = clock.now()
    key.save()
    assert claim(caller, kept).round_id is None


def test_force_close_while_a_permit_is_out_leaves_its_verdict_without_say(caller, due, row_of):
    permit = claim(caller, place(caller, due))
    circuits.force_close(dependency_id=due.pk, actor="ada", reason="fixed", now=clock.now())
    assert not finish(caller, permit, Outcome.TIMEOUT)
    assert row_of(due).state == "closed"


# -- the ramp


@pytest.fixture
def ramped(caller, due, set_policy):
    set_policy(due, settle_s=0, jitter=0, consecutive_failures=5, ramp=[0.1, 0.5, 1.0], ramp_step_s=10)
    finish(caller, claim(caller, place(caller, due)))
    return due


def test_a_good_call_begins_a_ramp_and_its_last_step_closes(ramped, frozen_clock, row_of):
    row = row_of(ramped)
    assert (row.state, row.cause) == ("half_open", "ramp_started")
    frozen_clock.advance(29)
    assert circuits.sweep_due(now=clock.now()) == 0
    frozen_clock.advance(1)
    circuits.sweep_due(now=clock.now())
    assert (row_of(ramped).state, row_of(ramped).cause) == ("closed", "ramp_passed")


@pytest.mark.parametrize("by_rows", [False, True])
def test_failures_of_the_admitted_open_it_again(ramped, cast, frozen_clock, row_of, by_rows):
    frozen_clock.advance(2)
    observe(cast.sessions[0], ramped, failures=5, generation=row_of(ramped).generation, count=not by_rows)
    circuits.consider(dependency_id=ramped.pk, now=clock.now(), by_rows=by_rows)
    row = row_of(ramped)
    assert (row.state, row.cause) == ("open", "ramp_failed")
    assert row.due_at - clock.now() == timedelta(seconds=45)
    told = Transition.objects.filter(circuit=row, cause="ramp_failed").get()
    assert told.evidence["failures"] == 5


def test_failures_from_before_the_ramp_do_not_open_it_again(ramped, cast, row_of):
    observe(cast.sessions[0], ramped, failures=9, generation=row_of(ramped).generation - 1, counted=False)
    circuits.consider(dependency_id=ramped.pk, now=clock.now())
    assert row_of(ramped).state == "half_open"


def test_force_close_during_a_ramp_closes_at_once_and_for_good(ramped, frozen_clock, row_of):
    circuits.force_close(dependency_id=ramped.pk, actor="ada", reason="fixed", now=clock.now())
    frozen_clock.advance(60)
    circuits.sweep_due(now=clock.now())
    assert (row_of(ramped).state, row_of(ramped).cause) == ("closed", "operator")


@pytest.mark.django_db(transaction=True)
def test_two_that_race_for_one_permit_get_one_between_them(caller, due):
    kept = [place(caller, due) for _ in range(3)]
    answers, gate = [], threading.Barrier(3)

    def race(mine):
        gate.wait()
        try:
            answers.append(claim(caller, mine).round_id)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=race, args=(each,)) for each in kept]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    assert len(answers) == 3 and sum(answer is not None for answer in answers) == 1
    assert Circuit.objects.get(dependency=due).state == "half_open"
    assert Candidate.objects.filter(round__isnull=False).count() == 1


def test_agents_hear_at_once_that_a_probe_tests_now_and_that_it_is_gone(due, cast):
    def told():
        return documents.circuits(cast.prod.pk).version, documents.circuits(cast.prod.pk).entries["search-api"][
            "probed"
        ]

    before, probed = told()
    assert not probed
    probes.save_probe(
        dependency=due, spec={"url": "https://93.184.216.34/health"}, operation="web_search", actor="petra",
        now=clock.now(),
    )  # fmt: skip
    during, probed = told()
    assert probed and during > before
    probes.remove_probe(dependency=due, actor="petra")
    after, probed = told()
    assert not probed and after > during
