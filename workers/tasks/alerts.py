"""Sending alerts: webhooks side by side on one event loop, mails in threads."""

from concurrent.futures import as_completed

import structlog
from celery import shared_task

from controlplane import background, clock, egress
from controlplane.models import AlertChannel
from controlplane.selectors.networks import allowed_networks
from controlplane.services import alerts
from controlplane.services.alerts import Message, Result
from workers import database
from workers.notifiers import email, pagerduty, slack, webhook
from workers.way_out import way_out

Kind = AlertChannel.Kind
OVER_HTTP = {Kind.WEBHOOK: webhook.send, Kind.SLACK: slack.send, Kind.PAGERDUTY: pagerduty.send}

log = structlog.get_logger(__name__)


@shared_task(ignore_result=True)
def run_deliveries(claims: list[tuple[str, int]]) -> None:
    """Try these once each. A claim that is settled, or was claimed again since, is left out."""
    messages = alerts.messages(claims)
    networks = allowed_networks() if messages else ()
    waiting = {background.submit(_send(message, networks)): message for message in messages}
    database.release()
    for answer in as_completed(waiting):
        _finish(waiting[answer], answer.result())
        database.release()


async def _send(message: Message, networks: tuple[egress.Network, ...]) -> Result:
    if message.problem:
        return Result(message.problem, final=True)
    try:
        if message.kind == Kind.EMAIL:
            return await background.in_thread(lambda: email.send(message))
        return await OVER_HTTP[Kind(message.kind)](message, way_out(networks))
    except Exception as error:
        log.exception("a notifier failed", delivery=str(message.id))
        return Result(f"our own fault ({type(error).__name__}): the log of the Celery worker says more")


def _finish(message: Message, result: Result) -> None:
    try:
        alerts.finish_delivery(delivery_id=message.id, attempt=message.attempt, result=result, now=clock.now())
    except Exception:
        log.exception("a delivery was not written down", delivery=str(message.id))
        return
    log.info("alerted", delivery=str(message.id), attempt=message.attempt, error=result.error or None)
