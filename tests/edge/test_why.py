"""GET why: what took a tool from a run, for the key's own agent; for a browser, the page."""

import uuid

import pytest
from django.conf import settings

from controlplane.models import Run
from tests.edge import harness

RUN = "0b6a1a52-7d0e-4d62-9d0c-3f0d6a1c2b11"
LACK = {
    "tool": "web_search", "dependency": "search-api", "cause": "consecutive_failures", "scope": "run", "step": 9,
    "refused": 2,
}  # fmt: skip


@pytest.fixture
def reported(agent):
    agent.send(
        harness.observation(),
        trips=[harness.trip(run=RUN)],
        runs=[harness.run(id=RUN, tools=["web_search", "db_lookup"], missing=[LACK])],
    )


def test_a_missing_tool_has_its_trip_with_the_evidence_against_the_threshold(agent, reported):
    told = agent.get(f"why?run={RUN}&tool=web_search").json()

    assert (told["answer"], told["run"], told["tool"]) == ("missing", RUN, "web_search")
    assert told["lack"] == {"dependency": "search-api", "cause": "consecutive_failures", "scope": "run", "step": 9,
                            "replaced_by": None, "refused": 2}  # fmt: skip
    assert told["trip"]["evidence"] == told["trip"]["threshold"] == {"consecutive_failures": 5}
    assert told["hold"] is None
    assert told["page"] == f"{settings.PUBLIC_URL}/runs/{RUN}/why/web_search/"


@pytest.mark.parametrize(("tool", "answer"), [("db_lookup", "there"), ("web_serch", "never_declared")])
def test_a_tool_that_is_not_missing_is_said_not_to_be(agent, reported, tool, answer):
    told = agent.get(f"why?run={RUN}&tool={tool}").json()

    assert (told["answer"], told["lack"], told["trip"]) == (answer, None, None)


def test_a_browser_is_led_to_the_page_and_learns_nothing_else(edge, reported):
    found = edge.request("GET", f"/agent/v1/why?run={RUN}&tool=web_search", headers={"Accept": "text/html"})

    assert (found.status_code, found.content) == (303, b"")
    assert found.headers["Location"] == f"{settings.PUBLIC_URL}/runs/{RUN}/why/web_search/"


def test_without_a_key_there_is_no_answer(edge, reported):
    assert edge.request("GET", f"/agent/v1/why?run={RUN}&tool=web_search").status_code == 401


def test_a_run_of_another_agent_is_none(agent, reported, staging):
    Run.objects.filter(pk=RUN).update(agent_id=Run.objects.get(pk=RUN).agent_id + 1)

    refused = agent.get(f"why?run={RUN}&tool=web_search")

    assert (refused.status_code, refused.json()["error"]["field"]) == (404, "run")


def test_a_run_of_another_environment_is_none(agent, reported, staging):
    Run.objects.filter(pk=RUN).update(environment=staging)

    assert agent.get(f"why?run={RUN}&tool=web_search").status_code == 404


def test_a_run_that_nobody_knows_is_none(agent):
    assert agent.get(f"why?run={uuid.uuid4()}&tool=web_search").status_code == 404


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "run"),
        ("run=7&tool=x", "run"),
        (f"run={RUN}", "tool"),
        (f"run={RUN}&tool=", "tool"),
        (f"run={RUN}&tool=%00", "tool"),
        (f"run={RUN}&tool={'x' * 201}", "tool"),
        (f"run={RUN}&tool=a&tool=b", "tool"),
        ("&".join(f"a{n}=1" for n in range(50)), "run"),
    ],
)
def test_a_question_that_is_none_says_how_to_ask(agent, query, field):
    refused = agent.get(f"why?{query}")

    assert refused.status_code == 422
    assert refused.json()["error"]["field"] == field


def test_what_a_child_lacked_is_stored_with_the_childs_id(agent):
    child = str(uuid.uuid4())
    agent.send(runs=[harness.run(id=RUN, missing=[{**LACK, "run": child}])])

    assert Run.objects.get(pk=RUN).missing[0]["run"] == child
    told = agent.get(f"why?run={RUN}&tool=web_search").json()
    assert (told["answer"], told["children"]) == ("there", [child])


def test_what_a_run_passes_on_is_kept_whatever_comes_after(agent):
    agent.send(runs=[harness.run(id=RUN, revision=1, handover="escalation")])
    agent.send(runs=[harness.run(id=RUN, revision=2)])

    assert Run.objects.get(pk=RUN).handover == "escalation"
    assert agent.post(agent.batch(runs=[harness.run(handover="war")])).status_code == 422
