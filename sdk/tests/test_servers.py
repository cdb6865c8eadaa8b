"""Real process managers: gunicorn with a preloaded application, Celery's prefork pool, multiprocessing both ways.

Every child is a session of its own, and what it counted arrives, however it ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import until
from recloser.testing import FakeControlPlane

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
]


def needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed")


def _plain_environment() -> dict[str, str]:
    """Ours without Django's settings, which a whole test run names and which an agent's machine does not have."""
    return {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}


@pytest.fixture
def started(plane: FakeControlPlane, tmp_path: Path) -> Iterator[object]:
    """Start programs that find `app.py` beside them and the control plane in their environment."""
    running: list[subprocess.Popen[bytes]] = []
    plane.flush_s = 60.0  # what is not told at the end is not told

    def start(source: str, *command: str) -> subprocess.Popen[bytes]:
        (tmp_path / "app.py").write_text(textwrap.dedent(source), "utf-8")
        environment = {
            **_plain_environment(), "RECLOSER_URL": plane.url, "RECLOSER_KEY": plane.key, "RECLOSER_INSTANCE": "pod-1",
            "RECLOSER_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path),
        }  # fmt: skip
        log = (tmp_path / "log").open("wb")
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        log.close()
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait(10)


def ended(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    try:
        code = process.wait(30)
    except subprocess.TimeoutExpired:
        pytest.fail((tmp_path / "log").read_text("utf-8", "replace"))
    assert code == 0, (tmp_path / "log").read_text("utf-8", "replace")


GUNICORN = """
    import os
    from recloser import Client

    client = Client()
    with client.run("preload") as run:
        run.call("in_the_master", {}, lambda: "found")

    def app(environ, start_response):
        with client.run("request") as run:
            run.call("web_search", {"path": environ["PATH_INFO"]}, lambda path: "found")
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(os.getpid()).encode()]
"""


@needs("gunicorn")
@pytest.mark.case("C01")
def test_a_preloaded_gunicorn_application_tells_what_every_worker_counted(plane, started, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = started(
        GUNICORN, sys.executable, "-m", "gunicorn", "--preload", "--workers", "3", "--threads", "2",
        "--bind", f"127.0.0.1:{port}", "--no-control-socket", "--graceful-timeout", "10", "app:app",
    )  # fmt: skip
    pids: set[bytes] = set()
    asked = 0
    lock = threading.Lock()

    def ask() -> None:
        nonlocal asked
        with (
            contextlib.suppress(OSError, urllib.error.URLError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/{asked}", timeout=5) as answer,
        ):
            pid = answer.read()
            with lock:
                pids.add(pid)
                asked += 1

    def all_asked() -> bool:
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        return len(pids) == 3 or process.poll() is not None

    assert until(all_asked, 30.0) and process.poll() is None, (tmp_path / "log").read_text()
    process.send_signal(signal.SIGTERM)
    ended(process, tmp_path)

    assert plane.counts("web_search") == {"ok": asked}
    assert plane.counts("in_the_master") == {"ok": 1}
    sessions = {batch["session"]: batch["pid"] for batch in plane.batches}
    assert len(sessions) == len(set(sessions.values())) == 4
    assert {str(pid).encode() for pid in sessions.values()} > pids
    assert {batch["instance"] for batch in plane.batches} == {"pod-1"}  # a prefork server is one worker


CELERY = """
    import os
    from pathlib import Path
    from celery import Celery
    from recloser import Client

    here = Path(__file__).parent
    for name in ("in", "done"):
        (here / name).mkdir(exist_ok=True)
    app = Celery("app", broker="filesystem://")
    app.conf.broker_transport_options = {
        "data_folder_in": str(here / "in"), "data_folder_out": str(here / "in"), "control_folder": str(here / "in"),
    }
    app.conf.worker_hijack_root_logger = False
    client = Client()
    with client.run("before") as run:
        run.call("in_the_parent", {}, lambda: "found")

    @app.task(name="work")
    def work(n):
        client.run("task").call("web_search", {"n": n}, lambda n: "found")  # never finished: nothing sends it at once
        (here / "done" / f"{n}-{os.getpid()}").touch()
"""


@needs("celery")
@pytest.mark.parametrize("more", [(), ("--max-tasks-per-child", "3")], ids=["warm end", "children that are replaced"])
def test_celerys_prefork_children_tell_what_they_counted_when_they_end(plane, started, tmp_path, more):
    process = started(
        CELERY, sys.executable, "-m", "celery", "-A", "app", "worker", "--pool", "prefork", "--concurrency", "2",
        "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING", *more,
    )  # fmt: skip
    send = "import app; [app.work.delay(n) for n in range(12)]"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    assert until(lambda: (tmp_path / "in").exists(), 20.0)
    subprocess.run([sys.executable, "-c", send], cwd=tmp_path, env=environment, check=True, timeout=60)
    assert until(lambda: len(list((tmp_path / "done").iterdir())) == 12, 40.0), (tmp_path / "log").read_text()
    process.send_signal(signal.SIGTERM)
    ended(process, tmp_path)

    pids = {int(path.name.partition("-")[2]) for path in (tmp_path / "done").iterdir()}
    assert plane.counts("web_search") == {"ok": 12}
    assert plane.counts("in_the_parent") == {"ok": 1}
    assert pids <= {batch["pid"] for batch in plane.batches}
    sessions = {batch["session"]: batch["pid"] for batch in plane.batches}
    assert len(sessions) == len(set(sessions.values()))


PROCESSES = """
    import multiprocessing
    import os
    import sys
    from recloser import Client

    client = Client()

    def work(n):
        with client.run("child") as run:
            run.call("web_search", {"n": n}, lambda n: "found")
        return os.getpid()

    def started(method):
        context = multiprocessing.get_context(method)
        children = [context.Process(target=work, args=(n,)) for n in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        assert [child.exitcode for child in children] == [0, 0]

    def pooled(method):
        with multiprocessing.get_context(method).Pool(2) as pool:
            pool.map(work, range(4), chunksize=1)
            pool.close()
            pool.join()

    if __name__ == "__main__":
        work(-1)
        {"started": started, "pooled": pooled}[sys.argv[1]](sys.argv[2])
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize(("way", "calls"), [("started", 3), ("pooled", 5)])
def test_children_of_multiprocessing_tell_what_they_counted(plane, started, tmp_path, method, way, calls):
    ended(started(PROCESSES, sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "app.py", way, method),
          tmp_path)  # fmt: skip
    assert plane.counts("web_search") == {"ok": calls}
    assert len({one["id"] for one in plane.stored("runs") if one["status"] == "finished"}) == calls
    sessions = {batch["session"]: batch["pid"] for batch in plane.batches}
    assert len(sessions) == len(set(sessions.values())) >= 2
