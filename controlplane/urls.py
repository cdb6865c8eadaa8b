"""Everything that Django serves; the hot routes are answered before it, in controlplane.edge."""

from django.urls import include, path

from controlplane import health

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("api/v1/", include("controlplane.api.urls")),
    path("", include("dashboard.urls")),
]
