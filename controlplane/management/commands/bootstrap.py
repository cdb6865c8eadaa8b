"""Bring an installation, empty or old, to where people and agents can use it. Running it again changes nothing."""

import os
import secrets
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction
from environs import FileAwareEnv

from controlplane import clock
from controlplane.models import Agent, AgentKey, Environment, User
from controlplane.models.access import Role
from controlplane.services import access

# Any number, as long as it is ours: two processes that start at once must not both be first.
LOCK = 7_243_001
ACTOR = "bootstrap"


class Command(BaseCommand):
    """What is secret is shown once, at the time it is made; what the environment gives is never shown."""

    help = "Make the first admin, environment, agent and agent key where there are none yet."
    env = FileAwareEnv(strip_whitespace=True)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options for whoever wants it all in one process."""
        parser.add_argument("--migrate", action="store_true", help="bring the database up to date first")
        parser.add_argument("--collectstatic", action="store_true", help="gather the dashboard's files first")

    def handle(self, *args: Any, migrate: bool, collectstatic: bool, **options: Any) -> None:
        """Prepare, then fill in what is missing; what was made is told only after it is committed."""
        if migrate:
            call_command("migrate", interactive=False, verbosity=0)
        if collectstatic:
            call_command("collectstatic", interactive=False, verbosity=0)
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            told = [*self._first_admin(), *self._first_key()]
        for line in told:
            self.stdout.write(line)

    def _first_admin(self) -> list[str]:
        """Somebody who can make the other accounts."""
        if User.objects.filter(role=Role.ADMIN, is_active=True).exists():
            return []
        name = self.env.str("RECLOSER_ADMIN_USER", "") or "admin"
        given = self.env.str("RECLOSER_ADMIN_PASSWORD", "")
        password = given or secrets.token_urlsafe(12)
        _check(name, password)
        User.objects.create_user(name, password=password, role=Role.ADMIN)
        if given:
            return [f"first admin: {name}, with the password from RECLOSER_ADMIN_PASSWORD"]
        return [f"first admin: user {name}, password {password} (shown only now: note it down)"]

    def _first_key(self) -> list[str]:
        """Something that the first agent can be given."""
        if AgentKey.objects.exists():
            return []
        agent = _first_agent()
        if given := self.env.str("RECLOSER_AGENT_KEY", ""):
            _adopt(agent, given)
            return [f"first agent key: the one from RECLOSER_AGENT_KEY, for agent {agent} in {agent.environment}"]
        _, token = access.issue_key(
            environment=agent.environment, agent=agent, label="first key", actor=ACTOR, now=clock.now()
        )
        # Before the commit: a key that is nowhere written down would be lost.
        kept = _keep(token)
        return [f"first agent key: {token} for agent {agent} in {agent.environment} (shown only now{kept})"]


def _check(name: str, password: str) -> None:
    if User.objects.filter(username=name).exists():
        raise CommandError(f"user {name!r} exists and is no active admin: set RECLOSER_ADMIN_USER to another name")
    try:
        validate_password(password)
    except ValidationError as error:
        raise CommandError(f"RECLOSER_ADMIN_PASSWORD will not do: {' '.join(error.messages)}") from None


def _first_agent() -> Agent:
    """The agent of the first key, in the environment that there is or a new one called prod."""
    now = clock.now()
    environment = Environment.objects.order_by("created_at").first()
    if environment is None:
        environment = Environment.objects.create(slug="prod", name="Production", created_at=now)
    agent, _ = Agent.objects.get_or_create(
        environment=environment, slug="first-agent", defaults={"name": "First agent", "created_at": now}
    )
    return agent


def _adopt(agent: Agent, token: str) -> None:
    """Take a key that was made elsewhere (a deployment's secret store); only its hash is kept."""
    if (read := access.read_token(token)) is None:
        raise CommandError(
            "RECLOSER_AGENT_KEY has not the form rcl_PREFIX_SECRET (prefix up to 16 letters and digits, secret 32 or"
            " more letters, digits, - and _): make one of that form, or unset it to have one made"
        )
    AgentKey.objects.create(
        environment=agent.environment,
        agent=agent,
        prefix=read.prefix,
        digest=read.digest,
        label="from RECLOSER_AGENT_KEY",
        created_at=clock.now(),
        created_by=ACTOR,
    )


def _keep(token: str) -> str:
    """Write the key to the data folder, for its owner alone; returns where, to be told."""
    if not (folder := os.environ.get("RECLOSER_DATA_DIR")):
        return ""
    path = Path(folder) / "agent-key"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{token}\n")
    return f", and kept in {path}"
