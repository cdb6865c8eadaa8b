"""`manage.py verify_audit`: whether the audit is whole, from the last entry that retention dropped to the newest."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.services import audit


class Command(BaseCommand):
    """Walk the chain of hashes; an entry that was changed, added or taken out breaks it."""

    help = (
        "Check the audit's chain of hashes. Exits with 1, and names the first entry that does not fit, if one does not."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Say how many entries fit together, or where they cease to."""
        verdict = audit.verify()
        if verdict.broken_at is not None:
            raise CommandError(
                f"the chain is broken at entry {verdict.broken_at}, after {verdict.entries} that fit: it, or one "
                "before it, was changed or taken out. Keep the database as it is, and compare with a backup"
            )
        self.stdout.write(f"{verdict.entries} entries, and every one fits the one before it")
