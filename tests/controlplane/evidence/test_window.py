"""Counters and rows tell the same story, and where counters may have forgotten something the rows are asked."""

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recloser.core.policy import CircuitPolicy

from controlplane import clock, redis_clients
from controlplane.evidence import counters, live, recount, store, window
from controlplane.evidence.counters import Key
from controlplane.models import Session
from tests import factories
from tests.controlplane.evidence.batches import observe

pytestmark = pytest.mark.django_db

POLICY = CircuitPolicy()


@pytest.fixture
def cast(frozen_clock):
    store.forget()
    return factories.cast()


def _key(dependency, generation=0):
    return Key(dependency.environment_id, dependency.pk, generation)


def _counted(dependency, policy=POLICY, *, closely=True, generation=0):
    now = clock.now()
    key = _key(dependency, generation)
    present = live.live(dependency.environment_id, now)
    return counters.read(redis_clients.blocking(), key, policy, now.timestamp(), live=present, closely=closely).evidence


@pytest.fixture
def every_part(monkeypatch):
    """Read the parts by worker whether or not they can matter."""
    monkeypatch.setattr(counters, "_may_matter", lambda totals, policy: True)


def _recounted(dependency, policy=POLICY, generation=0):
    return recount.recount(dependency.pk, generation, policy, clock.now())


def _evidence(dependency, policy=POLICY, generation=0):
    return window.evidence(_key(dependency, generation), policy, clock.now(), begun_at=None, closely=True)


