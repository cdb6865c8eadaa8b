"""A window becomes a suspicion, a suspicion an outage, or nothing at all."""

import uuid
from datetime import timedelta

import pytest
from recloser.core.types import State

from controlplane import clock
from controlplane.models import Circuit, DocumentVersion, Outage, Transition, Trip
from controlplane.selectors import policies as resolved
from controlplane.services import circuits
from tests import factories
from tests.controlplane.evidence.batches import observe

pytestmark = pytest.mark.django_db


def _break(cast, dependency=None, *, each=10, workers=(0, 1), **more):
    """Enough failures from two workers to breach the default policy."""
    for number in workers:
        observe(cast.sessions[number], dependency or cast.search_api, failures=each, **more)


def _open(cast, consider, frozen_clock, dependency=None):
    _break(cast, dependency)
    consider(dependency or cast.search_api)
    frozen_clock.advance(0.5)
    return consider(dependency or cast.search_api)


def test_a_breach_is_first_only_suspected(cast, consider, row_of):
    _break(cast)

    considered = consider(cast.search_api)

    row = row_of(cast.search_api)
    assert considered.suspected and not considered.opened
    assert considered.settles_at == clock.now() + timedelta(seconds=0.5)
    assert (row.state, row.suspected_at, row.sweep_at) == ("closed", clock.now(), considered.settles_at)
    assert not Transition.objects.exists() and not Trip.objects.exists()


def test_it_opens_once_the_suspicion_has_settled(cast, consider, row_of, frozen_clock):
    version = DocumentVersion.objects.get(environment=cast.prod).circuits

    considered = _open(cast, consider, frozen_clock)

    row = row_of(cast.search_api)
    transition, outage = Transition.objects.get(), Outage.objects.get()
    assert considered.opened and considered.state is State.OPEN
    assert (row.state, row.generation, row.cause, row.suspected_at) == ("open", 1, "failure_rate", None)
    assert row.due_at == clock.now() + timedelta(seconds=30)
    assert (transition.generation, transition.outage, outage.ended_at) == (1, outage, None)
    assert row.version == DocumentVersion.objects.get(environment=cast.prod).circuits == version + 1


def test_the_trip_tells_evidence_threshold_shares_and_the_call_that_completed_it(cast, consider, frozen_clock):
    run = str(uuid.uuid4())
    observe(cast.sessions[0], cast.search_api, failures=15)
    news = cast.tools["news_search"]
    samples = ({"outcome": "timeout", "run": run, "step": 4},)
    observe(cast.sessions[1], cast.search_api, failures=5, operation="news", tool_id=news.pk, samples=samples)
    consider(cast.search_api)
    frozen_clock.advance(0.5)
    consider(cast.search_api)

    trip = Trip.objects.get()
    assert (trip.scope, trip.signal, trip.delivery) == ("fleet", "failure_rate", "enforce")
    assert trip.evidence["failure_rate"] == 1.0 and trip.evidence["failures"] == 20
    assert trip.evidence["witnesses"] == 2
    assert trip.threshold == {"failure_rate": 0.5, "min_calls": 20, "min_workers": 2}
    assert trip.shares == {
        "keys": {"prodresearch": 1.0},
        "workers": {"research/pod-1": 0.75, "research/pod-2": 0.25},
    }
    assert (trip.tool, str(trip.run), trip.step, trip.worker) == (news, run, 4, cast.workers[1])
    assert trip.outage == Outage.objects.get()
    assert trip.policy == resolved.digest(resolved.of_dependency(cast.search_api).policy)


def test_a_suspicion_is_withdrawn_when_the_successes_arrive(cast, consider, row_of, frozen_clock):
    _break(cast)
    consider(cast.search_api)
    observe(cast.sessions[2], cast.search_api, ok=100)
    frozen_clock.advance(0.5)

    considered = consider(cast.search_api)

    row = row_of(cast.search_api)
    assert not considered.suspected and (row.state, row.suspected_at, row.generation) == ("closed", None, 0)
    assert not Outage.objects.exists()


def test_the_scheduler_settles_what_nobody_came_back_to(cast, consider, row_of, frozen_clock):
    _break(cast)
    consider(cast.search_api)
    assert circuits.settle_due(now=clock.now()) == []
    frozen_clock.advance(0.6)

    assert circuits.settle_due(now=clock.now()) == [cast.search_api.pk]
    assert row_of(cast.search_api).state == "open"


def test_while_it_settles_nobody_reads_the_window(cast, consider, monkeypatch):
    _break(cast)
    consider(cast.search_api)
    monkeypatch.setattr("controlplane.evidence.window.evidence", None)

    assert consider(cast.search_api).suspected


def test_the_success_that_completes_the_sample_does_not_open(cast, consider, row_of):
    observe(cast.sessions[0], cast.search_api, failures=10)
    observe(cast.sessions[1], cast.search_api, failures=9)
    observe(cast.sessions[1], cast.search_api, ok=1)

    assert not consider(cast.search_api, bad_sample=False).suspected
    assert row_of(cast.search_api).suspected_at is None


