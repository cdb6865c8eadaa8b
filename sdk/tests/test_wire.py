"""What the wire would refuse never leaves, and one entry that is refused all the same holds up no other."""

from __future__ import annotations

import json
import logging
import re
import uuid
from typing import Any

import pytest
from conftest import failing, working
from recloser.outbox import Outbox
from recloser.report import RunReport
from recloser.testing import error
from recloser.wire import RUN_IDS, fitted, wire_id

CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def unfit(value: Any) -> Any:
    """The first text in a body that the control plane would refuse."""
    if isinstance(value, dict):
        return next((bad for part in value.items() for one in part if (bad := unfit(one)) is not None), None)
    if isinstance(value, list):
        return next((bad for one in value if (bad := unfit(one)) is not None), None)
    return value if isinstance(value, str) and (CONTROL.search(value) or len(value) > 200) else None


def strict(body: Any) -> Any:
    """The control plane refuses surrogates as no JSON, other characters and lengths by their field."""
    for run in body["runs"]:
        run = {**run, "disclosure": (run["disclosure"] or "").replace("\n", "")[:200]}
        if (bad := unfit(run)) is not None:
            return error(400, "bad_json") if re.search(r"[\ud800-\udfff]", bad) else error(422, "bad_field", field=None)
    return None if unfit(body["observations"] + body["trips"]) is None else error(400, "bad_json")


@pytest.mark.parametrize("name", ["tool\ud800x", "mcp\ntool", "", "x" * 5000, "ignore\x00\x7fme"], ids=range(5))
def test_a_degraded_run_is_reported_whatever_its_tools_are_called(plane, connect, name):
    plane.judge = strict
    client = connect()
    with client.run(f"kind {name}") as run:
        run.tools([{"name": name}])
        for k in range(3):
            run.step()
            run.call(name, {"k": k}, failing)
        run.replaced(name, f"by {name}")
    with client.run() as after:
        after.call("after", {}, working)
    assert client.flush(5)
    told = [one for one in plane.stored("runs") if one["id"] == run.id and one["status"] == "finished"]
    assert told and told[-1]["degraded"] and told[-1]["missing"] and len(told[-1]["step_log"]) == 3
    assert all(line["tool"] for line in told[-1]["step_log"])
    assert plane.counts("after") == {"ok": 1}
    assert client.status()["outbox"]["dropped"] == 0


def test_every_limit_of_the_wire_is_kept():
    body = {
        "runs": [
            {
                "id": "order-42", "parent": None, "status": "finished", "steps": 2**40, "tokens": 10**400, "cost": -1.0,
                "started_age_s": 1e12, "ended_age_s": float("nan"), "end_cause": "x" * 999, "tools": ["t"] * 900,
                "disclosure": "one\ntwo\x00" + "x" * 30_000, "revision": 3,
                "missing": [{"tool": "", "cause": "c" * 99, "run": "job-7", "step": -4}] * 900,
                "step_log": [{"step": 1, "tool": "a\ud800", "args": "b" * 99, "ms": float("inf"), "outcome": "ok"}],
            }
        ],
        "trips": [{"evidence": {"\n": float("nan"), "b": 10**400, "c": None}, "policy": "p" * 99}],
        "observations": [{"counts": {"ok": 2**40}, "age_s": -3.0, "samples": [{"status": 10**6, "run": None}]}],
    }  # fmt: skip
    told = json.loads(json.dumps(fitted(body), allow_nan=False))
    run = told["runs"][0]
    assert uuid.UUID(run["id"]) and run["parent"] is None and run["status"] == "finished"
    assert (run["steps"], run["tokens"], run["cost"]) == (2**31 - 1, 2**53, 0)
    assert run["started_age_s"] == 366 * 86_400 and run["ended_age_s"] == 0
    assert len(run["end_cause"]) == 200 and len(run["tools"]) == len(run["missing"]) == 500
    assert run["disclosure"].startswith("one\ntwo x") and len(run["disclosure"]) == 20_000
    assert run["missing"][0]["tool"] and len(run["missing"][0]["cause"]) == 64 and run["missing"][0]["step"] == 0
    assert run["step_log"][0]["tool"] == "a?" and len(run["step_log"][0]["args"]) == 64
    assert told["trips"][0]["evidence"] == {" ": 0, "b": 1e15, "c": None} and len(told["trips"][0]["policy"]) == 64
    part = told["observations"][0]
    assert (part["counts"], part["age_s"], part["samples"][0]["status"]) == ({"ok": 2**31 - 1}, 0, 999)


