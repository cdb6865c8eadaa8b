"""`manage.py issue_token NAME --scope view`: a personal token for somebody's first script."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane import clock
from controlplane.models import User
from controlplane.services import tokens
from controlplane.services.errors import Refused


class Command(BaseCommand):
    """Make a personal token; it is printed once and stored as a hash only."""

    help = "Make a personal token of the operator API for one person. It is printed once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Whose, for what, for how long."""
        parser.add_argument("person", help="the name the person signs in with")
        parser.add_argument("--name", default="command line", help="what uses it")
        parser.add_argument("--scope", action="append", default=[], help="may be given again; default: view alone")
        parser.add_argument("--days", type=int, default=tokens.USUAL_LIFE.days, help="until it ends")

    def handle(self, *args: Any, person: str, name: str, scope: list[str], days: int, **options: Any) -> None:
        """Print the token, and nothing else."""
        found = User.objects.filter(username=person, is_active=True).first()
        if found is None:
            raise CommandError(f"nobody active signs in as {person!r}: check the spelling")
        now = clock.now()
        try:
            _, secret = tokens.issue(
                person=found, name=name, scopes=scope or ["view"], now=now, expires_at=now + timedelta(days=days)
            )
        except (Refused, OverflowError) as refused:
            raise CommandError(str(refused)) from None
        self.stdout.write(secret)
