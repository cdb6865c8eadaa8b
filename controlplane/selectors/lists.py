"""The lists of the operator API: every row with what its line shows, read in a bounded number of queries."""

from __future__ import annotations

from django.db.models import Count, Prefetch, Q, QuerySet

from controlplane.models import (
    Agent,
    AgentKey,
    AlertChannel,
    AlertDelivery,
    AllowedNetwork,
    AuditEntry,
    Circuit,
    Dependency,
    Environment,
    Outage,
    PersonalToken,
    PolicyRevision,
    ProbeRound,
    ProbeTest,
    Run,
    Session,
    Tool,
    Transition,
    Trip,
    User,
    Worker,
)
from controlplane.selectors.tools import HINTS


def environments() -> QuerySet[Environment]:
    """All of them."""
    return Environment.objects.all()


def agents() -> QuerySet[Agent]:
    """Agent applications."""
    return Agent.objects.all()


def keys() -> QuerySet[AgentKey]:
    """Agents' keys, ended ones too."""
    return AgentKey.objects.select_related("agent")


def workers() -> QuerySet[Worker]:
    """Where agents run."""
    return Worker.objects.select_related("agent", "key")


def sessions() -> QuerySet[Session]:
    """Process lives of workers."""
    return Session.objects.select_related("worker__agent", "key")


def dependencies() -> QuerySet[Dependency]:
    """Dependencies with the tools in front of them."""
    return Dependency.objects.select_related("discovered_by").prefetch_related(
        Prefetch("tools", Tool.objects.order_by("name"))
    )


def tools() -> QuerySet[Tool]:
    """Tools with the dependencies behind them, and what they say of themselves."""
    return Tool.objects.select_related("discovered_by").prefetch_related(
        Prefetch("dependencies", Dependency.objects.order_by("slug")), HINTS
    )


def circuits() -> QuerySet[Circuit]:
    """Circuits with their dependencies and tools."""
    tools_of = Prefetch("dependency__tools", Tool.objects.order_by("name"))
    return Circuit.objects.select_related("dependency", "fault_worker").prefetch_related(tools_of)


def revisions() -> QuerySet[PolicyRevision]:
    """Policy revisions of every layer."""
    return PolicyRevision.objects.select_related("dependency", "tool")


def rounds() -> QuerySet[ProbeRound]:
    """Probe rounds."""
    return ProbeRound.objects.select_related("circuit__dependency").prefetch_related("votes")


def probe_tests() -> QuerySet[ProbeTest]:
    """Try-outs of probes."""
    return ProbeTest.objects.select_related("dependency")


def channels() -> QuerySet[AlertChannel]:
    """Whom alerts go to, with how many wait and how many were given up."""
    return AlertChannel.objects.annotate(
        pending=Count("deliveries", filter=Q(deliveries__status="pending")),
        dead=Count("deliveries", filter=Q(deliveries__status="dead")),
    )


def deliveries() -> QuerySet[AlertDelivery]:
    """Alerts, one row a channel."""
    return AlertDelivery.objects.select_related("channel")


def trips() -> QuerySet[Trip]:
    """Openings and withdrawals."""
    return Trip.objects.select_related("dependency", "tool", "worker__agent", "key")


def outages() -> QuerySet[Outage]:
    """Episodes of circuits."""
    return Outage.objects.select_related("circuit__dependency")


def transitions() -> QuerySet[Transition]:
    """Changes of state or mode."""
    return Transition.objects.select_related("circuit__dependency")


def runs() -> QuerySet[Run]:
    """Task executions."""
    return Run.objects.select_related("agent", "worker")


def networks() -> QuerySet[AllowedNetwork]:
    """Private ranges that probes and webhooks may reach."""
    return AllowedNetwork.objects.all()


def audit() -> QuerySet[AuditEntry]:
    """What people did and were refused."""
    return AuditEntry.objects.all()


def people() -> QuerySet[User]:
    """Everybody with an account."""
    return User.objects.all()


def tokens(person: User, *, everyone: bool) -> QuerySet[PersonalToken]:
    """A person's tokens, or everyone's for an admin."""
    rows = PersonalToken.objects.select_related("user")
    return rows if everyone else rows.filter(user=person)
