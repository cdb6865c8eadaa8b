"""Redis is an accelerator: killed in the middle of an outage, circuits still open, are probed and close."""

import pytest
from recloser.core.types import Verdict

from controlplane import clock
from controlplane.evidence import store
from controlplane.models import Circuit, Outage, Probe
from controlplane.services import circuits, policies
from tests import factories
from tests.controlplane.evidence.batches import observe
from tests.servers import servers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cast(frozen_clock):
    store.forget()
    made = factories.cast()
    Probe.objects.create(
        dependency=made.search_api, operation="web_search", spec={}, updated_at=clock.now(), updated_by="petra"
    )
    policies.publish(
        environment=made.prod,
        level="environment",
        values={"circuit": {"jitter": 0}},
        reason="for the test",
        actor="petra",
        now=clock.now(),
    )
    return made


@pytest.fixture
def killed_redis():
    """Kill it when asked; it is back, empty, after the test."""
    try:
        yield servers.kill_redis
    finally:
        if not servers.valkey.alive():
            servers.start_redis()
        store.forget()


def _consider(dependency):
    return circuits.consider(dependency_id=dependency.pk, now=clock.now())


def _state(dependency):
    return Circuit.objects.get(dependency=dependency).state


def _fail(cast, dependency, generation=0, each=10):
    for session in cast.sessions[:2]:
        observe(session, dependency, failures=each, generation=generation, operation="")


def _probed(verdict, frozen_clock):
    frozen_clock.advance(61)
    (granted,) = circuits.claim_rounds(now=clock.now())
    return circuits.finish_round(round_id=granted.pk, verdict=verdict, operation="web_search", now=clock.now())


def test_killed_between_the_evidence_and_its_settling_it_still_opens_probes_and_closes(
    cast, frozen_clock, killed_redis
):
    _fail(cast, cast.search_api)
    assert _consider(cast.search_api).suspected
    killed_redis()
    frozen_clock.advance(0.5)

    assert _consider(cast.search_api).opened
    assert _probed(Verdict.BAD, frozen_clock) and _state(cast.search_api) == "open"
    assert _probed(Verdict.GOOD, frozen_clock) and _state(cast.search_api) == "closed"
    assert Outage.objects.get().ended_at is not None


def test_evidence_that_arrives_while_it_is_away_opens_too(cast, frozen_clock, killed_redis):
    _fail(cast, cast.crm_db, each=6)
    killed_redis()
    _fail(cast, cast.crm_db, each=4)

    assert _consider(cast.crm_db).suspected
    frozen_clock.advance(0.5)
    assert _consider(cast.crm_db).opened


def test_nothing_that_is_open_closes_because_redis_forgot(cast, frozen_clock, killed_redis):
    _fail(cast, cast.search_api)
    _consider(cast.search_api)
    frozen_clock.advance(0.5)
    _consider(cast.search_api)
    killed_redis()
    servers.start_redis()
    store.forget()

    frozen_clock.advance(300)
    circuits.sweep_due(now=clock.now())
    assert _consider(cast.search_api).state == "open"


def test_back_and_empty_its_counters_are_not_taken_for_the_window(cast, frozen_clock, killed_redis):
    _fail(cast, cast.search_api, each=9)
    killed_redis()
    servers.start_redis()
    store.forget()
    frozen_clock.advance(1)
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, failures=1, operation="")

    assert _consider(cast.search_api).suspected


def test_nobody_waits_for_it_twice(cast, frozen_clock, killed_redis, monkeypatch):
    killed_redis()
    _fail(cast, cast.search_api)
    assert store.away()
    monkeypatch.setattr("controlplane.redis_clients.blocking", None)

    assert _consider(cast.search_api).suspected
