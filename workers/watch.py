"""Who notices that the scheduler is silent: each Celery worker, which then sends what has to be told by itself."""

import threading
from datetime import datetime, timedelta
from typing import Any

import structlog
from celery.signals import worker_ready, worker_shutdown

from controlplane import clock
from controlplane.selectors import due
from controlplane.services import alert_causes, alerts
from workers import database
from workers.tasks.alerts import run_deliveries

EVERY_S = 5.0
PATIENCE = timedelta(seconds=30)
A_FEW = 50

log = structlog.get_logger(__name__)


class SchedulerWatch:
    """A thread of a Celery worker that looks every few seconds, until the Celery worker ends."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._alive_at: datetime | None = None

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._run, name="scheduler-watch", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()

    def look(self) -> bool:
        """Whether the scheduler is silent; then alerts are announced and sent from here, whoever else does so."""
        now, heard = clock.now(), due.scheduler_heard_at()
        known = self._alive_at or now  # one that is started after this Celery worker has time to come up
        self._alive_at = known if heard is None else max(known, heard)
        if now - self._alive_at < PATIENCE:
            return False
        alert_causes.tell_of_silence(since=self._alive_at, now=now)
        alerts.dispatch_due_transitions(now=now, limit=A_FEW)
        claims = alerts.claim_deliveries(now=clock.now(), limit=A_FEW)
        run_deliveries.run([(str(key), attempt) for key, attempt in claims])
        return True

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.look()
            except Exception as error:
                log.warning("nobody looked after the scheduler", error=type(error).__name__)
            finally:
                database.release()
            self._ended.wait(EVERY_S)


_watch = SchedulerWatch()


@worker_ready.connect
def begin(**_: Any) -> None:
    """The Celery worker takes tasks from here on."""
    _watch.start()


@worker_shutdown.connect
def end(**_: Any) -> None:
    """The Celery worker ends on purpose."""
    _watch.stop()
