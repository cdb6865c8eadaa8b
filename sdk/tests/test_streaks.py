"""The parallel calls of one step count once, however they are sent and whatever runs beside them."""

from __future__ import annotations

import pytest
from conftest import failing, working
from recloser.core.types import Outcome
from recloser.core.window import MOST_STEPS, Steps, Window
from recloser.outbox import Outbox
from recloser.testing import config_document

F, OK = Outcome.TIMEOUT, Outcome.OK
CALLS = [
    ("six of one step", [("a", 1, F)] * 6, 1),
    ("two runs in turn", [("a", 1, F), ("b", 1, F)] * 3, 2),
    ("a success ends it", [("a", 1, F), ("a", 2, F), ("b", 1, OK), ("a", 2, F), ("a", 2, F)], 1),
    ("without steps each counts", [("a", None, F)] * 3, 3),
    ("a step that comes back", [("a", 1, F), ("a", 2, F), ("a", 1, F)], 2),
]


def told(outbox: Outbox) -> list[dict]:
    batch = outbox.seal()
    outbox.acknowledge(batch.seq)
    return batch.to_wire(10.0)["observations"]


def streak_of(parts: list[dict]) -> int:
    """As the control plane adds them up."""
    total = 0
    for part in parts:
        total = part["streak"] + (0 if part["counts"].get("ok") else total)
    return total


@pytest.mark.parametrize(("calls", "streak"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS])
@pytest.mark.parametrize("flushes", [1, 100])
def test_the_wire_and_the_workers_window_agree(calls, streak, flushes):
    outbox, window, parts = Outbox(), Window(60.0), []
    for n, (run, step, outcome) in enumerate(calls):
        outbox.slice_of("search", "search", 0, None, 1.0).add(outcome, at=1.0, seconds=0.1, run=run, step=step)
        window.record(outcome, 1.0, step=None if step is None else (run, step))
        if n % 100 < flushes - 1:
            parts += told(outbox)
    parts += told(outbox) if outbox.waiting else []
    evidence = window.evidence(1.0)
    assert streak_of(parts) == evidence.streak == streak
    assert [own.length for own in evidence.own_streaks] == [streak]
    assert sum(sum(part["counts"].values()) for part in parts) == len(calls)


def test_two_tools_of_one_dependency_that_fail_in_one_step_are_one_failure():
    outbox = Outbox()
    for tool in ("search", "read"):
        outbox.slice_of(tool, "site", 0, None, 1.0).add(F, at=1.0, seconds=0.1, run="a", step=1)
    assert sum(part["streak"] for part in told(outbox)) == 1


def test_six_flushes_of_one_step_and_the_successes_between_steps(plane, connect):
    """Through the front door: the streak of a step is told once, and a success begins it anew."""
    plane.config = config_document(tools={"search": {"run": {"consecutive_failures": 50}}})
    client = connect()
    other, run = client.run(), client.run()
    run.step()
    other.step()
    for k in range(6):
        run.call("search", {"k": k}, failing)
        other.call("search", {"k": k}, failing)
        assert client.flush(5)
    parts = [part for part in plane.stored("observations") if part["tool"] == "search"]
    assert len(parts) >= 6
    assert streak_of(parts) == 2 == client.breakers._own.get("search").window.streak

    run.call("search", {"k": 9}, working)
    run.call("search", {"k": 10}, failing)
    assert client.flush(5)
    parts = [part for part in plane.stored("observations") if part["tool"] == "search"]
    assert streak_of(parts) == 1 == client.breakers._own.get("search").window.streak


def test_the_steps_of_a_streak_are_a_bounded_number_and_the_latest():
    steps = Steps()
    for n in range(MOST_STEPS * 3):
        assert steps.first(n)
    assert not steps.first(MOST_STEPS * 3 - 1)
    assert not steps.first(MOST_STEPS * 2)
    assert steps.first(MOST_STEPS * 2 - 1)
    assert len(steps) == MOST_STEPS
