"""Rows of long lists are kept by what they show: what changes a row changes it at once, and ages run on."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from controlplane.models import Agent, Dependency, Run, Tool, Trip
from dashboard import rows
from tests.conftest import NOON
from tests.dashboard import stage
from tests.dashboard.test_trips import trip


@pytest.fixture
def look(cast, as_):
    """`look("trips")`: the rows of the list by id, as they are sent."""
    client = as_(cast.ann)

    def read(name):
        page = client.get(reverse(f"dashboard:{name}"), {"environment": "prod"}).content.decode()
        return dict(re.findall(rf'(?s)<tr id="{name[:-1]}-([\w-]+)">(.*?)</tr>', page))

    return read


def test_rows_that_show_the_same_are_made_once(cast, look):
    trip(cast, run=uuid.uuid4())
    stage.degraded(cast.research, NOON)
    look("trips"), look("runs")
    made = rows._trip.cache_info().misses, rows._run.cache_info().misses

    look("trips"), look("runs")

    assert (rows._trip.cache_info().misses, rows._run.cache_info().misses) == made


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda cast: Trip.objects.update(false_trip_at=NOON), "false trip"),
        (lambda cast: Tool.objects.filter(name="web_search").update(name="seek"), ">seek<"),
        (lambda cast: Dependency.objects.filter(pk=cast.search_api.pk).update(slug="other-api"), "/prod/other-api/"),
        (lambda cast: Agent.objects.filter(pk=cast.research.pk).update(slug="renamed"), ">renamed<"),
        (lambda cast: Trip.objects.update(evidence={"consecutive_failures": 77}), "77 "),
    ],
)
def test_what_changes_a_trip_changes_its_row_at_once(cast, look, change, told):
    key = str(trip(cast, run=uuid.uuid4()).pk)
    assert told not in look("trips")[key]

    change(cast)

    assert told in look("trips")[key]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda run: Run.objects.filter(pk=run.pk).update(disclosed=True), ">disclosed<"),
        (lambda run: Run.objects.filter(pk=run.pk).update(steps=4321), "4321"),
        (lambda run: Run.objects.filter(pk=run.pk).update(missing=[stage.lacking("refund", "payments")]), "refund"),
        (lambda run: stage.degraded(run.agent, NOON, parent=run.pk), "a subagent did"),
        (lambda run: Agent.objects.filter(pk=run.agent_id).update(slug="renamed"), ">renamed · brief<"),
    ],
)
def test_what_changes_a_run_changes_its_row_at_once(cast, look, change, told):
    run = stage.degraded(cast.research, NOON, disclosed=False, task_kind="brief")
    assert told not in look("runs")[str(run.pk)]

    change(run)

    assert told in look("runs")[str(run.pk)]


@pytest.mark.parametrize("name", ["trips", "runs"])
def test_an_age_runs_on_in_a_row_that_is_kept(cast, look, frozen_clock, name):
    trip(cast, NOON - timedelta(seconds=5), run=uuid.uuid4())
    stage.degraded(cast.research, NOON - timedelta(seconds=5))
    (before,) = look(name).values()

    frozen_clock.advance(3600)

    (after,) = look(name).values()
    assert " data-ago>5 s ago</time>" in before
    assert after == before.replace("5 s ago", "60 min ago")


def test_text_that_looks_like_the_place_of_an_age_is_only_text(cast, look):
    run = stage.degraded(cast.research, NOON - timedelta(seconds=5), task_kind="<!--age--><script>x</script>")

    row = look("runs")[str(run.pk)]

    assert "&lt;!--age--&gt;&lt;script&gt;" in row
    assert row.count("<time") == 1 and "5 s ago</time>" in row