SLICES = st.fixed_dictionaries(
    {
        "who": st.integers(0, 2),
        "wait": st.one_of(st.just(0), st.floats(0, 30), st.integers(0, 30)),
        "age_s": st.one_of(st.just(0), st.floats(0, 20), st.integers(0, 20)),
        "ok": st.integers(0, 3),
        "empty": st.integers(0, 1),
        "failures": st.integers(0, 3),
        "slow": st.integers(0, 4),
        "streak": st.integers(0, 4),
        "operation": st.sampled_from(["web_search", "news_search", ""]),
        "retry_after_s": st.one_of(st.none(), st.integers(0, 200)),
    }
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(slices=st.lists(SLICES, max_size=12))
def test_counters_and_rows_agree_on_any_batches(cast, every_part, frozen_clock, slices):
    dependency = factories.dependency(cast.prod, f"any-{clock.now().timestamp()}-{id(slices)}")
    dependency.tools.add(cast.tools["web_search"])
    for one in slices:
        fields = dict(one)
        frozen_clock.advance(float(fields.pop("wait")))
        observe(cast.sessions[fields.pop("who")], dependency, **fields)

    rows = _recounted(dependency)
    counted = _evidence(dependency)

    assert counted == rows
    if any(one["ok"] + one["empty"] + one["failures"] for one in slices):
        assert _counted(dependency) == rows


def test_the_sample_that_completes_the_evidence_is_itself_counted(cast):
    observe(cast.sessions[0], cast.search_api, ok=19)
    observe(cast.sessions[0], cast.search_api, failures=1)

    assert _counted(cast.search_api).judged == 20


def test_what_is_older_than_the_window_is_gone(cast, frozen_clock):
    observe(cast.sessions[0], cast.search_api, ok=4)
    frozen_clock.advance(61)
    observe(cast.sessions[0], cast.search_api, failures=1)

    for evidence in (_counted(cast.search_api), _recounted(cast.search_api)):
        assert (evidence.ok, evidence.failures) == (0, 1)


def test_rejected_arguments_are_in_no_sum_and_leave_the_streak_alone(cast):
    observe(cast.sessions[0], cast.search_api, failures=2)
    observe(cast.sessions[1], cast.search_api, semantic=5)

    for evidence in (_evidence(cast.search_api), _recounted(cast.search_api)):
        assert (evidence.judged, evidence.streak) == (2, 2)


def test_a_success_ends_the_streak_and_forgets_who_was_in_it(cast, every_part):
    observe(cast.sessions[0], cast.search_api, failures=3)
    observe(cast.sessions[1], cast.search_api, ok=1, failures=2, streak=2)

    for evidence in (_counted(cast.search_api), _recounted(cast.search_api)):
        assert evidence.streak == 2
        assert [own.worker for own in evidence.workers if own.last_failed] == ["pod-2"]


def test_each_generation_starts_clean(cast):
    observe(cast.sessions[0], cast.search_api, failures=9)
    observe(cast.sessions[0], cast.search_api, failures=1, generation=1)

    for evidence in (_counted(cast.search_api, generation=1), _recounted(cast.search_api, generation=1)):
        assert (evidence.failures, evidence.streak) == (1, 1)


def test_parts_by_worker_are_read_only_when_a_rule_may_hold(cast):
    observe(cast.sessions[0], cast.search_api, ok=30)
    observe(cast.sessions[0], cast.search_api, failures=1, ok=1, streak=0)
    quiet = _counted(cast.search_api, closely=False)
    observe(cast.sessions[0], cast.search_api, failures=40)
    observe(cast.sessions[1], cast.search_api, failures=9)

    assert quiet.workers == ()
    assert len(_counted(cast.search_api, closely=False).workers) == 2


def test_one_sick_worker_is_looked_for_only_closely(cast):
    observe(cast.sessions[1], cast.search_api, ok=30)
    observe(cast.sessions[0], cast.search_api, failures=5, ok=1, streak=0)

    assert _counted(cast.search_api, closely=False).workers == ()
    assert [own.failures for own in _counted(cast.search_api).workers] == [5]


def test_on_one_instance_sessions_are_the_voices(cast, every_part):
    for session in cast.sessions[1:]:
        session.delete()
    second = factories.session(cast.workers[0])
    for session in (cast.sessions[0], second):
        observe(session, cast.search_api, failures=3)

    for evidence in (_counted(cast.search_api), _recounted(cast.search_api)):
        assert {own.worker for own in evidence.voices} == {str(cast.sessions[0].pk), str(second.pk)}


@pytest.fixture
def elsewhere(cast):
    """Another agent's process on another machine, which lives and never calls search-api."""
    return factories.session(factories.worker(cast.support_key, "pod-9"))


def test_who_never_calls_a_dependency_is_no_voice_of_it(cast, every_part, elsewhere):
    """An unrelated agent beside it changes nothing for a dependency that one instance calls by several processes."""
    for session in cast.sessions[1:]:
        session.delete()
    second = factories.session(cast.workers[0])
    for session in (cast.sessions[0], second):
        observe(session, cast.search_api, failures=3)
    observe(elsewhere, cast.crm_db, ok=3)

    for evidence in (_counted(cast.search_api), _recounted(cast.search_api)):
        assert (evidence.live_voices, len(evidence.voices)) == (2, 2)


def test_a_lone_caller_is_short_of_a_quorum_however_many_live_beside_it(cast, elsewhere):
    observe(cast.sessions[0], cast.search_api, failures=5)
    observe(elsewhere, cast.crm_db, ok=3)

    for evidence in (_counted(cast.search_api), _recounted(cast.search_api)):
        assert evidence.live_voices == 1


def test_two_agents_on_one_sick_host_are_one_witness(cast, every_part):
    neighbour = factories.session(factories.worker(cast.support_key, "pod-1"))
    observe(cast.sessions[1], cast.search_api, ok=1)
    for session in (cast.sessions[0], neighbour):
        observe(session, cast.search_api, failures=6)

    for evidence in (_counted(cast.search_api), _recounted(cast.search_api)):
        assert [(own.worker, own.failures) for own in evidence.voices if own.failures] == [("pod-1", 12)]
        assert {own.worker for own in evidence.own_streaks} == {"pod-1"}
        assert evidence.live_workers == 2


def test_who_called_before_the_last_transition_is_expected_to_call_again(cast, frozen_clock):
    """Right after a close the first instance that calls is not taken for the only one."""
    observe(cast.sessions[1], cast.search_api, failures=1)
    frozen_clock.advance(40)
    observe(cast.sessions[0], cast.search_api, failures=5, generation=1)

    for evidence in (_counted(cast.search_api, generation=1), _recounted(cast.search_api, generation=1)):
        assert evidence.live_workers == 2


def test_who_called_long_ago_is_not_expected_any_more(cast, frozen_clock):
    observe(cast.sessions[1], cast.search_api, ok=1)
    frozen_clock.advance(live.LATELY_S + 1)
    Session.objects.update(last_seen_at=clock.now())
    observe(cast.sessions[0], cast.search_api, failures=5)

    for evidence in (_counted(cast.search_api), _recounted(cast.search_api)):
        assert evidence.live_workers == 1


def test_callers_that_an_emptied_store_forgot_are_read_from_the_rows(cast, frozen_clock):
    observe(cast.sessions[1], cast.search_api, failures=1)
    redis_clients.blocking().flushdb()
    frozen_clock.advance(20)
    observe(cast.sessions[0], cast.search_api, failures=5, generation=1)

    assert _counted(cast.search_api, generation=1).live_workers == 1
    assert _evidence(cast.search_api, generation=1).live_workers == 2


def test_a_quarantined_worker_is_no_voice(cast):
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, ok=1)
    cast.workers[1].quarantined_at = clock.now()
    cast.workers[1].save()
    live.forget(cast.prod.pk)

    for evidence in (_counted(cast.search_api), _recounted(cast.search_api)):
        assert evidence.live_workers == 1


