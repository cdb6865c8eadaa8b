"""`manage.py run_scheduler`: one of the schedulers; start as many as you like, one leads."""

import os
import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

PATIENCE_S = 1.7
"""After SIGTERM; own work that is still under way is claimed again by the next leader."""


class Command(BaseCommand):
    """Runs until SIGTERM or SIGINT, and ends within two seconds of it."""

    requires_system_checks = []  # pages that do not load are no reason not to probe
    help = "Claim what is due (probes, alerts, housekeeping) and hand it to Celery workers."

    def handle(self, *args: Any, **options: Any) -> None:
        """Lead or stand by."""
        from workers.scheduler import Scheduler

        scheduler = Scheduler()

        def end(number: int, frame: object) -> None:
            scheduler.stop()
            timer = threading.Timer(PATIENCE_S, os._exit, [0])
            timer.daemon = True
            timer.start()

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        scheduler.run()
