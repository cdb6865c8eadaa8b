"""No progress, by the working state that an agent tells."""

from __future__ import annotations

import pytest
from conftest import until, working

STRICT = {"no_progress_delivery": "enforce", "no_progress_action": "end_run"}


@pytest.fixture
def client(plane, connect):
    """A client under a policy that ends a run after six steps without progress."""
    plane.config = {**plane.config, "run_policies": [{**one, **STRICT} for one in plane.config["run_policies"]]}
    client = connect()
    assert until(lambda: client.documents.snapshot.config.run_policy.no_progress_action == "end_run")
    return client


def steps(run, states):
    """One call with a new result a step, then the state after it."""
    for number, state in enumerate(states):
        if not run.step():
            break
        run.call("web_search", {"q": number}, lambda q: f"result {q}")
        run.state(state)


def test_a_run_whose_state_stands_still_ends_however_new_its_results_are(plane, client):
    with client.run() as run:
        steps(run, [{"found": []}] * 9)
        assert (run.end_cause, run.steps) == ("no_progress", 7)
    client.flush()
    (trip,) = until(lambda: [one for one in plane.stored("trips") if one["signal"] == "no_progress"])
    assert (trip["action"], trip["step"], trip["evidence"]) == ("end_run", 7, {"no_progress": 6})


def test_a_state_that_changes_is_progress(client):
    with client.run() as run:
        steps(run, [{"found": list(range(number // 3))} for number in range(20)])
        assert (run.end_cause, run.steps) == (None, 20)


def test_without_a_state_new_results_are_progress(client):
    with client.run() as run:
        for number in range(20):
            run.step()
            run.call("web_search", {"q": number}, lambda q: f"result {q}")
        assert run.end_cause is None


def test_a_state_that_cannot_be_compared_has_changed(client):
    with client.run() as run:
        steps(run, [object() for _ in range(20)])
        assert run.end_cause is None


def test_a_state_after_the_end_changes_nothing(client):
    with client.run() as run:
        run.finish("done")
        run.state("late")
        assert run.end_cause is None


def test_hostile_states_raise_nothing(client):
    knot: list[object] = []
    knot.append(knot)
    with client.run() as run:
        steps(run, [knot, float("nan"), b"\xff", "\x00" * 100_000, {1: {2: {3}}}, (each for each in "abc")])
        assert run.call("web_search", {"q": "x"}, working) == "found"
