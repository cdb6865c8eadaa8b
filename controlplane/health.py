"""/healthz: the process lives. /readyz: what it can reach; 503 only while Postgres is away."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from controlplane.selectors.health import health


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers; it asks nobody else."""
    return JsonResponse({"alive": True}, headers={"Cache-Control": "no-store"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """The truth about everything behind this process."""
    found = health()
    return JsonResponse(found.plain(), status=200 if found.ready else 503, headers={"Cache-Control": "no-store"})
