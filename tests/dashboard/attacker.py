"""An attacker on stage: whatever an agent, a vendor or a person may name or say is a piece of markup."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from controlplane.models import (
    Agent,
    AgentKey,
    AlertCause,
    AlertChannel,
    AlertDelivery,
    AllowedNetwork,
    Circuit,
    Dependency,
    Environment,
    LocalOverride,
    PolicyRevision,
    ProbeRound,
    ProbeTest,
    ProbeVote,
    Run,
    StepLog,
    Tool,
    ToolChange,
    Trip,
    User,
    VendorStatus,
    Worker,
)
from controlplane.services import audit
from tests import factories
from tests.dashboard import stage
from tests.factories import Cast

RAW = "<img src=x onerror=alert(1)>\"'&{{ 7*7 }}"
PIECES = ("<img src=x", 'onerror=alert(1)>"', "<script>alert")


def attack(cast: Cast, now: datetime) -> dict[str, Any]:
    """Everything is named by somebody who means ill; what stands in the addresses of it, for `everywhere`."""
    stood: dict[str, Any] = {"environment": "prod", "dependency": RAW, "tool": RAW, "agent": cast.research.slug}
    tool = _named(cast, now)
    _said_of_a_circuit(Circuit.objects.get(dependency__slug=RAW, dependency__environment=cast.prod), cast, now)
    stood |= {"run_id": _a_run(cast, now, tool).pk, "trip_id": Trip.objects.latest("at").pk}
    stood |= {"test_id": _tried(cast, now).pk, "reviews": _proposed(cast, now, tool).pk}
    stood |= {"tools": _eased(cast, now, tool).pk}
    return stood | _settings(cast, now)


def _named(cast: Cast, now: datetime) -> Tool:
    made = factories.dependency(cast.prod, RAW, at=now)
    Dependency.objects.filter(pk=made.pk).update(owner=RAW, description=RAW)
    Environment.objects.filter(pk=cast.prod.pk).update(name=RAW)
    Agent.objects.filter(pk=cast.research.pk).update(name=RAW, owner=RAW)
    tool = Tool.objects.create(
        environment=cast.prod, name=RAW, owner=RAW, operation=RAW, created_at=now, discovered_by=cast.support_key
    )
    tool.dependencies.add(made)
    return tool


def _said_of_a_circuit(circuit: Circuit, cast: Cast, now: datetime) -> None:
    row = stage.opened(circuit.dependency, now - timedelta(minutes=5))
    stage.probe(circuit.dependency, now - timedelta(minutes=5))
    probed = stage.probed(row, now - timedelta(minutes=1))
    told = {"cause": RAW, "detail": RAW, "conditions": [{"name": RAW, "expected": RAW, "seen": RAW, "held": False}]}
    ProbeRound.objects.filter(pk=probed.pk).update(answered=told, operation=RAW, requested_by=RAW)
    ProbeVote.objects.create(id=uuid.uuid4(), round=probed, place=RAW[:60], by_agent=True, verdict="bad",
                             answered=told, voted_at=now)  # fmt: skip
    Circuit.objects.filter(pk=row.pk).update(reason=RAW, acknowledged_by=RAW, acknowledged_at=now)
    VendorStatus.objects.create(dependency=row.dependency, address="https://status.example.com/", component=RAW,
                                updated_at=now, updated_by=RAW, due_at=now, read_at=now, failing_since=now,
                                problem=RAW, level="outage", said=RAW, said_at=now)  # fmt: skip
    audit.record(actor=RAW, action="note", target=RAW, accepted=True, environment_id=cast.prod.pk,
                 reason=RAW + "<script>alert(1)")  # fmt: skip


def _a_run(cast: Cast, now: datetime, tool: Tool) -> Run:
    run = stage.run(cast.research, now, task_kind=RAW, degraded=True, disclosed=False, disclosure=RAW, tools=[RAW],
                    missing=[stage.lacking(RAW, RAW, replaced_by=RAW)], end_cause=RAW[:30],
                    worker=cast.workers[0])  # fmt: skip
    line = {"step": 1, "call": 0, "tool": RAW, "args": RAW, "result": RAW, "outcome": RAW, "attempts": 1, "ms": 1.0}
    StepLog.objects.create(run=run, lines=[line])
    stage.run(cast.research, now, task_kind=RAW, parent=run.pk)
    Trip.objects.update(tool=tool, run=run.pk, evidence={RAW: RAW}, shares={"keys": {RAW: 1.0}, "workers": {RAW: 1.0}},
                        false_trip_at=now, false_trip_by=RAW, policy=RAW[:12])  # fmt: skip
    return run


def _tried(cast: Cast, now: datetime) -> ProbeTest:
    told = {"status": 200, "cause": RAW, "detail": RAW, "address": RAW, "took_ms": 1.0,
            "conditions": [{"name": RAW, "expected": RAW, "seen": RAW, "held": False}]}  # fmt: skip
    asked = {"method": "GET", "address": RAW, "headers": {RAW: RAW}}
    return ProbeTest.objects.create(
        id=uuid.uuid4(), dependency=Dependency.objects.get(environment=cast.prod, slug=RAW), asked_by=RAW, asked_at=now,
        finished_at=now, spec={"url": RAW, "method": "GET"},
        result={"asked": asked, "answered": told, "verdict": "bad"},
    )  # fmt: skip


def _proposed(cast: Cast, now: datetime, tool: Tool) -> PolicyRevision:
    values = {"model_text": RAW, "user_text": RAW, "ignored_arguments": [RAW]}
    common = {"environment": cast.prod, "level": "tool", "tool": tool, "values": values, "content_hash": "-",
              "reason": RAW, "created_at": now, "created_by": RAW}  # fmt: skip
    PolicyRevision.objects.create(**common, number=1, status="published", published_at=now)
    return PolicyRevision.objects.create(**common, number=2, status="in_review")


def _eased(cast: Cast, now: datetime, tool: Tool) -> ToolChange:
    """A change of the tool that waits."""
    return ToolChange.objects.create(
        environment=cast.prod, tool=tool, wanted={"side_effect": "read_only", "dependencies": [RAW]}, content_hash="-",
        status="in_review", reason=RAW, created_at=now, created_by=RAW, submitted_at=now,
    )  # fmt: skip


def _settings(cast: Cast, now: datetime) -> dict[str, int]:
    """What Settings, People and Alerts list."""
    held = {"quarantined_at": now, "quarantined_by": RAW, "quarantine_reason": RAW}
    Worker.objects.filter(pk=cast.workers[0].pk).update(instance=RAW, **held)
    AgentKey.objects.filter(pk=cast.support_key.pk).update(label=RAW, created_by=RAW, **held)
    LocalOverride.objects.create(
        id=uuid.uuid4(), environment=cast.prod, worker=cast.workers[1], key=cast.research_key, tool=RAW,
        mode="forced_open", who=RAW, reason=RAW, began_at=now, expires_at=now + timedelta(hours=1), reported_at=now,
    )  # fmt: skip
    network = AllowedNetwork.objects.create(network="10.9.0.0/16", reason=RAW, created_at=now, created_by=RAW)
    channel = AlertChannel.objects.create(environment=cast.prod, kind="webhook", name=RAW, target=RAW, created_at=now,
                                          created_by=RAW)  # fmt: skip
    message = AlertDelivery.objects.create(
        channel=channel, event="opened", incident=RAW, body={"dependency": RAW}, status="dead", attempts=10,
        due_at=now, created_at=now, last_error=RAW,
    )  # fmt: skip
    common = {"environment": cast.prod, "began_at": now, "seen_at": now, "told_at": now, "acknowledged_by": RAW}
    row = Circuit.objects.get(environment=cast.prod, dependency__slug=RAW)
    AlertCause.objects.create(**common, circuit=row, worker=cast.workers[0], kind="worker_fault")
    AlertCause.objects.create(**common, circuit=row, kind="untestable", acknowledged_at=now)
    person = User.objects.create(username=RAW, email=RAW, role=cast.ann.role)
    return {"delivery_id": message.pk, "channels": channel.pk, "networks": network.pk, "people": person.pk,
            "workers": cast.workers[0].pk, "keys": cast.support_key.pk}  # fmt: skip
