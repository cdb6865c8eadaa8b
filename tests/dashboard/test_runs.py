"""Runs: lists that page by keys, and one run in full."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta

import pytest
from django.urls import reverse
from recloser.core.types import Cause, Mode, State

from controlplane.models import Baseline, Run, Trip
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

    with django_assert_num_queries(8):
        listed(client)


def test_more_filters_narrow_the_list(cast, as_):
    one = stage.degraded(cast.research, NOON, task_kind="brief", missing=[stage.lacking("refund", "payments")])
    two = stage.degraded(cast.research, NOON - timedelta(hours=3), task_kind="review")
    client = as_(cast.ann)

    assert found(listed(client, task_kind="review")) == [two.pk]
    assert found(listed(client, tool="refund")) == [one.pk]
    assert found(listed(client, within="1h")) == [one.pk]
    assert found(listed(client, to="2026-06-01T10:00")) == [two.pk]
    assert found(listed(client, **{"from": "2026-06-01T10:00"})) == [one.pk]
    assert listed(client).context["task_kinds"] == ["brief", "review"]


def test_filters_stay_in_the_address_of_tabs_and_pages(cast, as_):
    _, address, _ = listed(as_(cast.ann), tool="refund", within="1h").context["tabs"][-1]

    assert "tool=refund" in address and "within=1h" in address and "show=all" in address


def test_a_child_that_went_without_is_seen_at_its_parent(cast, as_):
    parent = stage.run(cast.support, NOON - timedelta(seconds=5))
    child = stage.run(cast.research, NOON - timedelta(seconds=4), parent=parent.pk)
    grandchild = stage.degraded(cast.research, NOON, parent=child.pk)
    client = as_(cast.ann)

    rows = {run.pk: run for run in listed(client, show="all").context["found"].runs}
    page = client.get(reverse("dashboard:run", args=[parent.pk])).context["page"]

    assert rows[child.pk].child_degraded and not rows[grandchild.pk].child_degraded
    assert [(one.run.pk, one.depth) for one in page.kin] == [(parent.pk, 0), (child.pk, 1), (grandchild.pk, 2)]
    assert page.degraded_below == [grandchild]
    assert client.get(reverse("dashboard:run", args=[child.pk])).context["page"].below == [grandchild]


def test_siblings_stand_by_age_below_their_parent(cast, as_):
    parent = stage.run(cast.support, NOON - timedelta(seconds=9))
    younger = stage.run(cast.research, NOON, parent=parent.pk)
    older = stage.run(cast.research, NOON - timedelta(seconds=8), parent=parent.pk)
    niece = stage.run(cast.research, NOON - timedelta(seconds=1), parent=older.pk)

    assert [one.run.pk for one in selector.family(younger)] == [parent.pk, older.pk, niece.pk, younger.pk]


def test_a_family_in_a_circle_ends(cast):
    one, two = stage.run(cast.research, NOON), stage.run(cast.research, NOON)
    for run, parent in ((one, two), (two, one)):
        run.parent = parent.pk
        run.save()

    assert {kin.run.pk for kin in selector.family(one)} == {one.pk, two.pk}


def test_kin_of_another_environment_stay_out_of_sight(cast, as_):
    stranger = stage.degraded(cast.staging_research, NOON)
    run = stage.run(cast.research, NOON, parent=stranger.pk)
    stage.degraded(cast.staging_research, NOON, parent=run.pk)

    assert as_(cast.ann).get(reverse("dashboard:run", args=[run.pk])).context["page"].kin == []


def line(step, args, result="r", outcome="ok"):
    return {"step": step, "call": 0, "tool": "web_search", "args": args, "result": result, "outcome": outcome,
            "attempts": 1, "ms": 9.0}  # fmt: skip


def test_calls_stand_at_their_step_and_repeats_share_a_letter(cast, as_):
    run = stage.degraded(cast.research, NOON)
    run.step_log.lines = [line(1, "aa", "r1"), line(1, "bb", "r2"), line(2, "aa", "r3"), line(3, "aa", "r3")]
    run.step_log.save()

    steps = as_(cast.ann).get(reverse("dashboard:run", args=[run.pk])).context["page"].steps

    assert [(step.number, len(step.calls)) for step in steps] == [(1, 2), (2, 1), (3, 1), (4, 0)]
    calls = [call for step in steps for call in step.calls]
    assert [(call.args_mark, call.args_times) for call in calls] == [("A", 3), ("", 1), ("A", 3), ("A", 3)]
    assert [call.result_mark for call in calls] == ["", "", "A", "A"]


def test_trips_and_losses_stand_at_their_step(cast, as_):
    run = stage.degraded(cast.research, NOON)
    made = tripped(cast, run)

    steps = as_(cast.ann).get(reverse("dashboard:run", args=[run.pk])).context["page"].steps

    fourth = next(step for step in steps if step.number == 4)
    assert fourth.trips == [made]
    assert [one["tool"] for one in fourth.gone] == ["web_search"]


def tripped(cast, run, **more):
    return Trip.objects.create(
        environment=cast.prod, scope="run", signal="consecutive_failures", tool=cast.tools["web_search"],
        dependency=cast.search_api, run=run.pk, step=4, action="remove_tool", delivery="enforce", at=NOON,
        received_at=NOON, evidence={"consecutive_failures": 5}, threshold={"consecutive_failures": 5}, **more,
    )  # fmt: skip


def test_what_the_model_was_told_names_the_tool_and_invites_no_retry(cast, as_):
    run = stage.degraded(cast.research, NOON)

    notice = as_(cast.ann).get(reverse("dashboard:run", args=[run.pk])).context["notice"]

    assert notice.startswith("Out of service for the rest of this task")
    assert "- web_search: failing." in notice


def why(client, run, tool="web_search"):
    return client.get(reverse("dashboard:why", args=[run.pk, tool]))


def text_of(answer):
    return " ".join(re.sub(r"<[^>]+>", "", answer.content.decode()).split())


def test_why_is_my_tool_missing_the_run_took_it(cast, as_):
    run = stage.degraded(
        cast.research, NOON, missing=[stage.lacking("web_search", "search-api", scope="run",
                                                    cause="consecutive_failures", replaced_by="doc_store")],
    )  # fmt: skip
    made = tripped(cast, run)
    answer = why(as_(cast.ann), run)

    assert answer.context["why"].trip == made
    assert "This run&#x27;s own breaker took it away: 5 failures in a row; trips at 5." in text_of(answer)
    assert "doc_store stood in for it." in text_of(answer)


def test_why_is_my_tool_missing_the_circuit_was_open(cast, as_):
    stage.opened(cast.search_api, NOON - timedelta(minutes=2))
    run = stage.degraded(cast.research, NOON, missing=[stage.lacking("web_search", "search-api", step=None)])

    said = text_of(why(as_(cast.ann), run))

    assert "The circuit of search-api was open for the whole fleet: 7 of 9 calls failed in 60 s" in said
    assert "gone before the run began" in said


def test_why_is_my_tool_missing_a_person_held_it_open(cast, as_):
    stage.move(cast.search_api, NOON - timedelta(minutes=2), mode=Mode.FORCED_OPEN, state=State.OPEN,
               cause=Cause.OPERATOR, actor="otto", reason="vendor's maintenance")  # fmt: skip
    run = stage.degraded(cast.research, NOON, missing=[stage.lacking("web_search", "search-api", cause="operator")])

    said = text_of(why(as_(cast.ann), run))

    assert "otto held search-api open, so every run went without it." in said
    assert "vendor&#x27;s maintenance" in said


def test_why_is_my_tool_missing_a_later_trip_is_not_the_cause(cast, as_):
    run = stage.degraded(cast.research, NOON - timedelta(hours=1))
    stage.opened(cast.search_api, NOON)

    assert why(as_(cast.ann), run).context["why"].trip is None


def test_why_is_my_tool_missing_it_was_not(cast, as_):
    run = stage.run(cast.research, NOON)
    client = as_(cast.ann)

    assert "It was not missing" in text_of(why(client, run))
    assert "This run never declared web_serch" in text_of(why(client, run, "web_serch"))
    assert "no tool of that name is known in prod" in text_of(why(client, run, "web_serch"))


def test_why_costs_a_bounded_number_of_queries(cast, as_, django_assert_num_queries):
    stage.opened(cast.search_api, NOON - timedelta(minutes=2))
    run = stage.degraded(cast.research, NOON)
    client = as_(cast.ann)

    with django_assert_num_queries(10):
        why(client, run)


def test_a_run_page_costs_a_bounded_number_of_queries(cast, as_, django_assert_num_queries):
    parent = stage.run(cast.support, NOON)
    run = stage.degraded(cast.research, NOON, parent=parent.pk)
    for _ in range(20):
        tripped(cast, run)
        stage.degraded(cast.research, NOON, parent=run.pk)
    client = as_(cast.ann)

    with django_assert_num_queries(11):
        client.get(reverse("dashboard:run", args=[run.pk]))


def test_what_a_subagent_lacked_stands_on_the_parents_page_and_leads_to_its_own(cast, as_):
    parent = stage.degraded(
        cast.research, NOON, missing=[{**stage.lacking("web_search", "search-api"), "run": str(uuid.uuid4())}]
    )
    child = stage.degraded(cast.research, NOON, parent=parent.pk, missing=[stage.lacking("news_search", "search-api")])

    page = as_(cast.ann).get(reverse("dashboard:run", args=[parent.pk]))

    below = page.context["page"].lacked_below
    assert [(one["tool"], one["run"]) for one in below] == [
        ("web_search", parent.missing[0]["run"]),
        ("news_search", str(child.pk)),
    ]
    assert reverse("dashboard:why", args=[child.pk, "news_search"]) in page.content.decode()
    assert "Nothing: every declared tool was there at every step." in text_of(page)


def test_why_leads_on_to_the_subagent_that_lacked_it(cast, as_):
    child = str(uuid.uuid4())
    run = stage.degraded(
        cast.research, NOON, tools=["web_search"], missing=[{**stage.lacking("web_search", "search-api"), "run": child}]
    )

    answer = why(as_(cast.ann), run)

    assert "missing in a subagent" in text_of(answer)
    assert reverse("dashboard:why", args=[child, "web_search"]) in answer.content.decode()


def test_why_shows_the_address_that_the_sdk_prints(cast, as_):
    run = stage.degraded(cast.research, NOON, missing=[stage.lacking("web_search", "search-api")])

    assert f"/agent/v1/why?run={run.pk}&amp;tool=web_search" in why(as_(cast.ann), run).content.decode()


@pytest.mark.parametrize(("handover", "said"), [("question", "how to go on"), ("escalation", "a person has to do")])
def test_what_a_run_passed_on_is_on_its_page(cast, as_, handover, said):
    run = stage.degraded(cast.research, NOON, handover=handover, end_cause="no_viable_path", status="ended")

    page = text_of(as_(cast.ann).get(reverse("dashboard:run", args=[run.pk])))

    assert said in page
    assert "ended: no way on" in page


def test_a_run_is_held_against_healthy_runs_of_its_kind_once_there_are_thirty(cast, as_):
    client = as_(cast.ann)
    run = stage.run(cast.research, NOON, steps=10, tokens=52_000, cost=0.4)

    def said():
        return " ".join(client.get(reverse("dashboard:run", args=[run.pk])).content.decode().split())

    assert "A step took 5 200 tokens and cost 0.0400." in said()
    assert "Not compared yet: that takes 30 more healthy runs of this kind." in said()
    known = Baseline.objects.create(
        environment=cast.prod, agent=cast.research, task_kind="brief", runs=29, tokens_per_step=1300.0, looked_at=NOON
    )
    assert "that takes 1 more healthy run of this kind" in said()
    Baseline.objects.filter(pk=known.pk).update(runs=200)
    assert "In healthy runs of this kind: 1 300 tokens." in said()
    Run.objects.filter(pk=run.pk).update(task_kind="")
    assert "it is compared with no other run" in said()
