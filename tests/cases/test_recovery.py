"""Cases of recovery through the control plane's services: evidence in, rounds claimed and finished, time by hand."""

from __future__ import annotations

import pytest
from recloser.core.types import Verdict

from controlplane import clock
from controlplane.models import Circuit, Probe, ProbeRound
from controlplane.services import circuits, policies
from tests.controlplane.evidence.batches import observe

pytestmark = pytest.mark.django_db


@pytest.fixture
def ruled(cast):
    """Policies of search-api, one after the other."""

    def rule(**values):
        given = {"settle_s": 0, "jitter": 0, "lockout_after_s": None, **values}
        policies.publish(environment=cast.prod, level="dependency", dependency=cast.search_api, values=given,
                         reason="for the test", actor="petra", approved_by="ada", now=clock.now())  # fmt: skip

    return rule


@pytest.fixture
def probed(cast):
    """search-api has a probe of this operation."""

    def add(operation):
        Probe.objects.update_or_create(
            dependency=cast.search_api,
            defaults={"operation": operation, "spec": {}, "updated_at": clock.now(), "updated_by": "petra"},
        )

    return add


def row(cast):
    return Circuit.objects.get(dependency=cast.search_api)


def break_it(cast, **more):
    """Twenty failures from two workers."""
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, failures=10, generation=row(cast).generation, **more)
    circuits.consider(dependency_id=cast.search_api.pk, now=clock.now())


def wait_s(cast):
    return (row(cast).due_at - row(cast).changed_at).total_seconds()


def probe_when_due(cast, hand, verdict, operation="web_search"):
    """What the scheduler and a prober do: the round, and the wait that went before it."""
    waited = wait_s(cast)
    hand.advance((row(cast).due_at - clock.now()).total_seconds())
    (granted,) = circuits.claim_rounds(now=clock.now())
    circuits.finish_round(round_id=granted.pk, verdict=verdict, operation=operation, now=clock.now())
    return waited


@pytest.mark.case("B22")
def test_the_wait_between_probes_doubles_to_its_limit_and_small_again_after_a_force_close(
    cast, ruled, probed, frozen_clock
):
    ruled(cooldown_s=30, backoff=2, cooldown_max_s=240)
    probed("web_search")
    break_it(cast)

    waits = [probe_when_due(cast, frozen_clock, Verdict.BAD) for _ in range(8)]

    assert waits == [30, 60, 120, 240, 240, 240, 240, 240]
    circuits.force_close(dependency_id=cast.search_api.pk, actor="otto", reason="it is back", now=clock.now())
    break_it(cast)
    assert wait_s(cast) == 30


@pytest.mark.case("B22")
@pytest.mark.parametrize(("closed_for_s", "next_wait_s"), [(60, 120), (600, 30)])
def test_ten_minutes_closed_bring_the_wait_back(cast, ruled, probed, frozen_clock, closed_for_s, next_wait_s):
    ruled(cooldown_s=30, backoff=2, cooldown_max_s=240)
    probed("web_search")
    break_it(cast)
    for verdict in (Verdict.BAD, Verdict.BAD, Verdict.GOOD):
        probe_when_due(cast, frozen_clock, verdict)
    assert row(cast).state == "closed"

    frozen_clock.advance(closed_for_s)
    break_it(cast)

    assert wait_s(cast) == next_wait_s


@pytest.mark.case("B22")
def test_without_a_back_off_every_wait_is_the_same(cast, ruled, probed, frozen_clock):
    ruled(cooldown_s=30, backoff=1)
    probed("web_search")
    break_it(cast)

    assert {probe_when_due(cast, frozen_clock, Verdict.BAD) for _ in range(8)} == {30}


@pytest.mark.case("P06")
def test_what_quota_errors_of_search_opened_three_good_lists_do_not_close(cast, ruled, probed, frozen_clock, page):
    ruled()
    probed("list")
    break_it(cast, operation="search")

    for _ in range(3):
        probe_when_due(cast, frozen_clock, Verdict.GOOD, operation="list")

    assert row(cast).state == "open"
    assert [each.verdict for each in ProbeRound.objects.all()] == ["inconclusive"] * 3
    told = page(cast.ann, "/circuits/prod/search-api/")
    assert told.count("only search can close it") == 3
    probed("search")
    probe_when_due(cast, frozen_clock, Verdict.GOOD, operation="search")
    assert row(cast).state == "closed"
