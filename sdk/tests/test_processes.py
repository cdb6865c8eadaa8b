"""Forks, threads and exits: every process life has its own session, thread and sockets, and tells each thing once."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable

import pytest
from conftest import FAST, failing, until, working
from recloser import Client
from recloser.testing import FakeControlPlane, error

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def in_child(work: Callable[[], bool]) -> int:
    """Fork a child that runs `work` and leaves without any exit handler; its pid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of threads at fork: that is what is tested
        pid = os.fork()
    if pid:
        return pid
    code = 1
    faulthandler.dump_traceback_later(30, exit=True)  # a child that hangs says where, and ends
    try:
        code = 0 if work() else 1
    finally:
        os._exit(code)


def succeeded(pid: int, timeout_s: float = 20.0) -> bool:
    def ended() -> tuple[int, int] | None:
        found = os.waitpid(pid, os.WNOHANG)
        return found if found[0] else None

    found = until(ended, timeout_s)
    if not found:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return bool(found) and os.waitstatus_to_exitcode(found[1]) == 0


@pytest.mark.case("C01")
def test_forked_children_follow_the_config_and_tell_their_own_trips(plane, connect):
    """C01: built in the parent, four children, then a new version; each with a connection of its own."""
    client = connect()
    assert until(lambda: client.status()["config"]["version"] == ["e1", 7])
    with client.run() as run:
        run.call("before_fork", {}, working)

    def child() -> bool:
        with client.run() as run:
            run.call("web_search", {}, working)
            if not until(lambda: client.status()["config"]["version"] == ["e1", 8], 10.0):
                return False
            for k in range(3):
                run.call("web_search", {"k": k}, failing)
        return client.flush(10.0)

    pids = [in_child(child) for _ in range(4)]
    assert plane.wait(lambda: len(plane.lasts) >= 5, 10.0)  # five sessions
    plane.publish_config()
    assert [succeeded(pid) for pid in pids] == [True] * 4

    trips = [trip for trip in plane.stored("trips") if trip["tool"] == "web_search" and trip["scope"] == "run"]
    assert len({trip["run"] for trip in trips}) == 4
    assert plane.counts("web_search") == {"ok": 4, "retryable_error": 12}
    sessions = {batch["session"]: batch["pid"] for batch in plane.batches}
    assert len(sessions) == len(set(sessions.values())) >= 5
    assert client.flush(5)
    assert plane.counts("before_fork") == {"ok": 1}


def test_what_the_parent_had_not_sent_is_sent_by_the_parent_alone(plane, connect):
    plane.flush_s = 60.0
    client = connect()
    assert plane.wait(lambda: plane.batches)
    run = client.run("parents")
    for k in range(20):
        run.call("web_search", {"k": k}, working)

    def child() -> bool:
        run.call("in_child", {}, working)  # the parent's run goes on in the child
        run.finish()
        return client.flush(10.0)

    assert succeeded(in_child(child))
    run.finish()
    assert client.flush(5)
    assert plane.counts("web_search") == {"ok": 20}
    assert plane.counts("in_child") == {"ok": 1}
    assert [one["id"] for one in plane.stored("runs")].count(run.id) == 1


def test_a_fork_while_locks_are_held_does_not_hang_the_child(plane, connect):
    client = connect()
    run = client.run()
    stop = threading.Event()

    def busy() -> None:
        k = 0
        while not stop.is_set():
            k += 1
            run.call("web_search", {"k": k}, working)
            client.fold()

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert succeeded(in_child(lambda: run.call("after", {}, working) == "found" and client.flush(10.0)))
    finally:
        stop.set()
        for thread in threads:
            thread.join(5)


def test_a_forked_child_does_not_inherit_the_parents_evidence(plane, connect):
    client = connect()
    with client.run() as run:
        for k in range(2):
            run.call("web_search", {"k": k}, failing)
    with client.run() as run:
        for k in range(2):
            run.call("web_search", {"k": k}, failing)

    def child() -> bool:
        client.run().call("web_search", {}, failing)
        return client.status()["worker_open"] == []

    assert succeeded(in_child(child))


def _pooled(number: int) -> int:
    """Runs in a child of `multiprocessing` that leaves without flushing."""
    client = _shared[0]
    with client.run("pooled") as run:
        run.call("pooled", {"n": number}, working)
    return os.getpid()


_shared: list[Client] = []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_of_multiprocessing_flush_when_they_end(plane, connect):
    plane.flush_s = 60.0
    client = connect()
    assert plane.wait(lambda: plane.batches)
    _shared[:] = [client]
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_pooled, args=(n,)) for n in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(20)
        assert child.exitcode == 0
    assert plane.wait(lambda: plane.counts("pooled") == {"ok": 3}, 5.0)