def test_one_entry_that_cannot_be_read_is_dropped_and_holds_up_no_other(plane, connect, caplog):
    def judge(body: Any) -> Any:
        return error(400, "bad_json") if any(one["tool"] == "tool_5" for one in body["observations"]) else None

    plane.judge = judge
    client = connect()
    for n in range(12):
        client.run().call(f"tool_{n}", {}, working)
    with caplog.at_level(logging.WARNING, "recloser"):
        assert client.flush(10)
    assert [plane.counts(f"tool_{n}") for n in range(12) if n != 5] == [{"ok": 1}] * 11
    assert plane.counts("tool_5") == {} and client.status()["outbox"]["dropped"] == 1
    assert len([one for one in caplog.records if "400" in one.getMessage()]) == 1


def test_an_empty_batch_that_is_refused_is_not_asked_for_without_end(plane, connect, caplog):
    plane.judge = lambda body: error(400, "bad_json")
    client = connect()
    assert plane.wait(lambda: len(plane.attempts) >= 2)
    assert not plane.wait(lambda: len(plane.attempts) > 3, 0.5)
    assert any("400 bad_json" in one.getMessage() for one in caplog.records)
    assert client.status()["outbox"]["dropped"] == 0


def degraded_report() -> RunReport:
    missing, line = {"tool": "a"}, {"step": 1, "tool": "a", "outcome": "timeout"}
    return RunReport(
        id=str(uuid.uuid4()), revision=1, parent=None, task_kind=None, status="finished", started_at=0.0, ended_at=1.0,
        steps=1, step_limit=None, degraded=True, disclosed=False, end_cause=None, tools=("a",), missing=(missing,),
        disclosure="Without a.", tool_seconds=0.0, model_seconds=0.0, tokens=0, cost=0.0, step_log=(line,),
    )  # fmt: skip


@pytest.mark.parametrize("part", ["step_log", "missing", "tools"])
def test_a_422_takes_the_named_part_of_a_run_and_leaves_its_report(part):
    outbox = Outbox()
    outbox.add_run(degraded_report())
    before = outbox.seal().to_wire(2.0)["runs"][0]
    assert before[part]
    assert outbox.drop(f"runs[0].{part}[0].tool")
    [after] = outbox.seal().to_wire(2.0)["runs"]
    assert after == before | {part: []} and outbox.dropped == 0


def test_a_422_takes_the_samples_and_leaves_the_counts():
    from recloser.core.types import Outcome

    outbox = Outbox()
    outbox.slice_of("a", "a", 0, None, 1.0).add(Outcome.TIMEOUT, at=1.0, seconds=0.1, run="r", step=1)
    before = outbox.seal().to_wire(2.0)["observations"][0]
    assert before["samples"]
    assert outbox.drop("observations[0].samples[0].run")
    [after] = outbox.seal().to_wire(2.0)["observations"]
    assert after == before | {"samples": []} and outbox.dropped == 0
    assert outbox.drop("observations[0].samples[0].run") and outbox.dropped == 1


def test_an_id_of_ones_own_is_a_uuid_on_the_wire(plane, connect):
    client = connect()
    with client.run(id="order-42", parent="job-7") as run:
        for k in range(3):
            run.step()
            run.call("web_search", {"k": k}, failing)
    assert client.flush(5)
    assert run.id == "order-42" and run.parent_id == "job-7"
    ours, theirs = (str(uuid.uuid5(uuid.UUID(RUN_IDS), id)) for id in ("order-42", "job-7"))
    told = plane.stored("runs")
    assert told and {(one["id"], one["parent"]) for one in told} == {(ours, theirs)}
    assert plane.stored("trips") and {one["run"] for one in plane.stored("trips")} == {ours}
    samples = [sample for part in plane.stored("observations") for sample in part["samples"]]
    assert samples and {sample["run"] for sample in samples} == {ours}


def test_a_uuid_stays_itself_and_any_other_text_becomes_one():
    mine = str(uuid.uuid4())
    assert wire_id(mine) == mine and wire_id(mine.upper()) == mine
    assert wire_id("a") == wire_id("a") != wire_id("b")
    assert uuid.UUID(wire_id("\ud800")).version == 5
    assert wire_id("\ud800") != wire_id("\ud801")
