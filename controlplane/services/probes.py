"""Probes: saving one, trying one out, and the book-keeping of the rounds that Celery workers ask."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from recloser.core.places import AskFrom
from recloser.core.probe import Fault
from recloser.core.types import SideEffectClass, State, Verdict

from controlplane import probe_spec, secrets
from controlplane.models import Circuit, Dependency, Environment, Probe, ProbeRound, ProbeTest
from controlplane.probe_spec import BadSpec, McpSpec, Spec, agents, control
from controlplane.probe_spec.tcp import TcpSpec
from controlplane.services import audit, egress, heartbeats, spending, system, transitions
from controlplane.services.errors import Refused

KEEP_ROUNDS = timedelta(days=90)
KEEP_TESTS = timedelta(hours=1)
TEST_LIMIT = timedelta(seconds=40)
"""A try-out that nobody took by then is not taken any more."""

Secrets = Mapping[str, str | None]
"""By name, of a header or of what the kind calls it; None for a value keeps the one that is stored."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request to send, with all that it takes; `lease_s` is how long its answer is waited for."""

    id: UUID
    spec: Spec | None
    """None: it is not to be asked; `problem` says why, `fault` what follows."""
    secrets: Mapping[str, str]
    operation: str
    lease_s: float
    problem: str = ""
    fault: Fault = Fault.SPEC
    dependency_id: int | None = None
    """Whose stored probe this is; None for a try-out of what an editor says."""
    control: TcpSpec | None = None
    """What to ask after a bad answer; None: nothing."""


@audit.refusals("save_probe")
@transaction.atomic
def save_probe(
    *,
    dependency: Dependency,
    operation: str,
    spec: Mapping[str, Any],
    actor: str,
    now: datetime,
    kind: str = probe_spec.DEFAULT,
    secret_headers: Secrets | None = None,
    secret_values: Secrets | None = None,
    enabled: bool = True,
    ask_from: str | None = None,
    heartbeat_s: int | None = None,
) -> Probe:
    """Set how this dependency's recovery is tested. Without secrets the stored ones stay.

    `heartbeat_s` has a closed circuit asked, too, for a warning.

    `secret_headers` are for the kinds that speak HTTP, `secret_values` for those that name what they take.
    """
    places = _ask_from(dependency, ask_from)
    heartbeats.demand_pace(heartbeat_s, places)
    wanted, values = _checked(dependency, kind, spec, secret_headers, secret_values, places)
    probe, _ = Probe.objects.update_or_create(
        dependency=dependency,
        defaults={
            "kind": wanted.KIND,
            "operation": _operation(operation),
            "spec": wanted.to_dict(),
            "secrets": secrets.seal_values(values),
            "enabled": enabled,
            "ask_from": places.value,
            "heartbeat_s": heartbeat_s,
            "heartbeat_due_at": None,
            "heartbeat_bad": 0,
            "heartbeat_failing_at": None,
            "updated_at": now,
            "updated_by": actor,
        },
    )
    told = {"kind": wanted.KIND, "at": wanted.shown_address, "enabled": enabled, "ask_from": places.value}
    _audit(actor, "save_probe", dependency, told)
    _tell_agents(dependency)
    system.wake_scheduler()
    return probe


@transaction.atomic
def remove_probe(*, dependency: Dependency, actor: str) -> None:
    """From now on nothing but a permit tests this dependency."""
    if Probe.objects.filter(dependency=dependency).delete()[0]:
        _audit(actor, "remove_probe", dependency, {})
        _tell_agents(dependency)


def _tell_agents(dependency: Dependency) -> None:
    """Whether a probe or a run's permit tests a circuit stands in the document for agents, while it is not closed."""
    rows = Circuit.objects.filter(dependency=dependency).exclude(state=State.CLOSED.value)
    transitions.announce(rows.select_for_update(no_key=True))


def shown(probe: Probe) -> dict[str, Any]:
    """A probe as an editor may show it: of a secret no more than its name."""
    try:
        names = secrets.unseal_values(probe.secrets)
    except secrets.Unreadable as lost:
        names = {str(lost): ""}
    masked = dict.fromkeys(names, secrets.MASK)
    headers = probe_spec.KINDS[probe.kind].SECRETS is None
    return {
        "kind": probe.kind,
        "operation": probe.operation,
        "ask_from": probe.ask_from,
        "spec": probe.spec,
        "secret_headers": masked if headers else {},
        "secret_values": {} if headers else masked,
        "enabled": probe.enabled,
        "heartbeat_s": probe.heartbeat_s,
        "updated_at": probe.updated_at,
        "updated_by": probe.updated_by,
    }


