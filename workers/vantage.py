"""A Celery worker that stands somewhere else: `RECLOSER_VANTAGE` names its place, whose probes alone it takes."""

from typing import Any

from celery.signals import celeryd_after_setup
from django.conf import settings

from controlplane.selectors.places import HERE


def queue_of(place: str) -> str | None:
    """The queue of a place; None: the one of all other work."""
    return None if place == HERE else f"vantage.{place}"


@celeryd_after_setup.connect
def take_own_queue(instance: Any = None, **_: Any) -> None:
    """Before it begins to consume."""
    if settings.VANTAGE:
        instance.app.amqp.queues.select([queue_of(settings.VANTAGE)])
