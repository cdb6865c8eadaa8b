"""Real schedulers and Celery workers on the test database, and patience with a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.db import connection

from controlplane.models import ProcessBeat

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
SCHEDULER = (sys.executable, "manage.py", "run_scheduler")
WORKER = (
    *(sys.executable, "-m", "celery", "-A", "controlplane", "worker", "--pool", "threads", "--concurrency", "4"),
    *("--loglevel", "info", "--without-gossip", "--without-mingle", "--without-heartbeat"),
)


def until(wanted: Callable[[], T], within_s: float = 15.0, what: str = "") -> T:
    """Ask again and again until the answer is true; fail with words when the time is up."""
    deadline = time.monotonic() + within_s
    while not (found := wanted()):
        assert time.monotonic() < deadline, f"not within {within_s} s: {what or wanted}"
        time.sleep(0.02)
    return found


@dataclass
class Process:
    """One child and its log."""

    command: tuple[str, ...]
    child: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text()

    @property
    def beat(self) -> ProcessBeat | None:
        return ProcessBeat.objects.filter(name__endswith=f":{self.child.pid}").first()

    def kill(self) -> None:
        """As a crash would."""
        self.child.send_signal(signal.SIGKILL)
        self.child.wait(5)

    def end(self, patience_s: float = 8.0) -> int:
        self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(patience_s)
        finally:
            self.child.kill()


class Processes:
    """Everything that these tests have started; who was killed is replaced when asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Process] = []

    def scheduler(self, place: int = 0) -> Process:
        """The scheduler that was started first of those alive, or the next one; new if there is none."""
        return self._lives(self._at(SCHEDULER, place))

    def worker(self) -> Process:
        """A Celery worker that takes tasks."""
        return self._lives(self._at(WORKER, 0))

    def vantage(self, name: str) -> Process:
        """A Celery worker that stands at this place."""
        return self._lives(self._at(("env", f"RECLOSER_VANTAGE={name}", *WORKER), 0))

    def both(self) -> tuple[Process, Process]:
        """A scheduler that leads and hands its work to a Celery worker."""
        worker, scheduler = self._at(WORKER, 0), self._at(SCHEDULER, 0)
        self._lives(worker)
        self._lives(scheduler)
        hands_on = {"leader": True, "broker": "ok"}
        until(lambda: hands_on.items() <= scheduler.beat.detail.items(), what="the scheduler hands work to Celery")
        return scheduler, worker

    def end(self) -> None:
        for process in reversed(self._started):
            if process.child.poll() is None:
                process.child.kill()
                process.child.wait(5)

    def say(self) -> None:
        """For pytest to show where a test has failed."""
        for process in self._started:
            sys.stdout.write(process.said)

    def _at(self, command: tuple[str, ...], place: int) -> Process:
        alive = [each for each in self._started if each.command == command and each.child.poll() is None]
        return alive[place] if place < len(alive) else self._start(command)

    def _start(self, command: tuple[str, ...]) -> Process:
        log = self._folder / f"{len(self._started)}.log"
        with log.open("wb") as output:
            child = subprocess.Popen(command, cwd=ROOT, env=_environment(), stdout=output, stderr=output)
        self._started.append(Process(command, child, log))
        return self._started[-1]

    def _lives(self, process: Process) -> Process:
        until(lambda: process.beat or process.child.poll() is not None, 40, "a first beat")
        assert process.child.poll() is None, process.said
        return process


def _environment() -> dict[str, str]:
    """Ours, with the test's database in the place of the one it was copied from."""
    parts = urlsplit(settings.DATABASE_URL)
    url = urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))
    return {**os.environ, "DATABASE_URL": url, "RECLOSER_LOG_LEVEL": "INFO", "PYTHONUNBUFFERED": "1"}
