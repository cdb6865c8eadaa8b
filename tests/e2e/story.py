"""A fleet in the middle of an ordinary bad night, for pictures of every page."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from recloser.core.types import Cause, Mode, Signal, State

from controlplane.models import (
    AgentKey,
    AlertCause,
    AlertChannel,
    AlertDelivery,
    AllowedNetwork,
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
from controlplane.services import trips
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
        ProcessBeat.objects.create(
            kind=kind, name=name, started_at=now - timedelta(hours=9), beat_at=now + timedelta(minutes=5),
            detail={"leader": True, "listening": True},
        )  # fmt: skip
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


def crowd(cast: Cast, now: datetime) -> None:
    """A fleet of 500 on a day like any other: a few open, some slow, one with a name as long as names get."""
    for number in range(499):
        dependency = factories.dependency(cast.prod, f"{CALM[number % len(CALM)]}-{number:03}", at=now)
        tool = factories.tool(dependency, dependency.slug.replace("-", "_"), at=now)
        stage.observed(cast.workers[number % 3], tool, now - timedelta(seconds=20), ok=number % 37, timeout=number % 2)
        if number in (31, 240, 402):
            stage.opened(dependency, now - timedelta(minutes=number), failures=7, calls=9)
    long = factories.dependency(cast.prod, LONG, at=now)
    stage.opened(long, now - timedelta(minutes=2), failures=19, calls=21)
    factories.tool(long, LONG.replace("-", "_"), at=now)


LONG = "the-vendor-of-the-vendor-that-translates-invoices-into-every-language-eu-west-1b"


def bad_night(cast: Cast, now: datetime) -> None:
    """One dependency open, one locked out, one tested, one held, one suspected, a sick worker."""
    quiet(cast, now)
    _decide(cast.tools["web_search"], now, degraded_behaviour="partial_answer",
            model_text="Answer from the documents already retrieved, and name what could not be verified.")  # fmt: skip
    _search_is_down(cast, now)
    _payments_locked_out(cast, now)
    _others(cast, now)
    _claims(cast, now)
    _a_brief(cast, now)
    _alerted(cast, now)


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
    leaked = factories.key(cast.support, "rcl_prodleaked_" + "l" * 43, at=now - timedelta(days=9))
    AgentKey.objects.filter(pk=leaked.pk).update(
        label="the old chart", **(quarantined | {"quarantine_reason": "stood in a public build log"})
    )
    factories.agent(cast.prod, "nightly", at=now - timedelta(minutes=3))
    AllowedNetwork.objects.create(network="10.20.0.0/16", reason="the vector store stands here",
                                  created_at=now - timedelta(days=3), created_by="ada")  # fmt: skip


LINES = (
    (1, "web_search", "a1", "r1", "ok", 1, 840.0), (1, "db_lookup", "b1", "r2", "ok", 1, 12.0),
    (2, "db_lookup", "b1", "r2", "ok", 1, 11.0), (3, "web_search", "a2", None, "timeout", 5, 31_000.0),
    (3, "web_search", "a3", None, "timeout", 5, 31_000.0), (4, "web_search", "a2", None, "timeout", 5, 31_000.0),
    (5, "web_search", "a4", None, "rate_limited", 3, 4_200.0), (6, "web_search", "a2", "r9", "rejected", 1, 0.2),
    (7, "db_lookup", "b1", "r2", "ok", 1, 14.0), (7, "doc_store", "c1", "r4", "ok", 1, 96.0),
    (8, "db_lookup", "b2", "r5", "semantic_error", 1, 9.0), (9, "db_lookup", "b3", "r6", "ok", 1, 13.0),
)  # fmt: skip


def _the_matter(cast: Cast, kind: str, slug: str, at: datetime, taker: str) -> None:
    circuit = Circuit.objects.get(environment=cast.prod, dependency__slug=slug)
    AlertCause.objects.create(environment=cast.prod, circuit=circuit, worker=circuit.fault_worker, kind=kind,
                              began_at=at, seen_at=at, told_at=at, acknowledged_at=at if taker else None,
                              acknowledged_by=taker)  # fmt: skip


def brief(cast: Cast) -> Run:
    """The run with the longest story: a supervisor's child that lost its search and found its way around it."""
    return Run.objects.get(environment=cast.prod, task_kind="market brief")


