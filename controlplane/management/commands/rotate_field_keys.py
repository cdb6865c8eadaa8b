"""`manage.py rotate_field_keys`: seal every stored secret under the newest key."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.services import alerts, probes


class Command(BaseCommand):
    """Put the new key first in RECLOSER_FIELD_KEYS, restart, run this, and then take the old key out."""

    help = "Re-encrypt the secrets of probes and channels under the first key of RECLOSER_FIELD_KEYS."

    def handle(self, *args: Any, **options: Any) -> None:
        """Fail, and say which, if a secret can be opened by no key."""
        results = [probes.renew_secrets(), alerts.renew_secrets()]
        self.stdout.write(f"{sum(done for done, _ in results)} secrets are sealed under the newest key")
        if lost := [name for _, names in results for name in names]:
            raise CommandError(f"no key opens these, enter them anew: {', '.join(lost)}")
