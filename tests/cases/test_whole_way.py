"""Cases that take the whole way: agents with the SDK, a real server, the store, and the page that a person reads."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane import clock
from controlplane.evidence import window
from controlplane.evidence.counters import Key
from controlplane.models import Circuit, Run
from controlplane.selectors import policies as resolved
from controlplane.services import circuits, policies
from sdk.tests.relays import HoldingProxy
from tests.edge.harness import until

LONG_S = 3600


class Answer(Exception):
    """What an HTTP client raises: the vendor's status and words, and how often it asked."""

    def __init__(self, status_code, text="", attempts=1):
        super().__init__(text)
        self.status_code = status_code
        self.attempts = attempts


def answering(*given, **more):
    def tool(**_):
        raise Answer(*given, **more)

    return tool


def circuit(dependency):
    return Circuit.objects.get(dependency=dependency)


def calls_in_window(dependency):
    """What the shared window holds: the sample of the failure rate."""
    row = circuit(dependency)
    key = Key(row.environment_id, dependency.pk, row.generation)
    policy = resolved.of_dependency(dependency).policy
    return window.evidence(key, policy, clock.now(), begun_at=None)


@pytest.mark.case("B23")
def test_twenty_requests_of_four_calls_are_four_failures_and_the_fifth_call_opens(fleet, agent, page):
    client = agent("pod-1")
    with client.run("brief") as run:
        for k in range(5):
            assert "web_search" not in (run.notice() or ""), f"withdrawn after {k} calls"
            run.step()
            run.call("web_search", {"k": k}, answering(503, attempts=5))
        assert "web_search" in run.notice()
        run.finish("web_search was unavailable.")
    assert client.flush(10)

    seen = until(lambda: calls_in_window(fleet.search_api), what="the window")
    assert (seen.calls, seen.failures) == (5, 5)
    stored = until(lambda: Run.objects.filter(agent=fleet.research, status="finished").first(), what="the run's report")
    told = page(fleet.ann, f"/runs/{stored.pk}/")
    assert told.count("5 attempts") == 5


def tried(client, tool, fn, times=3):
    """That often in a run of its own each, so that no run's own breaker stands in the way."""
    for k in range(times):
        with client.run() as run:
            run.step()
            run.call(tool, {"k": k}, fn)
    assert client.flush(10)


@pytest.mark.case("G02")
@pytest.mark.parametrize("out_of_budget", [(402,), (400, "code: insufficient_quota")])
def test_two_workers_whose_budget_is_gone_open_the_dependency_for_an_hour(fleet, agent, out_of_budget):
    began = clock.now()
    for instance in ("pod-1", "pod-2"):
        tried(agent(instance), "web_search", answering(*out_of_budget))

    until(lambda: circuit(fleet.search_api).state == "open", within=20, what="the opening")

    assert LONG_S - 1 <= (circuit(fleet.search_api).due_at - began).total_seconds() <= LONG_S + 60


@pytest.mark.case("G02")
def test_six_rejected_requests_open_nothing_until_the_product_owner_says_that_they_are_failures(fleet, agent):
    clients = [agent(instance) for instance in ("pod-1", "pod-2")]
    for client in clients:
        tried(client, "db_lookup", answering(400))
    seen = until(lambda: calls_in_window(fleet.crm_db), what="the window")
    assert (circuit(fleet.crm_db).state, seen.failures) == ("closed", 0)

    policies.publish(
        environment=fleet.prod, level="tool", tool=fleet.tools["db_lookup"], reason="it answers 400 when it is down",
        values={"outcomes": {"400": "retryable_error"}}, actor="petra", approved_by="ada", now=clock.now(),
    )  # fmt: skip
    for client in clients:
        until(lambda one=client: one.status()["config"]["version"][1] > 1, within=20, what="the new status map")
        tried(client, "db_lookup", answering(400))

    until(lambda: circuit(fleet.crm_db).state == "open", within=20, what="the opening")


@pytest.mark.case("C05")
def test_an_agent_whose_stream_is_held_back_hears_of_changes_and_is_shown_as_polling(fleet, server, agent, page):
    with HoldingProxy(server.port) as proxy:
        client = agent("pod-1", url=f"http://127.0.0.1:{proxy.port}")
        with client.run() as run:
            run.call("web_search", {}, lambda **_: "found")
        now = clock.now()
        circuits.hold_open(
            dependency_id=fleet.search_api.pk, actor="otto", reason="a drill", now=now, until=now + timedelta(minutes=5)
        )
        until(lambda: "search-api" in client.status()["circuits"]["not_closed"], within=20, what="the change")
        assert client.status()["feed"] == "polling"
        assert client.flush(10)
        told = page(fleet.ann, "/settings/?environment=prod")
    assert ">polling<" in told
    assert ">live<" not in told