def test_a_row_that_is_not_counted_is_nowhere(cast):
    observe(cast.sessions[0], cast.search_api, failures=9, counted=False)

    assert _evidence(cast.search_api).judged == _recounted(cast.search_api).judged == 0


def test_an_emptied_store_is_noticed_although_counting_went_on(cast, frozen_clock):
    observe(cast.sessions[0], cast.search_api, failures=9)
    redis_clients.blocking().flushdb()
    frozen_clock.advance(5)
    observe(cast.sessions[1], cast.search_api, failures=1)

    assert _counted(cast.search_api).failures == 1
    assert (_evidence(cast.search_api).failures, _evidence(cast.search_api).streak) == (10, 10)


def test_after_an_emptied_store_the_streak_stays_whole_beyond_the_window(cast, frozen_clock):
    observe(cast.sessions[0], cast.search_api, failures=2)
    redis_clients.blocking().flushdb()
    for _ in range(3):
        frozen_clock.advance(70)
        observe(cast.sessions[1], cast.search_api, failures=1)

    assert _evidence(cast.search_api).streak == 5


def test_the_first_counters_of_a_generation_are_trusted_at_once(cast, every_part, monkeypatch):
    observe(cast.sessions[0], cast.search_api, failures=2)
    first = _evidence(cast.search_api)
    monkeypatch.setattr(recount, "has_rows_before", None)
    monkeypatch.setattr(recount, "of_rows", None)

    assert _evidence(cast.search_api) == first


def test_rows_that_could_not_be_counted_are_not_missed_later(cast, monkeypatch, frozen_clock):
    observe(cast.sessions[0], cast.search_api, ok=1)
    monkeypatch.setattr(store, "away", lambda: True)
    observe(cast.sessions[0], cast.search_api, failures=9)
    monkeypatch.undo()
    frozen_clock.advance(1)
    observe(cast.sessions[1], cast.search_api, failures=1)

    assert _evidence(cast.search_api).failures == 10


def test_whoever_failed_to_count_does_not_trust_the_counters(cast, monkeypatch):
    observe(cast.sessions[0], cast.search_api, ok=1)
    monkeypatch.setattr(store, "away", lambda: True)
    observe(cast.sessions[0], cast.search_api, failures=9)
    monkeypatch.undo()

    assert _evidence(cast.search_api).failures == 9


def test_a_repeated_batch_makes_the_rows_the_truth(cast, frozen_clock):
    row = observe(cast.sessions[0], cast.search_api, failures=4, count=False)
    counters.owe([row])
    frozen_clock.advance(1)
    observe(cast.sessions[0], cast.search_api, failures=1)

    assert _evidence(cast.search_api).failures == 5


