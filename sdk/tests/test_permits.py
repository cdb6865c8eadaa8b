"""A run that began after the opening may test a circuit that no probe tests; a stuck run, or a harmful call, never."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from recloser.core.circuit import in_share
from recloser.testing import FakeControlPlane
from recloser.testing.plane import Scripted


@pytest.fixture
def plane():
    with FakeControlPlane() as plane:
        plane.tool("search", dependencies=["api"])
        plane.tool("pay", dependencies=["bank"], side_effect="side_effect")
        yield plane


def works(**_):
    return "found"


def fails(**_):
    raise ConnectionError("away")


def shown(run, name="search"):
    return bool(run.tools([{"name": name}]))


def opened(plane, client, **more):
    """Open and due; a stuck run has met it, and a place is kept here for a run that begins from now on."""
    stuck = client.run()
    plane.open("api", due_in_s=0.0, probed=False, **more)
    assert not shown(stuck)
    if plane.places:
        assert plane.wait(lambda: "api" in client.permits._places)
    return stuck


def verdicts(plane):
    return [body["outcome"] for body in plane.permits if body["ask"] == "finish"]


def late(plane):
    """Leave that comes when this event is set."""
    event = threading.Event()
    body = b'{"round": "0b6a1a52-7d0e-4d62-9d0c-3f0d6a1c2b11", "reason": "granted", "lease_s": 60.0}'
    plane.script("permit", Scripted(body=body, hang_until=event))
    return event


def test_a_later_run_sees_the_tool_and_its_first_call_closes_the_circuit(plane):
    client = plane.client()
    stuck, later, third = opened(plane, client), client.run(), client.run()
    assert shown(later) and not shown(third) and not shown(stuck)

    assert later.call("search", {}, works) == "found"

    assert plane.wait(lambda: plane.circuits["api"]["state"] == "closed")
    assert verdicts(plane) == ["ok"]
    plane._settle()
    assert shown(later) and later.call("search", {}, works) == "found"
    assert not shown(stuck) and not shown(third)
    assert shown(client.run())


def test_a_call_that_fails_opens_again_and_the_tool_is_gone(plane):
    client = plane.client()
    opened(plane, client)
    later = client.run()
    later.call("search", {}, fails)
    assert plane.wait(lambda: verdicts(plane) == ["retryable_error"])
    assert plane.circuits["api"]["state"] == "open"
    assert not shown(later)


def test_only_one_of_two_agents_that_race_gets_the_permit(plane):
    one, other = plane.client(instance="a", cache_dir=False), plane.client(instance="b", cache_dir=False)
    stuck = [one.run(), other.run()]
    plane.open("api", due_in_s=0.0, probed=False)
    assert not any(shown(each) for each in stuck)
    assert plane.wait(lambda: "api" in one.permits._places and "api" in other.permits._places)
    runs, called, gate = [one.run(), other.run()], [], threading.Barrier(2)
    assert all(shown(run) for run in runs)

    def race(run):
        gate.wait()
        run.call("search", {}, lambda: called.append(run) or "found")

    threads = [threading.Thread(target=race, args=(run,)) for run in runs]
    for each in threads:
        each.start()
    for each in threads:
        each.join(10)
    assert len(called) == 1
    lost = next(run for run in runs if run not in called)
    assert not shown(lost)


def test_no_leave_while_the_control_plane_is_away(plane):
    client = plane.client()
    opened(plane, client)
    later = client.run()
    assert shown(later)
    with plane.away():
        answer = later.call("search", {}, works)
    assert answer["status"] == "unavailable"
    assert not shown(later)


def test_leave_that_comes_too_late_is_given_back(plane):
    client = plane.client()
    opened(plane, client)
    later, event = client.run(), late(plane)
    assert later.call("search", {}, works)["status"] == "unavailable"
    event.set()
    assert plane.wait(lambda: verdicts(plane) == ["cancelled"])


def test_a_subagent_of_a_stuck_run_and_a_run_of_unknown_descent_never_test(plane):
    client = plane.client()
    stuck = opened(plane, client)
    assert not shown(client.run(parent=stuck))
    assert not shown(client.run(parent="somewhere-else"))
    assert shown(client.run())


def test_a_side_effect_never_tests(plane):
    client = plane.client()
    stuck = client.run()
    plane.open("bank", due_in_s=0.0, probed=False)
    assert not shown(stuck, "pay")
    plane.wait(lambda: client.permits._places, 1.0)
    assert not shown(client.run(), "pay")


def test_a_second_call_beside_the_test_is_refused_and_the_tool_stays(plane):
    client = plane.client()
    opened(plane, client)
    later, beside = client.run(), []

    def testing(**_):
        beside.append(later.call("search", {"q": 2}, works))
        return "found"

    assert later.call("search", {"q": 1}, testing) == "found"
    assert beside[0]["status"] == "unavailable"
    assert shown(later)


def test_where_a_probe_tests_nobody_asks(plane):
    client = plane.client()
    stuck = client.run()
    plane.open("api", due_in_s=0.0, probed=True)
    assert not shown(stuck) and not shown(client.run())
    client.flush()
    assert plane.permits == []


def test_an_async_call_waits_for_its_leave_without_holding_up_the_loop(plane):
    client = plane.client()
    opened(plane, client)
    later = client.run()

    async def found():
        return "found"

    async def main():
        return await later.acall("search", None, found)

    assert asyncio.run(main()) == "found"
    assert plane.wait(lambda: verdicts(plane) == ["ok"])


def test_a_call_that_is_cancelled_while_it_waits_gives_its_leave_back_and_holds_nothing(plane):
    client = plane.client()
    opened(plane, client)
    later, event = client.run(), late(plane)
    assert shown(later)

    async def main():
        call = asyncio.create_task(later.acall("search", None, works))
        await asyncio.sleep(0)  # it has asked, and waits
        assert later._permits.testing("api")
        call.cancel()
        event.set()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert not later._permits.testing("api")
    assert plane.wait(lambda: verdicts(plane) == ["cancelled"])
    assert not shown(later)


def test_an_async_call_waits_no_longer_where_all_threads_of_its_loop_are_taken(plane):
    client = plane.client()
    opened(plane, client)
    later, free, answered = client.run(), threading.Event(), []
    assert shown(later)

    async def main():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        taken = asyncio.create_task(asyncio.to_thread(free.wait, 60))
        await asyncio.sleep(0)
        answered.append(await later.acall("search", None, works))
        assert not taken.done(), "it waited for a thread"
        free.set()
        await taken

    asyncio.run(main())
    assert answered


def test_where_no_thread_can_be_had_there_is_no_leave(plane, monkeypatch):
    client = plane.client()
    opened(plane, client)
    later = client.run()
    assert shown(later)

    def refused(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        answer = later.call("search", {}, works)
    assert answer["status"] == "unavailable"
    assert not shown(later)


def test_a_loop_that_dispatches_by_itself_tests_too(plane):
    client = plane.client()
    opened(plane, client)
    later = client.run()
    assert later.check("search", {}) is None
    later.record("search", result="found")
    assert plane.wait(lambda: verdicts(plane) == ["ok"])


# -- the ramp


def ramp(plane, share):
    plane.publish_config(
        circuit_policies=[{**plane.config["circuit_policies"][0], "ramp": [share], "ramp_step_s": 600.0}]
    )
    generation = plane.circuits_version[1]
    now = plane.now()
    plane.set_circuit("api", state="half_open", opened_at=now - 60, due_at=now, ramp_started_at=now - 1)
    plane._settle()
    return generation


def test_a_ramp_admits_the_workers_of_its_share_and_no_other(plane):
    clients = [plane.client(instance=f"pod-{n}", cache_dir=False) for n in range(4)]
    generation = ramp(plane, 0.5)
    expected = [in_share(f"pod-{n}", generation, 0.5) for n in range(4)]
    runs = [client.run() for client in clients]
    assert [shown(run) for run in runs] == expected
    answers = [run.call("search", {}, works) for run in runs]
    assert [answer == "found" for answer in answers] == expected


def test_what_the_admitted_see_counts_for_the_ramp(plane):
    client = plane.client()
    generation = ramp(plane, 1.0)
    client.run().call("search", {}, fails)
    assert client.flush()
    assert [entry["generation"] for entry in plane.stored("observations")] == [generation]


def test_a_run_that_lost_the_tool_does_without_it_during_the_ramp(plane):
    client = plane.client()
    stuck = client.run()
    plane.open("api")
    assert not shown(stuck)
    ramp(plane, 1.0)
    assert not shown(stuck) and shown(client.run())
