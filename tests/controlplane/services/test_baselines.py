"""What a step of a healthy run costs: taken from healthy runs only, told once there are thirty, and told seldom."""

import json
import uuid
from datetime import timedelta

import pytest

from controlplane.delivery import documents, versions
from controlplane.models import Baseline, Run, Trip, Worker
from controlplane.services import baselines
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return factories.cast()


def ran(cast, times=30, **more):
    """Healthy runs of ten steps that cost 1,000 tokens and 0.02 each."""
    fields = {
        "environment": cast.prod, "agent": cast.research, "revision": 2, "task_kind": "brief", "status": "finished",
        "started_at": NOON - timedelta(seconds=60), "reported_at": NOON, "steps": 10, "tokens": 10_000, "cost": 0.2,
    }  # fmt: skip
    return Run.objects.bulk_create(Run(id=uuid.uuid4(), **{**fields, **more}) for _ in range(times))


def told(cast, agent=None):
    """The baselines in an agent's config document."""
    agent = agent or cast.research
    return json.loads(documents.config(agent.environment_id, agent.pk).body)["baselines"]


def refreshed(cast, later_s=0):
    """What a look at that moment told, and the config version after it."""
    found = baselines.refresh(now=NOON + timedelta(seconds=later_s))
    return found, versions.of(cast.prod.pk).config


def test_thirty_healthy_runs_make_a_baseline_and_agents_hear_of_it(cast):
    before = versions.of(cast.prod.pk).config
    ran(cast)

    assert refreshed(cast) == (1, before + 1)
    assert told(cast) == {"brief": {"tokens_per_step": 1000.0, "cost_per_step": 0.02}}


def test_twenty_nine_are_kept_count_of_and_told_nobody(cast):
    before = versions.of(cast.prod.pk).config
    ran(cast, 29)

    assert refreshed(cast) == (0, before)
    assert told(cast) == {}
    assert Baseline.objects.get().runs == 29

    ran(cast, 1, reported_at=NOON + timedelta(seconds=60))
    assert refreshed(cast, 61)[0] == 1


def test_it_is_of_one_agent_and_one_kind_of_task(cast):
    ran(cast)
    ran(cast, task_kind="review", tokens=50_000)
    ran(cast, 29, agent=cast.support, tokens=70_000)
    ran(cast, task_kind="")
    refreshed(cast)

    assert told(cast) == {
        "brief": {"tokens_per_step": 1000.0, "cost_per_step": 0.02},
        "review": {"tokens_per_step": 5000.0, "cost_per_step": 0.02},
    }
    assert told(cast, cast.support) == {}


@pytest.mark.parametrize(
    "sick",
    [
        {"degraded": True}, {"status": "ended", "end_cause": "step_limit"}, {"status": "abandoned"},
        {"status": "running"}, {"steps": 0}, {"tokens": 0, "cost": 0},
    ],
    ids=str,
)  # fmt: skip
def test_only_healthy_runs_count(cast, sick):
    ran(cast, 29)
    ran(cast, 20, **sick)
    refreshed(cast)

    assert told(cast) == {}


def test_a_run_in_which_something_tripped_is_not_healthy(cast):
    run = ran(cast)[0]
    Trip.objects.create(
        environment=cast.prod, scope="run", signal="budget_burn", run=run.pk, delivery="enforce", evidence={},
        threshold={}, at=NOON, received_at=NOON,
    )  # fmt: skip
    refreshed(cast)

    assert told(cast) == {}


def test_runs_of_a_quarantined_worker_do_not_count(cast):
    worker = cast.sessions[0].worker
    ran(cast, worker=worker)
    Worker.objects.filter(pk=worker.pk).update(quarantined_at=NOON)
    refreshed(cast)

    assert told(cast) == {}


def test_a_baseline_that_has_hardly_moved_is_not_told_again(cast):
    ran(cast)
    _, version = refreshed(cast)
    ran(cast, 90, tokens=10_900, started_at=NOON, reported_at=NOON + timedelta(seconds=60))

    assert refreshed(cast, 61) == (0, version)
    assert told(cast)["brief"]["tokens_per_step"] == 1000.0

    ran(cast, 200, tokens=15_000, started_at=NOON + timedelta(seconds=70), reported_at=NOON + timedelta(seconds=99))
    assert refreshed(cast, 100) == (1, version + 1)
    assert told(cast)["brief"]["tokens_per_step"] == 1500.0


def test_kinds_without_news_are_left_alone_and_nothing_is_locked_for_them(cast, django_assert_num_queries):
    ran(cast)
    refreshed(cast)
    refreshed(cast, 3600)
    with django_assert_num_queries(2):
        assert baselines.refresh(now=NOON + timedelta(hours=2)) == 0


def test_one_key_cannot_invent_kinds_of_task_without_end(cast, monkeypatch):
    monkeypatch.setattr(baselines, "MOST_KINDS", 2)
    ran(cast, 31)
    for number in range(3):
        ran(cast, 30, task_kind=f"invented {number}")
    refreshed(cast)
    ran(cast, 30, task_kind="brief", reported_at=NOON + timedelta(seconds=60))
    refreshed(cast, 61)

    assert sorted(told(cast)) == ["brief", "invented 0"]
    assert Baseline.objects.get(task_kind="brief").runs == 61


def test_only_the_latest_two_hundred_count(cast):
    ran(cast, 300, tokens=90_000)
    ran(cast, 200, started_at=NOON)
    refreshed(cast)

    assert told(cast)["brief"]["tokens_per_step"] == 1000.0


def test_costs_that_nobody_told_are_none(cast):
    ran(cast, cost=0)
    refreshed(cast)

    assert told(cast) == {"brief": {"tokens_per_step": 1000.0, "cost_per_step": None}}


def test_what_has_not_run_for_as_long_as_runs_are_kept_is_forgotten(cast, settings):
    settings.KEEP_RUNS_DAYS = 30
    ran(cast)
    refreshed(cast)

    assert baselines.prune(now=NOON + timedelta(days=29)) == 0
    assert baselines.prune(now=NOON + timedelta(days=31)) == 1