def test_another_window_length_keeps_the_samples(cast, frozen_clock):
    observe(cast.sessions[0], cast.search_api, failures=4)
    frozen_clock.advance(1)
    observe(cast.sessions[0], cast.search_api, failures=1, window_s=120)

    assert _evidence(cast.search_api, dataclasses.replace(POLICY, window_s=120)).failures == 5


def test_keys_of_a_circuit_share_a_hash_tag_and_expire(cast):
    observe(cast.sessions[0], cast.search_api, failures=1, retry_after_s=5)

    tag = f"{{{cast.prod.pk}:{cast.search_api.pk}}}"
    keys = list(redis_clients.blocking().scan_iter(f"rcl:{tag}:*"))

    assert len(keys) == 8
    assert all(redis_clients.blocking().ttl(key) > 0 for key in keys)


async def _async_count(rows):
    client = redis_clients.nonblocking()
    try:
        return await counters.count(client, rows)
    finally:
        await client.aclose()


def test_the_edge_counts_as_a_thread_does(cast):
    from asgiref.sync import async_to_sync

    rows = [
        observe(cast.sessions[0], cast.search_api, failures=2, count=False),
        observe(cast.sessions[0], cast.crm_db, ok=3, count=False),
    ]

    assert async_to_sync(_async_count)(rows)
    assert _counted(cast.search_api).failures == 2
    assert _counted(cast.crm_db).ok == 3


def _calls(command):
    return redis_clients.blocking().info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]


@pytest.mark.parametrize("by_edge", [False, True])
def test_a_batch_about_two_circuits_is_one_transaction_for_each(cast, by_edge):
    from asgiref.sync import async_to_sync

    rows = [
        observe(cast.sessions[0], cast.search_api, failures=2, count=False),
        observe(cast.sessions[0], cast.crm_db, ok=3, count=False),
        observe(cast.sessions[0], cast.search_api, ok=1, count=False),
    ]
    redis_clients.blocking().config_resetstat()

    counted = async_to_sync(_async_count)(rows) if by_edge else counters.count_blocking(redis_clients.blocking(), rows)

    assert counted
    assert (_calls("multi"), _calls("exec")) == (2, 2)
    assert (_counted(cast.search_api).judged, _counted(cast.search_api).streak) == (3, 0)
    assert _counted(cast.crm_db).ok == 3


def test_what_a_transaction_could_not_count_is_owed(cast):
    row = observe(cast.sessions[0], cast.search_api, failures=2, count=False)
    redis_clients.blocking().set(f"{_key(cast.search_api)}:s", "of another kind")

    assert not counters.count_blocking(redis_clients.blocking(), [row])
    assert counters.is_owed(_key(cast.search_api))
    store.forget()
    assert _evidence(cast.search_api).failures == 2


@pytest.mark.parametrize("by_rows", [False, True])
def test_sessions_in_a_streak_of_their_own_are_known(cast, frozen_clock, by_rows):
    """So that an outage is seen although each session's own breaker has stopped it from calling."""
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, ok=50)
        observe(session, cast.search_api, failures=6)
    observe(cast.sessions[2], cast.search_api, failures=2)

    found = _recounted(cast.search_api) if by_rows else _evidence(cast.search_api)

    assert sorted(own.length for own in found.own_streaks) == [6, 6]
    assert found.active_sessions == 3


@pytest.mark.parametrize("by_rows", [False, True])
def test_failures_of_steps_that_were_counted_before_leave_a_sessions_streak_as_it_is(cast, frozen_clock, by_rows):
    """A step's late calls come in a slice of their own, whose streak is nought."""
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, failures=6)
        observe(session, cast.search_api, failures=3, streak=0)

    found = _recounted(cast.search_api) if by_rows else _evidence(cast.search_api)

    assert sorted(own.length for own in found.own_streaks) == [6, 6]
    assert found.streak == 12 and found.failures == 18
