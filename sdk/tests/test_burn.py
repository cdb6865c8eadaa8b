"""Budget burn: what a healthy run spends comes with the config, and a run that spends far more hears of it."""

from __future__ import annotations

import math

import pytest
from conftest import until
from recloser.config_sync import parse_config
from recloser.errors import BadDocument
from recloser.testing import config_document

HEALTHY = {"brief": {"tokens_per_step": 1000.0, "cost_per_step": None}}


@pytest.fixture
def client(plane, connect):
    """A client whose config tells what a healthy run of the kind `brief` spends."""
    plane.config = {**plane.config, "baselines": HEALTHY}
    client = connect()
    assert until(lambda: client.documents.snapshot.config.baselines)
    return client


def spend(run, tokens, steps=3):
    for _ in range(steps):
        run.step()
        run.used(tokens=tokens)


def burnt(plane):
    return [trip for trip in plane.stored("trips") if trip["signal"] == "budget_burn"]


def test_a_run_that_spends_three_times_as_much_trips_once_and_goes_on(plane, client):
    with client.run("brief") as run:
        spend(run, 4000)
        run.step()
        assert "budget" in run.notice() or "spen" in run.notice()
        spend(run, 4000, steps=2)
        assert run.end_cause is None
    client.flush()
    (trip,) = until(lambda: burnt(plane))
    assert (trip["action"], trip["tool"], trip["step"]) == ("advise", None, 3)
    assert (trip["evidence"], trip["threshold"]) == ({"budget_burn": 4.0}, {"budget_burn": 3.0})


@pytest.mark.parametrize("kind", ["review", None])
def test_a_run_of_another_kind_or_of_none_has_nothing_to_be_compared_with(plane, client, kind):
    with client.run(kind) as run:
        spend(run, 90_000)
    client.flush()
    assert burnt(plane) == []


def test_a_healthy_run_is_left_alone(plane, client):
    with client.run("brief") as run:
        spend(run, 2900, steps=9)
        assert run.notice() is None
    client.flush()
    assert burnt(plane) == []


def test_a_document_of_an_older_server_tells_no_baseline():
    assert parse_config(config_document()).baselines == {}


@pytest.mark.parametrize(
    "baselines", [[], {"brief": 3}, {"brief": {"tokens_per_step": "many"}}, {"brief": {"tokens_per_step": math.nan}},
                  {"brief": {"cost_per_step": -1}}],
)  # fmt: skip
def test_a_baseline_that_is_none_is_never_applied(baselines):
    with pytest.raises(BadDocument):
        parse_config({**config_document(), "baselines": baselines})