@audit.refusals("test_probe")
@transaction.atomic
def test_now(
    *,
    dependency: Dependency,
    spec: Mapping[str, Any],
    actor: str,
    now: datetime,
    kind: str = probe_spec.DEFAULT,
    secret_headers: Secrets | None = None,
    secret_values: Secrets | None = None,
) -> ProbeTest:
    """Have a Celery worker ask once, without touching the circuit; the row's `result` fills within seconds."""
    wanted, values = _checked(dependency, kind, spec, secret_headers, secret_values)
    test = ProbeTest.objects.create(
        id=uuid4(),
        dependency=dependency,
        kind=wanted.KIND,
        spec=wanted.to_dict(),
        secrets=secrets.seal_values(values),
        asked_by=actor,
        asked_at=now,
    )
    _audit(actor, "test_probe", dependency, {"kind": wanted.KIND, "at": wanted.shown_address})
    system.wake_scheduler()
    return test


@transaction.atomic
def take_rounds(*, ids: Iterable[UUID | str], now: datetime) -> list[Job]:
    """Those of these rounds that nobody has taken and whose lease still runs; a second taker gets none."""
    rows = ProbeRound.objects.filter(
        id__in=list(ids), dispatched_at=None, finished_at=None, lease_expires_at__gt=now
    ).select_for_update(skip_locked=True, no_key=True, of=("self",))
    taken = list(rows.select_related("circuit__dependency__probe", "circuit__dependency__environment"))
    ProbeRound.objects.filter(id__in=[row.pk for row in taken]).update(dispatched_at=now)
    return [job_of_round(row, now) for row in taken]


@transaction.atomic
def claim_tests(*, now: datetime, limit: int) -> list[UUID]:
    """Try-outs that wait for somebody to take them."""
    rows = ProbeTest.objects.filter(claimed_at=None, asked_at__gt=now - TEST_LIMIT)
    found = list(rows.select_for_update(skip_locked=True, no_key=True).order_by("asked_at")[:limit])
    ProbeTest.objects.filter(id__in=[row.pk for row in found]).update(claimed_at=now)
    return [row.pk for row in found]


@transaction.atomic
def take_tests(*, ids: Iterable[UUID | str], now: datetime) -> list[Job]:
    """The claimed try-outs that have no result yet."""
    rows = ProbeTest.objects.filter(id__in=list(ids), finished_at=None).select_related("dependency__environment")
    return [_job_of_test(row, now) for row in rows]


def _job_of_test(row: ProbeTest, now: datetime) -> Job:
    job = _job(row.pk, row.dependency, row, "", TEST_LIMIT.total_seconds(), now)
    return replace(job, dependency_id=row.dependency_id) if row.heartbeat else job


def finish_test(*, test_id: UUID, result: Mapping[str, Any], now: datetime) -> None:
    """Keep the result and forget the secrets; the first answer counts."""
    waiting = ProbeTest.objects.filter(pk=test_id, finished_at=None)
    if not waiting.update(result=dict(result), finished_at=now, secrets=""):
        return
    if (test := ProbeTest.objects.filter(pk=test_id, heartbeat=True).first()) is not None:
        heartbeats.note(test=test, verdict=Verdict(str(result["verdict"])), now=now)


def prune_probes(*, now: datetime) -> int:
    """Drop old rounds and try-outs."""
    rounds = ProbeRound.objects.filter(granted_at__lt=now - KEEP_ROUNDS).delete()[0]
    return rounds + ProbeTest.objects.filter(asked_at__lt=now - KEEP_TESTS).delete()[0]


def _checked(
    dependency: Dependency,
    kind: str,
    given: Mapping[str, Any],
    secret_headers: Secrets | None,
    secret_values: Secrets | None,
    ask_from: AskFrom = AskFrom.CONTROL_PLANE,
) -> tuple[Spec, dict[str, str]]:
    """The typed probe and all its secrets, or a refusal that names the field."""
    try:
        spec: Spec = probe_spec.read(given, kind)
        named = _fitting(spec, secret_headers, secret_values)
        values = probe_spec.read_secrets(_with_stored(dependency, spec, named), kind)
    except BadSpec as bad:
        raise Refused("bad_field", bad.message, bad.mend, bad.field) from None
    if problem := _not_read_only(dependency, spec):
        mend = "have an operator confirm its class as read_only on the tool's page, or name another"
        raise Refused("not_read_only", problem, mend, "call_tool")
    if problem := spending.forbidden(dependency, spec):
        raise Refused("paid_probe", problem, "switch probe_paid on in the policy first, or ask for less", "ask")
    if ask_from is not AskFrom.CONTROL_PLANE and (problem := agents.unfit(spec, values)):
        mend = "ask from the control plane, or make the probe a plain one"
        raise Refused("not_for_agents", problem, mend, "ask_from")
    if ask_from is not AskFrom.AGENTS:
        egress.demand_target(*spec.target, field=spec.AT)
    return spec, values


def _ask_from(dependency: Dependency, given: str | None) -> AskFrom:
    """As given, else as stored."""
    stored = Probe.objects.filter(dependency=dependency).values_list("ask_from", flat=True).first()
    wanted = given or stored or AskFrom.CONTROL_PLANE.value
    try:
        return AskFrom(wanted)
    except ValueError:
        mend = f"use one of {', '.join(each.value for each in AskFrom)}"
        raise Refused("bad_field", "a probe is asked from no such place", mend, "ask_from") from None