def test_one_sick_worker_is_named_and_the_fleet_stays_closed(cast, consider, row_of):
    observe(cast.sessions[1], cast.search_api, ok=10)
    observe(cast.sessions[0], cast.search_api, failures=14)

    considered = consider(cast.search_api)

    row = row_of(cast.search_api)
    assert not considered.suspected
    assert (row.fault_worker, row.fault_seen_at) == (cast.workers[0], clock.now())


def test_a_quorum_out_of_reach_is_kept_for_the_board(cast, consider, row_of):
    for session in cast.sessions[1:]:
        session.delete()
    observe(cast.sessions[0], cast.search_api, failures=14)

    assert not consider(cast.search_api).suspected
    assert row_of(cast.search_api).quorum_short_at == clock.now()


def test_two_processes_of_one_instance_are_two_voices_where_nobody_else_lives(cast, consider):
    for session in cast.sessions[1:]:
        session.delete()
    second = factories.session(cast.workers[0])
    for session in (cast.sessions[0], second):
        observe(session, cast.search_api, failures=10)

    assert consider(cast.search_api).suspected


def test_an_unrelated_agent_elsewhere_does_not_take_the_voice_of_the_processes(cast, consider):
    unrelated = factories.session(factories.worker(cast.support_key, "pod-9"))
    observe(unrelated, cast.crm_db, ok=1)
    for session in (cast.sessions[0], factories.session(cast.workers[0])):
        observe(session, cast.search_api, failures=10)

    assert consider(cast.search_api).suspected


def test_an_unrelated_agent_elsewhere_does_not_hide_that_the_quorum_is_out_of_reach(cast, consider, row_of):
    observe(cast.sessions[1], cast.crm_db, ok=1)
    observe(cast.sessions[0], cast.search_api, failures=14)

    assert not consider(cast.search_api).suspected
    assert row_of(cast.search_api).quorum_short_at == clock.now()


def test_two_agents_on_one_sick_host_do_not_open_for_the_fleet(cast, consider, row_of):
    neighbour = factories.worker(cast.support_key, "pod-1")
    observe(cast.sessions[1], cast.search_api, ok=10)
    observe(cast.sessions[0], cast.search_api, failures=9)
    observe(factories.session(neighbour), cast.search_api, failures=12)

    assert not consider(cast.search_api).suspected
    assert row_of(cast.search_api).fault_worker == neighbour


def test_after_a_rotation_the_key_that_reported_is_named_and_not_the_first(cast, consider, frozen_clock):
    cast.sessions[0].key = factories.key(cast.research, "rcl_prodrotated_" + "n" * 43)
    observe(cast.sessions[0], cast.search_api, failures=15)
    observe(cast.sessions[1], cast.search_api, failures=5)
    consider(cast.search_api)
    frozen_clock.advance(0.5)
    consider(cast.search_api)

    assert Trip.objects.get().shares["keys"] == {"prodrotated": 0.75, "prodresearch": 0.25}


def test_observe_records_what_it_would_have_done_once(cast, consider, row_of, set_policy):
    set_policy(cast.search_api, delivery="observe", settle_s=0)
    _break(cast)

    assert consider(cast.search_api).would_have_tripped
    _break(cast)
    assert not consider(cast.search_api).would_have_tripped

    trip = Trip.objects.get()
    assert (trip.delivery, trip.outage) == ("observe", None)
    assert row_of(cast.search_api).state == "closed" and not Transition.objects.exists()


def test_slow_calls_are_only_watched_at_first(cast, consider, row_of):
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, ok=10, slow=9)

    considered = consider(cast.search_api)

    assert considered.would_have_tripped and not considered.suspected
    assert Trip.objects.get().signal == "slow_call_rate"
    assert Trip.objects.get().shares["workers"] == {"research/pod-1": 0.5, "research/pod-2": 0.5}


def test_switched_off_nothing_is_computed(cast, consider, row_of, set_policy):
    set_policy(cast.search_api, delivery="off")
    _break(cast)

    assert not consider(cast.search_api).suspected
    assert not Trip.objects.exists()


def test_held_closed_it_only_notes_what_it_would_have_done(cast, consider, row_of):
    until = clock.now() + timedelta(hours=1)
    circuits.hold_closed(
        dependency_id=cast.search_api.pk, actor="otto", reason="known noise", now=clock.now(), until=until
    )
    _break(cast, generation=1)

    assert consider(cast.search_api).would_have_tripped
    assert (row_of(cast.search_api).state, Trip.objects.get().delivery) == ("closed", "observe")


def test_failures_while_open_do_not_move_the_deadline(cast, consider, row_of, frozen_clock):
    _open(cast, consider, frozen_clock)
    due_at = row_of(cast.search_api).due_at
    frozen_clock.advance(10)
    _break(cast)

    assert consider(cast.search_api).state is State.OPEN
    assert row_of(cast.search_api).due_at == due_at


