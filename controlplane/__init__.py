"""The control plane: the domain, its services, and the two faces it shows to agents and operators."""

from controlplane.celery import app as celery_app

__all__ = ["celery_app"]
