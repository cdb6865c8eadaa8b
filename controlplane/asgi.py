"""The one ASGI entry: hot routes go to the edge, the rest to Django."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

# Before the edge, whose modules need Django's apps; the Celery app so that tasks sent from here find the broker.
django = get_asgi_application()

from controlplane.celery import app as celery  # noqa: E402
from controlplane.edge.application import application as edge  # noqa: E402
from controlplane.edge.application import is_ours  # noqa: E402

__all__ = ["application", "celery"]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Route by path."""
    if scope["type"] == "lifespan" or (scope["type"] == "http" and is_ours(scope["path"])):
        await edge(scope, receive, send)
    elif scope["type"] == "http":
        await django(scope, receive, send)
    else:
        await receive()
        await send({"type": "websocket.close", "code": 1000})
