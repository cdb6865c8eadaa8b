"""`manage.py new_epoch`: after a restore, so that agents accept documents with lower numbers than they have seen."""

from typing import Any

from django.core.management.base import BaseCommand

from controlplane.delivery import versions


class Command(BaseCommand):
    """Run it once the database is restored and migrated; running it again does no harm, every agent fetches anew."""

    help = "Begin a new epoch of all documents, after a restore: agents accept it whatever they have seen before."

    def handle(self, *args: Any, **options: Any) -> None:
        """Say how many environments begin anew."""
        self.stdout.write(f"{versions.new_epoch()} environments begin a new epoch")