def _fitting(spec: Spec, headers: Secrets | None, values: Secrets | None) -> Secrets | None:
    """The one of the two that this kind takes; the other must be empty."""
    wanted, other, name = (
        (headers, values, "secret_values") if spec.SECRETS is None else (values, headers, "secret_headers")
    )
    if other:
        takes = "secret_headers" if spec.SECRETS is None else f"secret_values ({', '.join(spec.SECRETS) or 'none'})"
        raise Refused("bad_field", "this kind of probe takes no such secrets", f"give {takes}", name)
    return wanted


def _not_read_only(dependency: Dependency, spec: Spec) -> str:
    """What speaks against calling the tool that this probe would call; a class counts once somebody confirmed it."""
    if not isinstance(spec, McpSpec) or not spec.call_tool:
        return ""
    known = dependency.tools.filter(Q(name=spec.call_tool) | Q(operation=spec.call_tool))
    classes = list(known.values_list("side_effect", "class_confirmed"))
    if not classes:
        return "the dependency has no tool of this name, so its class is not known"
    if any(each != (SideEffectClass.READ_ONLY.value, True) for each in classes):
        return "this tool is not confirmed to be read_only, and a probe never has a side effect"
    return ""


def _with_stored(dependency: Dependency, spec: Spec, given: Secrets | None) -> dict[str, str]:
    """The values given, and the stored ones that were to be kept: for the target they were written for only."""
    kept = Probe.objects.filter(dependency=dependency).exclude(secrets="").first()
    if kept is None or (given is not None and None not in given.values()):
        return {name: value or "" for name, value in (given or {}).items()}
    if probe_spec.read(kept.spec, kept.kind).origin != spec.origin:
        raise _anew(spec)
    stored = _unsealed(kept)
    wanted = dict.fromkeys(stored) if given is None else given
    return {name: stored.get(name, "") if value is None else value for name, value in wanted.items()}


def _anew(spec: Spec) -> Refused:
    field, words = ("secret_headers", "secret headers") if spec.SECRETS is None else ("secret_values", "secrets")
    mend = f"enter the {words} anew: stored ones are never sent to another address"
    return Refused("secrets_needed", "the address has changed", mend, field)


def _unsealed(probe: Probe) -> dict[str, str]:
    try:
        return secrets.unseal_values(probe.secrets)
    except secrets.Unreadable as lost:
        raise Refused("secrets_lost", "the stored secrets cannot be read", str(lost), "secret_headers") from None


def _operation(name: str) -> str:
    if not name.strip() or len(name) > 200:
        mend = "name the tool, or the part of one, that this request exercises"
        raise Refused("bad_field", "the operation is missing or too long", mend, "operation")
    return name.strip()


def job_of_round(row: ProbeRound, now: datetime) -> Job:
    """What one asking of this round takes."""
    lease_s = (row.lease_expires_at - now).total_seconds()
    probe: Probe | None = getattr(row.circuit.dependency, "probe", None)
    if probe is None:
        return Job(row.pk, None, {}, "", lease_s, "the probe was removed")
    job = _job(row.pk, row.circuit.dependency, probe, probe.operation, lease_s, now)
    return replace(job, dependency_id=row.circuit.dependency_id)


def _job(
    job_id: UUID, dependency: Dependency, row: Probe | ProbeTest, operation: str, lease_s: float, now: datetime
) -> Job:
    """What is to be asked; what has changed since it was saved may forbid it."""
    try:
        spec: Spec = probe_spec.read(row.spec, row.kind)
        values = secrets.unseal_values(row.secrets)
    except (BadSpec, secrets.Unreadable) as problem:
        return Job(job_id, None, {}, operation, lease_s, str(problem))
    if forbidden := _not_read_only(dependency, spec) or spending.forbidden(dependency, spec):
        return Job(job_id, None, {}, operation, lease_s, forbidden)
    if not spending.reserve(dependency=dependency, spec=spec, now=now):
        return Job(job_id, None, {}, operation, lease_s, spending.USED_UP, Fault.GATE)
    return Job(job_id, spec, values, operation, lease_s, control=control.usable(control_of(dependency.environment)))


def control_of(environment: Environment) -> str:
    """The control address in force, `host:port`; empty where none is asked."""
    return control.in_force(environment.control_address, settings.CONTROL_ADDRESS)


def _audit(actor: str, action: str, dependency: Dependency, detail: Mapping[str, Any]) -> None:
    audit.record(
        actor=actor,
        action=action,
        target=dependency.slug,
        accepted=True,
        environment_id=dependency.environment_id,
        detail=dict(detail),
    )


def renew_secrets() -> tuple[int, Sequence[str]]:
    """Seal every stored probe secret under the newest key; return how many, and those that no key opens."""
    done, lost = 0, []
    for probe in Probe.objects.exclude(secrets="").select_related("dependency"):
        try:
            sealed = secrets.renew(probe.secrets)
        except secrets.Unreadable:
            lost.append(f"probe of {probe.dependency.slug}")
            continue
        done += Probe.objects.filter(pk=probe.pk, secrets=probe.secrets).update(secrets=sealed)
    return done, lost