def _a_brief(cast: Cast, now: datetime) -> None:
    at = now - timedelta(minutes=5)
    parent = stage.run(cast.support, at - timedelta(seconds=20), task_kind="quarterly review", status="running",
                       ended_at=None, tools=["plan", "delegate"])  # fmt: skip
    made = stage.degraded(
        cast.research, at, task_kind="market brief", parent=parent.pk, worker=cast.workers[0], disclosed=False,
        tools=["web_search", "db_lookup", "doc_store"],
        missing=[stage.lacking("web_search", "search-api", scope="run", cause="consecutive_failures", step=5,
                               replaced_by="doc_store", refused=1)],
    )  # fmt: skip
    names = ("step", "tool", "args", "result", "outcome", "attempts", "ms")
    made.step_log.lines = [
        dict(zip(names, line, strict=True)) | {"call": call, "args": hash_of(line[2]), "result": hash_of(line[3])}
        for call, line in enumerate(LINES)
    ]
    made.step_log.save()
    _tripped(cast, made, now)
    stage.run(cast.research, at + timedelta(seconds=3), parent=parent.pk, task_kind="price table")
    stage.degraded(cast.research, at + timedelta(seconds=9), parent=made.pk, task_kind="source check", disclosed=True)


def hash_of(name: str | None) -> str | None:
    """As an agent salts and hashes it."""
    return None if name is None else hashlib.sha256(name.encode()).hexdigest()[:16]


def _tripped(cast: Cast, made: Run, now: datetime) -> None:
    common = {"environment": cast.prod, "scope": "run", "run": made.pk, "key": cast.research_key,
              "worker": cast.workers[0], "received_at": now, "policy": "9f2c61d07be4"}  # fmt: skip
    Trip.objects.create(
        **common, signal="consecutive_failures", tool=cast.tools["web_search"], dependency=cast.search_api, step=5,
        action="remove_tool", delivery="enforce", evidence={"consecutive_failures": 3, "step_limit": 20},
        threshold={"consecutive_failures": 3}, at=now - timedelta(minutes=4),
    )  # fmt: skip
    Trip.objects.create(
        **common, signal="identical_calls", tool=cast.tools["db_lookup"], dependency=cast.crm_db, step=7,
        action="block_call", delivery="observe", evidence={"identical_calls": 3}, threshold={"identical_calls": 3},
        at=now - timedelta(minutes=3, seconds=40),
    )  # fmt: skip


def _alerted(cast: Cast, now: datetime) -> None:
    channel = AlertChannel.objects.create(environment=cast.prod, kind="email", name="Payments team",
                                          target="payments@example.com", created_at=now, created_by="ada")  # fmt: skip
    hooks = AlertChannel.objects.get(name="Search on-call")
    for kind, slug, since, taker in (
        ("heartbeat_failing", "geocoder", 6, ""), ("certificate", "mail-gateway", 95, ""),
        ("untestable", "payments", 8, ""), ("quorum_short", "wiki", 240, "ada"), ("worker_fault", "embeddings", 1, ""),
    ):  # fmt: skip
        _the_matter(cast, kind, slug, now - timedelta(minutes=since), taker)
    for row, slug, event, status, error, minutes in (
        (hooks, "search-api", "opened", "sent", "", 4), (channel, "payments", "opened", "sent", "", 23),
        (channel, "payments", "locked_out", "dead", "the mail server refused the recipient (550)", 13),
        (hooks, "payments", "locked_out", "pending", "the receiver answered 502", 1),
    ):  # fmt: skip
        at = now - timedelta(minutes=minutes)
        AlertDelivery.objects.create(
            channel=row, event=event, incident=f"outage-{slug}", body={"dependency": slug}, status=status,
            attempts=10 if status == "dead" else 1, due_at=now + timedelta(seconds=9), created_at=at,
            sent_at=at if status == "sent" else None, last_error=error,
        )  # fmt: skip
    trips.mark_false_trip(
        trip=Trip.objects.filter(signal="identical_calls", delivery="observe").latest("at"), actor="otto",
        reason="a poll: the table is refreshed every ten minutes", now=now,
    )  # fmt: skip


def _decide(tool: Tool, now: datetime, **values: str) -> None:
    PolicyRevision.objects.create(
        environment=Environment.objects.get(pk=tool.environment_id), level="tool", tool=tool, number=1, values=values,
        content_hash="-", status="published", reason="decided before the first outage", created_at=now,
        created_by="petra", published_at=now,
    )  # fmt: skip
