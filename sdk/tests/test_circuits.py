"""Open circuits in an agent: the fleet's as they are told, and this worker's own."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from conftest import FAST, failing, until, working
from recloser import Client, Pace
from recloser.testing import FakeControlPlane, config_document

TOOL = {"name": "web_search", "input_schema": {}}
OTHER = {"name": "db_lookup", "input_schema": {}}
DAY = 86_400.0


def hear(client: Client, plane: FakeControlPlane, name: str = "search-api", **entry: Any) -> None:
    """Change a circuit and wait until the client knows."""
    plane.set_circuit(name, **entry)
    version = list(plane.circuits_version)
    assert until(lambda: client.status()["circuits"]["version"] == version)


@pytest.fixture
def client(plane, connect):
    """An agent with a confirmed `read_only` search and a `side_effect` mailer behind one dependency each."""
    plane.config = config_document(
        tools={
            "web_search": {"dependencies": ["search-api"]},
            "news": {"dependencies": ["search-api"]},
            "report": {"dependencies": ["search-api", "db"]},
            "mail": {"dependencies": ["mail-api"], "side_effect": "side_effect"},
        },
        circuit={"stale_after_s": 0.5},
    )
    client = connect()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7] and client.status()["feed"] == "live")
    return client


def test_an_open_circuit_takes_its_tools_from_every_run_at_the_next_step(plane, client):
    with client.run() as run:
        assert run.tools([TOOL, OTHER]) == [TOOL, OTHER]
        hear(client, plane, state="open", cause="failure_rate", due_at=plane.now() + 20)
        assert run.tools([TOOL, OTHER]) == [OTHER]
        assert "web_search: failing" in run.notice()
        answer = run.call("web_search", {}, working)
        assert answer["status"] == "unavailable" and 15 < answer["retry_after_s"] <= 20
        assert run.call("report", {}, working)["status"] == "unavailable"  # callable when all its dependencies are
        assert run.call("mail", {}, working) == "found"
        result = run.finish("The web_search tool was unavailable.")
    assert result.block["items"][0]["scope"] == "fleet" and result.disclosed


def test_a_call_is_answered_though_the_array_was_never_filtered(plane, client):
    hear(client, plane, state="open", cause="failure_rate")
    with client.run() as run:
        assert run.call("web_search", {}, working)["status"] == "unavailable"
    assert client.flush(5)
    assert plane.counts("web_search") == {"rejected": 1}
    [last] = [one for one in plane.stored("runs") if one["status"] == "finished"]
    assert last["missing"] == [
        {"tool": "web_search", "dependency": "search-api", "cause": "failure_rate", "scope": "fleet", "step": None,
         "replaced_by": None, "refused": 1},
    ]  # fmt: skip


def test_what_a_run_was_told_is_gone_stays_gone(plane, client):
    hear(client, plane, state="open", cause="failure_rate")
    with client.run() as run:
        assert run.tools([TOOL, OTHER]) == [OTHER]
        hear(client, plane, state="closed", cause="operator")
        assert run.tools([TOOL, OTHER]) == [OTHER]
        assert run.call("web_search", {}, working)["status"] == "unavailable"
    with client.run() as later:
        assert later.tools([TOOL, OTHER]) == [TOOL, OTHER]
        assert later.call("web_search", {}, working) == "found"


def test_a_half_open_circuit_is_not_for_ordinary_runs(plane, client):
    hear(client, plane, state="half_open", cause="probe_started", tripped_by="slow_call_rate")
    with client.run() as run:
        assert run.tools([TOOL]) == []
        assert "too slowly" in run.notice()


@pytest.mark.parametrize("delivery", ["observe", "off"])
def test_a_circuit_that_is_not_enforced_stops_nothing(plane, client, delivery):
    hear(client, plane, state="open", delivery=delivery, cause="failure_rate")
    with client.run() as run:
        assert run.call("web_search", {}, working) == "found"


def test_forced_modes_hold_until_they_expire(plane, client):
    hear(client, plane, mode="forced_open", cause="operator", mode_expires_at=plane.now() + 0.3)
    with client.run() as run:
        assert run.call("web_search", {}, working)["status"] == "unavailable"
        assert "operator" in run.notice()

    def later_run_works() -> bool:
        with client.run() as run:
            return bool(run.call("web_search", {}, working) == "found")

    assert until(later_run_works, 3.0)


def test_forced_closed_admits_whatever_the_state(plane, client):
    hear(client, plane, state="open", mode="forced_closed", cause="operator", mode_expires_at=plane.now() + DAY)
    with client.run() as run:
        assert run.call("web_search", {}, working) == "found"
        for k in range(5):
            run.step()
            run.call("web_search", {"k": k}, failing)
        assert run.notice()  # it never overrides a run's own breaker
    assert client.status()["worker_open"] == ["search-api"]
    with client.run() as run:
        assert run.call("web_search", {}, working) == "found"


def test_the_answer_to_a_batch_tells_the_state_at_once(plane, connect):
    plane.streaming = False
    plane.set_circuit("web_search", state="open", cause="failure_rate")
    client = connect(pace=Pace(flush_s=0.2, poll_circuits_s=60.0))
    with client.run() as run:
        run.call("web_search", {}, working)
    assert until(lambda: "web_search" in client.status()["circuits"]["not_closed"])


def test_on_stale_states_only_read_only_tools_fall_back(plane, client):
    """The control plane goes away while both circuits are open; stale after half a second."""
    hear(client, plane, state="open", cause="failure_rate")
    hear(client, plane, "mail-api", state="open", cause="failure_rate")
    plane.__exit__()

    def search_works() -> bool:
        with client.run() as run:
            return bool(run.call("web_search", {}, working) == "found")

    assert until(search_works, 5.0)
    with client.run() as run:
        assert run.call("mail", {}, working)["status"] == "unavailable"
    client.close(0.1)


def test_an_operators_override_does_not_go_stale(plane, client):
    hear(client, plane, mode="forced_open", state="open", cause="operator", mode_expires_at=plane.now() + DAY)
    plane.__exit__()
    assert until(lambda: client.status()["circuits"]["age_s"] > 0.6, 5.0)
    with client.run() as run:
        assert run.call("web_search", {}, working)["status"] == "unavailable"
    client.close(0.1)


def test_observing_a_run_policy_tells_what_would_have_tripped(plane, connect):
    plane.config = config_document(
        tools={"web_search": {"run": {"delivery": "observe"}}}, circuit={"delivery": "observe"}
    )
    client = connect()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7])
    with client.run() as run:
        for k in range(7):
            run.step()
            assert run.call("web_search", {"k": k}, failing)["status"] == "error"
        assert run.tools([TOOL]) == [TOOL] and run.notice() is None
    assert client.flush(5)
    trips = plane.stored("trips")
    assert {(trip["scope"], trip["delivery"]) for trip in trips} == {("run", "observe"), ("worker", "observe")}


def test_a_policy_switched_off_acts_at_once(plane, connect):
    client = connect()
    assert until(lambda: client.status()["feed"] == "live")
    with client.run() as run:
        run.step()
        run.call("web_search", {"k": -1}, failing)
        off = {"delivery": "off"}
        plane.publish_config(**{
            name: value for name, value in config_document(tools={"web_search": {"run": off}}, circuit=off).items()
            if name not in ("version", "epoch")
        })  # fmt: skip
        assert until(lambda: client.status()["config"]["version"] == ["e1", 8])
        for k in range(6):
            run.step()
            run.call("web_search", {"k": k}, failing)
        assert run.call("web_search", {"k": 9}, working) == "found"


@pytest.mark.case("G02")
def test_a_quota_marker_counts_with_its_long_wait(plane, client):
    """G02, the agent's half: 402 is a failure with a wait of an hour; a plain 400 is the model's mistake."""

    class Answer(Exception):
        def __init__(self, status: int, text: str = "") -> None:
            super().__init__(text)
            self.status_code = status

    def answering(problem: Exception) -> Any:
        def fn(**_: Any) -> Any:
            raise problem

        return fn

    with client.run() as run:
        assert run.call("web_search", {"k": 1}, answering(Answer(402)))["error"] == "rate_limited"
        assert (
            run.call("web_search", {"k": 2}, answering(Answer(400, "code: insufficient_quota")))["error"]
            == "rate_limited"
        )
        assert run.call("web_search", {"k": 3}, answering(Answer(400)))["error"] == "semantic_error"
    assert client.flush(5)
    waits = [part["retry_after_s"] for part in plane.stored("observations") if part["tool"] == "web_search"]
    assert max(wait or 0 for wait in waits) == 3600
    assert plane.counts("web_search") == {"rate_limited": 2, "semantic_error": 1}


@pytest.mark.case("B23")
def test_the_transports_attempts_are_one_call(plane, client):
    """B23: five attempts in one call are one failure, and shown apart."""

    class Exhausted(Exception):
        attempts = 5

    def exhausted(**_: Any) -> Any:
        raise Exhausted

    with client.run() as run:
        for k in range(4):
            run.step()
            run.call("web_search", {"k": k}, exhausted)
        assert run.notice() is None
    assert client.flush(5)
    parts = [part for part in plane.stored("observations") if part["tool"] == "web_search"]
    assert sum(part["attempts"] for part in parts) == 20
    assert plane.counts("web_search") == {"retryable_error": 4}


def test_one_slow_tool_behind_two_dependencies_is_observed_for_each(plane, client):
    with client.run() as run:
        run.call("report", {}, working)
    assert client.flush(5)
    parts = [part for part in plane.stored("observations") if part["tool"] == "report"]
    assert {part["dependency"] for part in parts} == {"search-api", "db"}


def test_the_dependency_at_fault_bears_the_failure_alone(plane, client):
    class Blamed(Exception):
        dependency = "db"

    def blaming(**_: Any) -> Any:
        raise Blamed

    with client.run() as run:
        run.call("report", {}, blaming)
    assert client.flush(5)
    parts = [part for part in plane.stored("observations") if part["tool"] == "report"]
    assert [part["dependency"] for part in parts] == ["db"]


# -- the worker's own breaker


def fast_worker(**more: Any) -> dict[str, Any]:
    return config_document(
        tools={"web_search": {"dependencies": ["search-api"], **more}},
        circuit={"worker_cooldown_s": 0.1, "cooldown_max_s": 0.2, "backoff": 1.0, "jitter": 0.0},
    )


@pytest.fixture
def worker(plane, connect):
    plane.config = fast_worker()
    client = connect()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7])
    return client


def open_worker(client: Client, tool: str = "web_search") -> None:
    """Five failures in a row, from two runs."""
    for begin in (0, 3):
        with client.run() as run:
            for k in range(begin, 3 if begin == 0 else 5):
                run.step()
                run.call(tool, {"k": k}, failing)


def test_this_workers_failures_open_its_own_breaker_and_are_told(plane, worker):
    open_worker(worker)
    assert worker.status()["worker_open"] == ["search-api"]
    with worker.run() as run:
        assert run.tools([TOOL, OTHER]) == [OTHER]
        assert run.call("web_search", {}, working)["status"] == "unavailable"
    assert worker.flush(5)
    [trip] = [trip for trip in plane.stored("trips") if trip["scope"] == "worker"]
    assert trip["evidence"] == {"consecutive_failures": 5} and trip["threshold"] == {"consecutive_failures": 5}
    assert trip["dependency"] == "search-api" and trip["tool"] == "web_search" and trip["step"] == 2


def test_only_a_later_run_tests_the_workers_breaker(worker):
    early = worker.run()
    open_worker(worker)
    told = worker.run()
    assert told.tools([TOOL]) == []  # before it is due

    def tested() -> bool:
        with worker.run() as run:
            return bool(run.tools([TOOL]) == [TOOL] and run.call("web_search", {"t": 1}, working) == "found")

    time.sleep(0.12)  # the cooldown
    assert early.call("web_search", {}, working)["status"] == "unavailable"
    assert told.call("web_search", {}, working)["status"] == "unavailable"
    assert until(tested)
    assert worker.status()["worker_open"] == []
    assert early.call("web_search", {}, working)["status"] == "unavailable"  # what it was told


def test_one_run_tests_and_the_others_wait(worker):
    open_worker(worker)
    time.sleep(0.12)
    inside, release = threading.Event(), threading.Event()
    results: list[Any] = []

    def slow(**_: Any) -> str:
        inside.set()
        release.wait(5)
        return "recovered"

    tester, other = worker.run(), worker.run()
    assert tester.tools([TOOL]) == other.tools([TOOL]) == [TOOL]
    thread = threading.Thread(target=lambda: results.append(tester.call("web_search", {}, slow)))
    thread.start()
    assert inside.wait(5)
    assert other.call("web_search", {}, working)["status"] == "unavailable"
    release.set()
    thread.join(5)
    assert results == ["recovered"]
    assert worker.status()["worker_open"] == []


def test_a_failing_test_keeps_the_workers_breaker_open(worker):
    open_worker(worker)
    time.sleep(0.12)
    with worker.run() as run:
        assert run.call("web_search", {}, failing)["status"] == "error"
    assert worker.status()["worker_open"] == ["search-api"]
    with worker.run() as run:
        assert run.call("web_search", {}, working)["status"] == "unavailable"


def test_a_test_that_its_caller_gave_up_is_inconclusive(worker):
    open_worker(worker)
    time.sleep(0.12)

    def interrupted(**_: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker.run().call("web_search", {}, interrupted)
    assert worker.status()["worker_open"] == ["search-api"]
    time.sleep(0.12)
    assert worker.run().call("web_search", {}, working) == "found"


def test_the_parallel_failures_of_one_step_open_no_workers_breaker(worker):
    with worker.run() as run:
        run.step()
        barrier = threading.Barrier(12)

        def failing_together(**_: Any) -> Any:
            barrier.wait(5)
            return failing()

        threads = [
            threading.Thread(target=run.call, args=("web_search", {"k": k}, failing_together)) for k in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
    assert worker.status()["worker_open"] == []


def test_the_workers_breaker_needs_no_control_plane(tmp_path):
    client = Client(cache_dir=False, pace=FAST)
    open_worker(client)
    assert client.status()["worker_open"] == ["web_search"]
    assert client.run().call("web_search", {}, working)["status"] == "unavailable"
    client.close()


def test_a_run_policy_switched_to_observe_stops_nothing_from_the_next_call_on(plane, connect):
    client = connect()
    assert until(lambda: client.status()["feed"] == "live")
    with client.run(step_limit=4) as run:
        for k in range(2):
            run.step()
            run.call("web_search", {"k": k}, failing)
        watch = {"delivery": "observe"}
        observe = config_document(tools={"web_search": {"run": watch}}, run=watch, circuit=watch)
        plane.publish_config(**{name: value for name, value in observe.items() if name not in ("version", "epoch")})
        assert until(lambda: client.status()["config"]["version"] == ["e1", 8])
        for k in range(2, 9):
            assert run.step()  # the limit is only noted
            assert run.call("web_search", {"k": k}, failing)["status"] == "error"
        assert run.tools([TOOL]) == [TOOL] and run.end_cause is None
    assert client.flush(5)
    trips = [trip for trip in plane.stored("trips") if trip["scope"] == "run"]
    assert {trip["delivery"] for trip in trips} == {"observe"}
    assert {"consecutive_failures", "step_limit"} <= {trip["signal"] for trip in trips}


def test_a_tightened_policy_holds_for_a_run_that_has_begun(plane, connect):
    plane.config = config_document(tools={"web_search": {}})
    client = connect()
    assert until(lambda: client.status()["feed"] == "live" and client.status()["config"]["version"] == ["e1", 7])
    with client.run() as run:
        for k in range(2):
            run.step()
            run.call("web_search", {"k": k}, failing)
        tight = config_document(tools={"web_search": {"run": {"consecutive_failures": 3}}})
        plane.publish_config(tools=tight["tools"], run_policies=tight["run_policies"])
        assert until(lambda: client.status()["config"]["version"] == ["e1", 8])
        run.step()
        run.call("web_search", {"k": 2}, failing)
        assert run.tools([TOOL]) == []
