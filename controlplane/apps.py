"""Django's handle on the control plane."""

from django.apps import AppConfig


class ControlPlaneConfig(AppConfig):
    """The domain's app: models, services, checks."""

    name = "controlplane"
    verbose_name = "Recloser"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from controlplane import checks  # noqa: F401
