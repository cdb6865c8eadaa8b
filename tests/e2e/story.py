"""A fleet in the middle of an ordinary bad night, for pictures of every page."""

from __future__ import annotations

from datetime import datetime, timedelta

from recloser.core.types import Cause, Mode, Signal, State

from controlplane.models import (
    AgentKey,
    AlertChannel,
    Circuit,
    Dependency,
    Environment,
    PolicyRevision,
    ProcessBeat,
    Run,
    Tool,
    Trip,
    Worker,
)
from tests import factories
from tests.dashboard import stage
from tests.factories import Cast

CALM = (
    "geocoder", "embeddings", "vector-store", "calendar-api", "mail-gateway", "object-store", "translate-api",
    "weather-api", "crm-search", "billing-ledger", "pdf-render", "tickets-api", "wiki", "browser-pool",
    "code-sandbox", "feature-flags", "hr-directory", "invoices",
)  # fmt: skip


def quiet(cast: Cast, now: datetime) -> None:
    """Everything works."""
    for kind, name in (
        ("scheduler", "host-1"),
        ("worker", "host-1:4121"),
        ("worker", "host-2:4007"),
        ("edge", "host-1"),
    ):
        ProcessBeat.objects.create(kind=kind, name=name, started_at=now - timedelta(hours=9), beat_at=now)
    for place, slug in enumerate(CALM):
        dependency = factories.dependency(cast.prod, slug, at=now)
        tool = factories.tool(dependency, slug.replace("-", "_"), at=now)
        for worker in cast.workers[: 1 + place % 3]:
            stage.observed(
                worker, tool, now - timedelta(seconds=20), ok=4 + place * 7 % 31, timeout=int(place % 7 == 3)
            )
    for minute in range(2, 58, 2):
        stage.run(cast.research if minute % 3 else cast.support, now - timedelta(minutes=minute))
    for session in cast.sessions:
        session.feed, session.config_epoch, session.config_version = "live", "e1", 1
        session.save()


def bad_night(cast: Cast, now: datetime) -> None:
    """One dependency open, one locked out, one tested, one held, one suspected, a sick worker."""
    quiet(cast, now)
    _decide(cast.tools["web_search"], now, degraded_behaviour="partial_answer",
            model_text="Answer from the documents already retrieved, and name what could not be verified.")  # fmt: skip
    _search_is_down(cast, now)
    _payments_locked_out(cast, now)
    _others(cast, now)
    _claims(cast, now)


def _search_is_down(cast: Cast, now: datetime) -> None:
    earlier = stage.opened(cast.search_api, now - timedelta(hours=30), failures=31, calls=44)
    stage.move(cast.search_api, now - timedelta(hours=29, minutes=38), state=State.CLOSED, cause=Cause.PROBE_PASSED,
               opened_at=None, due_at=None, tripped_by=None,
               closed_at=(now - timedelta(hours=29)).timestamp())  # fmt: skip
    at = now - timedelta(minutes=4, seconds=12)
    row = stage.opened(cast.search_api, at, failures=17, calls=23, witnesses=3, due_in_s=4 * 60 + 12 + 23)
    stage.probe(cast.search_api, at)
    for seconds, verdict, status in ((30, "bad", 503), (91, "bad", 503), (152, "inconclusive", 401), (213, "bad", 503)):
        stage.probed(row, at + timedelta(seconds=seconds), verdict, status=status)
    for worker, failed in zip(cast.workers, (9, 5, 3), strict=True):
        stage.observed(worker, cast.tools["web_search"], at - timedelta(seconds=4), timeout=failed, ok=2)
        stage.observed(worker, cast.tools["web_search"], now - timedelta(seconds=15), rejected=6)
    for number in range(14):
        disclosed = None if number < 3 else number % 4 != 0
        stage.degraded(
            cast.research if number % 3 else cast.support, now - timedelta(seconds=15 * number + 5),
            disclosed=disclosed, status="running" if disclosed is None else "finished",
            **({"ended_at": None} if disclosed is None else {}),
            disclosure="I could not search the web for this brief; the market figures are from your own documents."
            if disclosed else "",
        )  # fmt: skip
    assert earlier.pk == row.pk


def _payments_locked_out(cast: Cast, now: datetime) -> None:
    at = now - timedelta(minutes=23)
    stage.opened(cast.payments, at, signal=Signal.CONSECUTIVE_FAILURES, failures=5, calls=5, witnesses=2,
                 due_in_s=23 * 60 + 41, locked_out_at=(at + timedelta(minutes=10)).timestamp())  # fmt: skip
    Circuit.objects.filter(dependency=cast.payments).update(
        acknowledged_at=now - timedelta(minutes=19), acknowledged_by="otto"
    )
    Dependency.objects.filter(pk=cast.payments.pk).update(owner="payments team")
    stage.observed(cast.workers[1], cast.tools["refund"], now - timedelta(seconds=50), rejected=2)


def _others(cast: Cast, now: datetime) -> None:
    until = now + timedelta(minutes=52)
    crm = Circuit.objects.get(dependency=cast.crm_db)
    stage.move(cast.crm_db, now - timedelta(minutes=8), state=State.OPEN, mode=Mode.FORCED_OPEN,
               cause=Cause.OPERATOR, actor="otto", reason="Failover drill of the CRM cluster, change 4711",
               mode_expires_at=until.timestamp(),
               opened_at=(now - timedelta(minutes=8)).timestamp(), due_at=until.timestamp())  # fmt: skip
    assert crm.pk
    weather = Dependency.objects.get(environment=cast.prod, slug="weather-api")
    row = Circuit.objects.select_related("dependency").get(dependency=weather)
    row.core = {
        **row.core,
        "suspected_at": (now - timedelta(seconds=0.3)).timestamp(),
        "suspected_signal": "failure_rate",
    }
    row.suspected_at = now
    row.save()
    Circuit.objects.filter(dependency__slug="embeddings").update(
        fault_worker=cast.workers[2], fault_seen_at=now - timedelta(seconds=38)
    )
    Trip.objects.create(
        environment=cast.prod, scope="run", signal="identical_calls", tool=cast.tools["db_lookup"],
        dependency=cast.crm_db, run=Run.objects.filter(environment=cast.prod).latest("started_at").pk, step=9,
        action="block_call", delivery="enforce", evidence={"identical_calls": 5}, threshold={"identical_calls": 5},
        at=now - timedelta(minutes=2), received_at=now,
    )  # fmt: skip
    AlertChannel.objects.create(environment=cast.prod, kind="webhook", name="Search on-call",
                                target="https://hooks.example.com/recloser", created_at=now,
                                created_by="ada")  # fmt: skip


def _claims(cast: Cast, now: datetime) -> None:
    quarantined = {"quarantined_at": now - timedelta(minutes=31), "quarantined_by": "otto",
                   "quarantine_reason": "wrong network policy after the node upgrade"}  # fmt: skip
    Worker.objects.create(environment=cast.prod, agent=cast.support, key=cast.support_key, instance="pod-9",
                          first_seen_at=now, last_seen_at=now, **quarantined)  # fmt: skip
    Tool.objects.create(environment=cast.prod, name="export_all_rows", created_at=now - timedelta(minutes=44),
                        discovered_by=AgentKey.objects.get(pk=cast.support_key.pk))  # fmt: skip


def _decide(tool: Tool, now: datetime, **values: str) -> None:
    PolicyRevision.objects.create(
        environment=Environment.objects.get(pk=tool.environment_id), level="tool", tool=tool, number=1, values=values,
        content_hash="-", status="published", reason="decided before the first outage", created_at=now,
        created_by="petra", published_at=now,
    )  # fmt: skip
