"""A fixed cast that every test of the control plane may call on stage: `cast()` makes all of it, in one go.

Two environments (prod, protected, and staging) with an agent `research` each, and `support` in prod only. Four people,
one a role. Behind the tools of prod stand three dependencies; `search-api` has two tools: one circuit serves both.
"""

from __future__ import annotations

import functools
import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib.auth.hashers import make_password
from django.db import connection
from recloser.core.types import SideEffectClass

from controlplane.models import (
    Agent,
    AgentKey,
    Circuit,
    Dependency,
    DocumentVersion,
    Environment,
    Session,
    Tool,
    User,
    Worker,
)
from controlplane.models.access import Role
from controlplane.services import access

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
PASSWORD = "correct horse battery staple"

RESEARCH_TOKEN = "rcl_prodresearch_" + "r" * 43
SUPPORT_TOKEN = "rcl_prodsupport_" + "s" * 43
STAGING_TOKEN = "rcl_stagresearch_" + "t" * 43

PEOPLE = {
    "ann": Role.VIEWER,
    "otto": Role.ON_CALL,
    "petra": Role.PRODUCT_OWNER,
    "ada": Role.ADMIN,
}


@dataclass(frozen=True)
class Cast:
    """Who is on stage."""

    prod: Environment
    staging: Environment
    research: Agent
    support: Agent
    staging_research: Agent
    research_key: AgentKey
    support_key: AgentKey
    staging_key: AgentKey
    ann: User
    """viewer"""
    otto: User
    """on-call"""
    petra: User
    """product owner"""
    ada: User
    """admin"""
    search_api: Dependency
    """tools web_search and news_search, read_only"""
    crm_db: Dependency
    """tool db_lookup, read_only"""
    payments: Dependency
    """tool refund, side_effect"""
    staging_search_api: Dependency
    tools: Mapping[str, Tool]
    """prod's tools by name"""
    workers: tuple[Worker, ...]
    """pod-1, pod-2 and pod-3 of prod's research"""
    sessions: tuple[Session, ...]
    """one of each worker"""


def cast(at: datetime = NOON) -> Cast:
    """Make the whole cast; everyone was created, and every session last seen, at `at`."""
    prod, staging = environment("prod", at=at, protected=True), environment("staging", at=at)
    research, support = agent(prod, "research", at=at), agent(prod, "support", at=at)
    staging_research = agent(staging, "research", at=at)
    research_key = key(research, RESEARCH_TOKEN, at=at)
    dependencies = {slug: dependency(prod, slug, at=at) for slug in ("search-api", "crm-db", "payments")}
    staging_search_api = dependency(staging, "search-api", at=at)
    tool(staging_search_api, "web_search", at=at)
    workers = tuple(worker(research_key, f"pod-{number}", at=at) for number in (1, 2, 3))
    return Cast(
        prod=prod,
        staging=staging,
        research=research,
        support=support,
        staging_research=staging_research,
        research_key=research_key,
        support_key=key(support, SUPPORT_TOKEN, at=at),
        staging_key=key(staging_research, STAGING_TOKEN, at=at),
        search_api=dependencies["search-api"],
        crm_db=dependencies["crm-db"],
        payments=dependencies["payments"],
        staging_search_api=staging_search_api,
        tools=_tools(dependencies, at),
        workers=workers,
        sessions=tuple(session(each, at=at) for each in workers),
        **{name: person(name, role) for name, role in PEOPLE.items()},
    )


def _tools(dependencies: Mapping[str, Dependency], at: datetime) -> Mapping[str, Tool]:
    search, crm, payments = (dependencies[slug] for slug in ("search-api", "crm-db", "payments"))
    made = [
        tool(search, "web_search", at=at),
        tool(search, "news_search", at=at),
        tool(crm, "db_lookup", at=at),
        tool(payments, "refund", at=at, side_effect=SideEffectClass.SIDE_EFFECT),
    ]
    return {each.name: each for each in made}


def environment(slug: str, *, at: datetime = NOON, protected: bool = False) -> Environment:
    """An environment with its document versions."""
    made = Environment.objects.create(slug=slug, name=slug.title(), protected=protected, created_at=at)
    DocumentVersion.objects.create(environment=made, epoch="e1")
    return made


def agent(environment: Environment, slug: str, *, at: datetime = NOON) -> Agent:
    """A named agent application."""
    return Agent.objects.create(environment=environment, slug=slug, name=slug.title(), created_at=at)


def key(agent: Agent, token: str, *, at: datetime = NOON) -> AgentKey:
    """A key whose token the test knows: rcl_PREFIX_SECRET."""
    _, prefix, secret = token.split("_", 2)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return AgentKey.objects.create(
        environment=agent.environment, agent=agent, prefix=prefix, digest=digest, created_at=at, created_by="ada"
    )


def key_of(token: str) -> AgentKey | None:
    """The key that a token is, found as the edge finds it; None if it is nobody's."""
    read = access.read_token(token)
    if read is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute(access.LOOKUP, [read.prefix])
        found = cursor.fetchone()
    return AgentKey.objects.get(pk=found[0]) if found and access.matches(read, found[1]) else None


def worker(key: AgentKey, instance: str, *, at: datetime = NOON) -> Worker:
    """Where an agent runs."""
    return Worker.objects.create(
        environment=key.environment, agent=key.agent, key=key, instance=instance, first_seen_at=at, last_seen_at=at
    )


def session(worker: Worker, *, at: datetime = NOON) -> Session:
    """One process life of a worker."""
    return Session.objects.create(id=uuid.uuid4(), worker=worker, key=worker.key, started_at=at, last_seen_at=at)


def dependency(environment: Environment, slug: str, *, at: datetime = NOON) -> Dependency:
    """A dependency and its closed circuit."""
    made = Dependency.objects.create(environment=environment, slug=slug, created_at=at)
    Circuit.objects.create(dependency=made, environment=environment)
    return made


def tool(
    dependency: Dependency,
    name: str,
    *,
    at: datetime = NOON,
    side_effect: SideEffectClass = SideEffectClass.READ_ONLY,
) -> Tool:
    """A tool of a confirmed class behind one dependency."""
    made = Tool.objects.create(
        environment=dependency.environment,
        name=name,
        side_effect=side_effect.value,
        class_confirmed=True,
        operation=name,
        created_at=at,
    )
    made.dependencies.add(dependency)
    return made


def person(name: str, role: Role) -> User:
    """Someone who may sign in with PASSWORD."""
    return User.objects.create(username=name, email=f"{name}@example.com", role=role, password=_hashed())


@functools.cache
def _hashed() -> str:
    return make_password(PASSWORD)
