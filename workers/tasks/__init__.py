"""What Celery workers do: one kind of work each."""

from workers import beats, vantage, watch
from workers.tasks import alerts, housekeeping, probes, vendor_status

__all__ = ["alerts", "beats", "housekeeping", "probes", "vantage", "vendor_status", "watch"]
