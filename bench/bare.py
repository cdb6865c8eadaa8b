"""The Celery application under measurement, with one bare task beside ours: the same request, and nothing else."""

import httpx
from celery import shared_task

from controlplane.celery import app

__all__ = ["app", "ask"]


@shared_task(ignore_result=True)
def ask(url: str) -> None:
    """One GET; what a probe would be without lease, verdict, guard and record."""
    from workers.egress import tls_context  # once Celery has set Django up

    with httpx.Client(verify=tls_context(), trust_env=False) as http:
        http.get(url)
