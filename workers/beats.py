"""Processes that say that they live; health and the scheduler believe nothing else."""

import os
import socket
import threading
from typing import Any

import structlog
from celery.signals import worker_ready, worker_shutdown

from controlplane.services import system
from workers import database

EVERY_S = 2.0

log = structlog.get_logger(__name__)


def own_name() -> str:
    """This process among all others."""
    return f"{socket.gethostname()}:{os.getpid()}"


class WorkerBeat:
    """A thread of a Celery worker that reports until the Celery worker ends."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._detail: dict[str, Any] = {}

    def start(self, detail: dict[str, Any]) -> None:
        """Begin to report."""
        self._detail = detail
        threading.Thread(target=self._run, name="beat", daemon=True).start()

    def stop(self) -> None:
        """Take the report back: this is an end on purpose."""
        self._ended.set()
        try:
            system.end_beat(kind="worker", name=own_name())
        except Exception as error:
            log.warning("the last beat was not taken back", error=type(error).__name__)
        finally:
            database.release()

    def _run(self) -> None:
        silent = False
        while not self._ended.is_set():
            try:
                system.beat(kind="worker", name=own_name(), detail=self._detail)
                silent = False
            except Exception as error:
                if not silent:
                    log.warning("no beat: the database does not answer", error=type(error).__name__)
                silent = True
            finally:
                database.release()
            self._ended.wait(EVERY_S)


_beat = WorkerBeat()


@worker_ready.connect
def begin(sender: Any = None, **_: Any) -> None:
    """The Celery worker takes tasks from here on."""
    controller = getattr(sender, "controller", sender)
    _beat.start({"concurrency": getattr(controller, "concurrency", None), "pid": os.getpid()})


@worker_shutdown.connect
def end(**_: Any) -> None:
    """The Celery worker ends on purpose."""
    _beat.stop()
