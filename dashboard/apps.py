"""Django's handle on the dashboard."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """Templates, static files, views."""

    name = "dashboard"
