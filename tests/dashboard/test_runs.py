"""Runs: lists that page by keys, and one run in full."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from controlplane.models import Trip
from controlplane.selectors import runs as selector
from tests.conftest import NOON
from tests.dashboard import stage


def listed(client, **query):
    return client.get(reverse("dashboard:runs"), query)


def found(answer):
    return [run.pk for run in answer.context["found"].runs]


def test_degraded_runs_come_first_and_the_rest_is_a_tab_away(cast, as_):
    whole, lacking = stage.run(cast.research, NOON), stage.degraded(cast.research, NOON, disclosed=True)
    client = as_(cast.ann)

    assert found(listed(client)) == [lacking.pk]
    assert set(found(listed(client, show="all"))) == {whole.pk, lacking.pk}


def test_undisclosed_runs_are_those_that_kept_silent(cast, as_):
    stage.degraded(cast.research, NOON, disclosed=True)
    stage.degraded(cast.research, NOON, disclosed=None, status="running", ended_at=None)
    silent = stage.degraded(cast.research, NOON, disclosed=False)

    assert found(listed(as_(cast.ann), show="undisclosed")) == [silent.pk]


def test_filters_are_in_the_address(cast, as_):
    mine = stage.degraded(cast.support, NOON, missing=[stage.lacking("refund", "payments")])
    stage.degraded(cast.research, NOON)
    client = as_(cast.ann)

    assert found(listed(client, agent="support")) == [mine.pk]
    assert found(listed(client, dependency="payments")) == [mine.pk]
    assert found(listed(client, status="running")) == []


def test_pages_follow_keys_and_miss_nothing(cast, as_, monkeypatch):
    monkeypatch.setattr(selector.runs, "__kwdefaults__", {"after": None, "limit": 3})
    made = [stage.degraded(cast.research, NOON - timedelta(seconds=number // 2)).pk for number in range(8)]
    client, seen, address = as_(cast.ann), [], reverse("dashboard:runs")

    while address:
        answer = client.get(address)
        seen += found(answer)
        address = answer.context["next"] and reverse("dashboard:runs") + answer.context["next"]

    assert sorted(seen) == sorted(made)
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize(
    "query",
    [{"before": "yesterday", "id": "x"}, {"before": "2026-06-01T12:00:00", "id": str(uuid.uuid4())}, {"show": "every"},
     {"status": "asleep"}, {"dependency": "a\x00b"}, {"agent": "' OR 1=1"}],
)  # fmt: skip
def test_a_damaged_address_still_shows_a_list(cast, as_, query):
    assert listed(as_(cast.ann), **query).status_code == 200


def test_nothing_leaks_from_another_environment(cast, as_):
    stage.degraded(cast.research, NOON)

    assert found(listed(as_(cast.ann), environment="staging", show="all")) == []


def test_the_run_page_tells_what_it_lacked_and_whether_it_said_so(cast, as_):
    run = stage.degraded(cast.research, NOON, disclosed=False)
    Trip.objects.create(environment=cast.prod, scope="run", signal="consecutive_failures",
                        tool=cast.tools["web_search"], run=run.pk, step=4, action="remove_tool", delivery="enforce",
                        at=NOON, received_at=NOON,
                        evidence={"consecutive_failures": 5}, threshold={"consecutive_failures": 5})  # fmt: skip
    client = as_(cast.ann)

    text = client.get(reverse("dashboard:run", args=[run.pk])).content.decode()

    assert "from step 4 on" in text
    assert "Nothing replaced it." in text
    assert "does not say that a tool was missing" in text
    assert "5 failures in a row; trips at 5; the tool was withdrawn" in text


def test_time_and_money_stand_apart(cast, as_):
    run = stage.run(cast.research, NOON)

    text = as_(cast.ann).get(reverse("dashboard:run", args=[run.pk])).content.decode()

    time, money = re.findall(r'<section class="card figure".*?</section>', text, re.DOTALL)
    assert "61 s" in time and "28 s" in time and "0.41" not in time
    assert "0.41" in money and "18 230" in money and " s<" not in money


def test_parents_and_children_are_linked(cast, as_):
    parent = stage.run(cast.support, NOON)
    child = stage.run(cast.research, NOON, parent=parent.pk)
    client = as_(cast.ann)

    assert str(child.pk) in client.get(reverse("dashboard:run", args=[parent.pk])).content.decode()
    assert str(parent.pk) in client.get(reverse("dashboard:run", args=[child.pk])).content.decode()


def test_an_unknown_run_is_an_error(cast, as_):
    answer = as_(cast.ann).get(reverse("dashboard:run", args=[uuid.uuid4()]))

    assert answer.status_code == 404
    assert "no such run" in answer.content.decode()


HOSTILE = "</script><img src=x onerror=alert(1)>\"'&{{7*7}}"


def test_whatever_an_agent_sends_is_text(cast, as_):
    run = stage.degraded(
        cast.research, NOON, disclosed=False, task_kind=HOSTILE, tools=[HOSTILE, 7, None], disclosure=HOSTILE,
        end_cause="x<b>y",
        missing=[stage.lacking(HOSTILE * 50, HOSTILE, cause=HOSTILE, replaced_by=HOSTILE), "no entry"],
    )  # fmt: skip
    run.step_log.lines = [
        {"step": HOSTILE, "tool": HOSTILE, "outcome": HOSTILE, "ms": "fast", "args": HOSTILE},
        "no line",
    ]
    run.step_log.save()
    client = as_(cast.ann)

    for answer in (listed(client), client.get(reverse("dashboard:run", args=[run.pk])), client.get("/")):
        text = answer.content.decode()
        assert answer.status_code == 200
        assert "<img src=x" not in text
        assert "x<b>y" not in text
    assert "&lt;img src=x" in text or "&lt;img src=x" in listed(client).content.decode()


def test_the_number_of_queries_does_not_grow_with_the_list(cast, as_, django_assert_num_queries):
    for number in range(40):
        stage.degraded(cast.research, NOON - timedelta(seconds=number))
    client = as_(cast.ann)

    with django_assert_num_queries(7):
        listed(client)