def test_a_late_wait_from_the_server_lengthens_an_open_circuit(cast, consider, row_of, frozen_clock):
    _open(cast, consider, frozen_clock)
    version = row_of(cast.search_api).version
    until = clock.now() + timedelta(seconds=300)

    assert circuits.hear_wait(dependency_id=cast.search_api.pk, until=until, now=clock.now())
    assert not circuits.hear_wait(dependency_id=cast.search_api.pk, until=until, now=clock.now())

    row = row_of(cast.search_api)
    assert (row.due_at, row.version) == (clock.now() + timedelta(seconds=300), version + 1)
    assert row.generation == 1


def test_a_wait_known_at_the_opening_is_kept(cast, consider, row_of, frozen_clock):
    _break(cast, retry_after_s=120)
    consider(cast.search_api)
    frozen_clock.advance(0.5)
    consider(cast.search_api)

    assert row_of(cast.search_api).due_at == clock.now() + timedelta(seconds=119.5)


def test_what_was_stored_and_never_counted_nor_considered_is_found_by_the_slow_sweep(cast, row_of, frozen_clock):
    observe(cast.sessions[2], cast.crm_db, ok=5)
    observe(cast.sessions[2], cast.search_api, ok=1)
    _break(cast, count=False)
    frozen_clock.advance(10)

    assert circuits.recheck_lately_failing(now=clock.now()) == [cast.search_api.pk]
    assert row_of(cast.search_api).suspected_at == clock.now()


def test_the_slow_sweep_comes_to_everyone_however_few_it_takes_at_once(cast, frozen_clock):
    wanted = {cast.search_api.pk, cast.crm_db.pk}
    for dependency in (cast.search_api, cast.crm_db):
        observe(cast.sessions[2], dependency, failures=1)

    found = [circuits.recheck_lately_failing(now=clock.now(), limit=1) for _ in range(2)]

    assert {pk for each in found for pk in each} == wanted


def test_a_wait_means_nothing_to_a_closed_circuit(cast, row_of):
    until = clock.now() + timedelta(seconds=300)

    assert not circuits.hear_wait(dependency_id=cast.search_api.pk, until=until, now=clock.now())
    assert row_of(cast.search_api).due_at is None


def test_one_circuit_that_cannot_be_read_holds_up_no_other(cast, consider, row_of, frozen_clock, caplog):
    for dependency in (cast.search_api, cast.crm_db):
        _break(cast, dependency)
        consider(dependency)
    frozen_clock.advance(0.6)
    row = row_of(cast.search_api)
    row.core["state"] = "ajar"
    row.save(update_fields=["core"])

    assert circuits.settle_due(now=clock.now()) == [cast.crm_db.pk]
    assert row_of(cast.crm_db).state == "open"


def test_late_results_of_an_older_generation_open_nothing(cast, consider, row_of, frozen_clock):
    _open(cast, consider, frozen_clock)
    circuits.force_close(dependency_id=cast.search_api.pk, actor="otto", reason="mended", now=clock.now())
    _break(cast, generation=0)

    assert not consider(cast.search_api).suspected
    assert row_of(cast.search_api).state == "closed"


def test_after_a_force_close_new_evidence_trips_again(cast, consider, row_of, frozen_clock):
    _open(cast, consider, frozen_clock)
    circuits.force_close(dependency_id=cast.search_api.pk, actor="otto", reason="mended", now=clock.now())
    _break(cast, generation=2)
    consider(cast.search_api)
    frozen_clock.advance(0.5)
    consider(cast.search_api)

    assert row_of(cast.search_api).state == "open"
    assert Outage.objects.count() == 2


def test_editing_a_policy_keeps_state_and_samples(cast, consider, row_of, set_policy, frozen_clock):
    _open(cast, consider, frozen_clock)
    before = row_of(cast.search_api)
    set_policy(cast.search_api, failure_rate=0.9)
    set_policy(cast.crm_db, min_calls=3)
    for session in cast.sessions[:2]:
        observe(session, cast.crm_db, failures=2, operation="db_lookup")

    after = row_of(cast.search_api)
    assert (after.state, after.due_at, after.generation) == (before.state, before.due_at, before.generation)
    assert consider(cast.crm_db).suspected


def test_six_tools_behind_one_dependency_make_one_circuit(cast, consider, frozen_clock):
    _break(cast, operation="web_search")
    _break(cast, operation="news_search", tool_id=cast.tools["news_search"].pk)
    consider(cast.search_api)
    frozen_clock.advance(0.5)
    consider(cast.search_api)

    assert Trip.objects.count() == Outage.objects.count() == 1


def test_the_other_environments_circuit_of_the_same_name_is_untouched(cast, consider, frozen_clock, row_of):
    _open(cast, consider, frozen_clock)

    assert row_of(cast.staging_search_api).state == "closed"
    assert DocumentVersion.objects.get(environment=cast.staging).circuits == 1


def test_a_dependency_without_a_circuit_row_gets_one(cast, consider, row_of):
    Circuit.objects.filter(dependency=cast.crm_db).delete()

    assert consider(cast.crm_db).state is State.CLOSED
    assert row_of(cast.crm_db).environment == cast.prod
