"""Processes that say that they live; health and the scheduler believe nothing else."""

import os
import socket
import threading
from typing import Any

import structlog
from celery.signals import worker_ready, worker_shutdown
from django.conf import settings

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

    def start(self, consumer: Any) -> None:
        """Begin to report."""
        threading.Thread(target=self._run, args=(consumer,), name="beat", daemon=True).start()

    def stop(self) -> None:
        """Take the report back: this is an end on purpose."""
        self._ended.set()
        try:
            system.end_beat(kind="worker", name=own_name())
        except Exception as error:
            log.warning("the last beat was not taken back", error=type(error).__name__)
        finally:
            database.release()

    def _run(self, consumer: Any) -> None:
        silent = False
        while not self._ended.is_set():
            try:
                system.beat(kind="worker", name=own_name(), detail=_detail(consumer))
                silent = False
            except Exception as error:
                if not silent:
                    log.warning("no beat: the database does not answer", error=type(error).__name__)
                silent = True
            finally:
                database.release()
            self._ended.wait(EVERY_S)


def _detail(consumer: Any) -> dict[str, Any]:
    """A Celery worker that waits to reach its broker again lives, but takes nothing."""
    broker = getattr(consumer, "connection", None)
    return {"listening": bool(broker and broker.connected), "pid": os.getpid(), "vantage": settings.VANTAGE}


_beat = WorkerBeat()


@worker_ready.connect
def begin(sender: Any = None, **_: Any) -> None:
    """The Celery worker takes tasks from here on; `sender` is its consumer."""
    _beat.start(sender)


@worker_shutdown.connect
def end(**_: Any) -> None:
    """The Celery worker ends on purpose."""
    _beat.stop()
