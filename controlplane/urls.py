"""Everything that Django serves; the hot routes are answered before it, in controlplane.edge."""

from django.urls import include, path

urlpatterns = [
    path("", include("dashboard.urls")),
]
