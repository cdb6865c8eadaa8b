"""Who reports from an environment, and whom it tells: for the Settings page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet

from controlplane.models import (
    Agent,
    AgentKey,
    AlertChannel,
    AllowedNetwork,
    DocumentVersion,
    Environment,
    LocalOverride,
    Session,
    Worker,
)
from controlplane.selectors.board import LIVE_WITHIN

SHOWN_WITHIN = timedelta(days=1)
SHOWN = 200


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker with what its live sessions say."""

    worker: Worker
    sessions: int
    feed: str
    stale: bool
    config: int | None
    old_config: bool
    overrides: list[LocalOverride]
    """What its break-glass file forces, as far as it told."""


@dataclass(frozen=True, slots=True)
class Access:
    """Everything the Settings page lists."""

    agents: list[Agent]
    keys: list[AgentKey]
    workers: list[WorkerRow]
    networks: list[AllowedNetwork]


_reports = Worker.objects.filter(agent=OuterRef("pk"))


def access(environment: Environment, now: datetime) -> Access:
    """Agents, keys, workers and networks."""
    return Access(
        agents=list(Agent.objects.filter(environment=environment).annotate(heard=Exists(_reports))),
        keys=list(AgentKey.objects.filter(environment=environment).select_related("agent")[:SHOWN]),
        workers=_workers(environment, now),
        networks=list(AllowedNetwork.objects.order_by("network")),
    )


def _workers(environment: Environment, now: datetime) -> list[WorkerRow]:
    known = Q(last_seen_at__gte=now - SHOWN_WITHIN) | Q(quarantined_at__isnull=False)
    rows = Worker.objects.filter(known, environment=environment).select_related("agent")
    workers = list(rows.order_by("-last_seen_at", "instance")[:SHOWN])
    live = Session.objects.filter(worker__in=workers, last_seen_at__gte=now - LIVE_WITHIN).order_by("last_seen_at")
    latest = {row.worker_id: row for row in live}
    counts = dict(live.order_by().values_list("worker_id").annotate(Count("pk")))
    current = DocumentVersion.objects.filter(environment=environment).first()
    held = _local_overrides(workers, now)
    return [_worker(one, latest.get(one.pk), counts.get(one.pk, 0), current, held.get(one.pk, [])) for one in workers]


def _local_overrides(workers: list[Worker], now: datetime) -> dict[int, list[LocalOverride]]:
    """What their break-glass files force now, by worker; processes that read one file tell it once each."""
    held: dict[int, dict[tuple[str, ...], LocalOverride]] = {}
    for one in LocalOverride.objects.filter(worker__in=workers, expires_at__gt=now).order_by("expires_at"):
        held.setdefault(one.worker_id, {})[one.tool, one.dependency, one.mode, one.who] = one
    return {pk: list(each.values()) for pk, each in held.items()}


def _worker(
    worker: Worker,
    session: Session | None,
    sessions: int,
    current: DocumentVersion | None,
    overrides: list[LocalOverride],
) -> WorkerRow:
    if session is None:
        return WorkerRow(worker, 0, "", stale=False, config=None, old_config=False, overrides=overrides)
    return WorkerRow(
        worker=worker,
        sessions=sessions,
        feed=session.feed,
        stale=bool(session.stale_s),
        config=session.config_version,
        old_config=current is not None and runs_old_config(session, current),
        overrides=overrides,
    )


def runs_old_config(session: Session, current: DocumentVersion) -> bool:
    """Whether it reports another config than the one in force."""
    if session.config_version is None:
        return False
    return session.config_epoch != current.epoch or session.config_version < current.config


def channels(environment: Environment) -> QuerySet[AlertChannel]:
    """Whom to tell, with how many messages wait and how many were given up."""
    rows = AlertChannel.objects.filter(environment=environment).order_by("name", "pk")
    return rows.annotate(
        dead=Count("deliveries", filter=Q(deliveries__status="dead")),
        pending=Count("deliveries", filter=Q(deliveries__status="pending")),
        last_sent_at=Max(F("deliveries__sent_at")),
    )


def first_heard(agent: Agent) -> Worker | None:
    """The first worker of an agent that reported; None while it is waited for."""
    return Worker.objects.filter(agent=agent).order_by("first_seen_at", "pk").first()