SCRIPT = """
    import sys
    from recloser import Client
    client = Client(sys.argv[1], sys.argv[2], cache_dir=False, timeout_s=float(sys.argv[3]))
    run = client.run("script")
    for k in range(7):
        run.call("scripted", {"k": k}, lambda **_: "found")
    run.finish("done")
"""


def script(url: str, key: str, timeout_s: float) -> tuple[float, subprocess.CompletedProcess[str]]:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), url, key, str(timeout_s)],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    return time.monotonic() - began, done


def test_a_process_that_ends_at_once_has_told_everything(plane):
    _, done = script(plane.url, plane.key, 5.0)
    assert done.returncode == 0, done.stderr
    assert plane.counts("scripted") == {"ok": 7}
    assert [one["status"] for one in plane.stored("runs")] == ["finished"]


def test_a_process_ends_in_bounded_time_when_nobody_answers():
    import socket

    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(1)
        took, done = script(f"http://127.0.0.1:{deaf.getsockname()[1]}", "rcl_x", 30.0)
    assert done.returncode == 0 and took < 10.0
    assert "Traceback" not in done.stderr


def test_starting_without_the_control_plane_finds_it_later(tmp_path):
    with FakeControlPlane() as plane:
        port, key = plane.port, plane.key
    began = time.monotonic()
    client = Client(f"http://127.0.0.1:{port}", key, cache_dir=False, pace=FAST)
    with client.run() as run:
        assert run.call("web_search", {}, working) == "found"
    assert time.monotonic() - began < 1.0
    assert until(lambda: "no answer" in (client.status()["problem"] or ""))
    with FakeControlPlane(port=port) as plane:
        assert plane.wait(lambda: plane.counts("web_search") == {"ok": 1}, 10.0)
        assert until(lambda: client.status()["feed"] == "live")
        assert client.status()["problem"] is None
        client.close(0.5)


def test_losing_the_control_plane_loses_nothing(tmp_path):
    with FakeControlPlane() as plane:
        port = plane.port
        client = Client(plane.url, plane.key, cache_dir=tmp_path, pace=FAST)
        with client.run() as run:
            run.call("web_search", {"k": 1}, working)
        assert client.flush(5)
    with client.run() as run:
        for k in range(50):
            run.call("web_search", {"k": k}, working)
    with FakeControlPlane(port=port) as again:
        assert again.wait(lambda: again.counts("web_search") == {"ok": 50}, 10.0)
        client.close(0.5)


def test_many_threads_count_every_call(plane, connect):
    client = connect()

    def agent() -> None:
        for _ in range(20):
            with client.run() as run:
                for k in range(25):
                    run.call("web_search", {"k": k}, working)

    threads = [threading.Thread(target=agent) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert client.flush(10)
    assert plane.counts("web_search") == {"ok": 8 * 20 * 25}
    assert len({one["id"] for one in plane.stored("runs")}) == 160


@pytest.mark.case("C04")
def test_reconnects_spread_over_time():
    """C04 by arithmetic: 2,000 agents lose the stream at 0 s, the server is back at 5 s."""
    from recloser.link import BackOff, Pace

    pace, per_second, connected = Pace(), dict.fromkeys(range(120), 0), []
    for _ in range(2000):
        back_off, at = BackOff(pace.stream_base_s, pace.stream_cap_s), 0.0
        while True:
            at += back_off.next()
            per_second[int(at)] += 1
            if at >= 5.0:
                connected.append(at)
                break
    assert max(per_second.values()) <= 200
    assert max(connected) <= 60.0


def test_a_client_that_is_closed_goes_on_locally(plane, connect):
    client = connect()
    client.close(2.0)
    client.close()
    with client.run() as run:
        assert run.call("web_search", {}, working) == "found"
        for k in range(3):
            run.call("web_search", {"k": k}, failing)
        assert run.notice()
    assert client.status()["mode"] == "closed"
    assert client.flush(0.1) is False


THREADS_IMPORTS = """
    import sys, time
    from recloser import Client, Pace
    client = Client(sys.argv[1], sys.argv[2], cache_dir=sys.argv[4], pace=Pace(retry_base_s=0.05, stream_base_s=0.05))
    before = set(sys.modules)
    run = client.run("script")
    run.call("scripted", {"k": 1}, lambda **_: "found")
    run.finish("done")
    end = time.monotonic() + 10
    while client.status()["feed"] != "live" or not client.flush(5) or client.status()["config"]["source"] != "server":
        assert time.monotonic() < end
    client.close()
    print(*sorted(set(sys.modules) - before))
"""


def test_the_thread_imports_nothing(plane, tmp_path):
    """A fork while it imports would leave the child with a module that nobody finishes (seen: `encodings.idna`)."""
    plane.script("batch", error(503, "unavailable"))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(THREADS_IMPORTS), plane.url, plane.key, "5", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
