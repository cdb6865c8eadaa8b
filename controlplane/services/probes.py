"""Probes: saving one, trying one out, and the book-keeping of the rounds that Celery workers ask."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from controlplane import probe_spec, secrets
from controlplane.models import Dependency, Probe, ProbeRound, ProbeTest
from controlplane.probe_spec import BadSpec, HttpSpec
from controlplane.services import audit, egress, system
from controlplane.services.errors import Refused

KEEP_ROUNDS = timedelta(days=90)
KEEP_TESTS = timedelta(hours=1)
TEST_LIMIT = timedelta(seconds=40)
"""A try-out that nobody took by then is not taken any more."""

SecretHeaders = Mapping[str, str | None]
"""None for a value keeps the one that is stored."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request to send, with all that it takes; `lease_s` is how long its answer is waited for."""

    id: UUID
    spec: HttpSpec | None
    """None: the probe was removed meanwhile, or cannot be read any more; `problem` says it."""
    secrets: Mapping[str, str]
    operation: str
    lease_s: float
    problem: str = ""


@audit.refusals("save_probe")
@transaction.atomic
def save_probe(
    *,
    dependency: Dependency,
    operation: str,
    spec: Mapping[str, Any],
    actor: str,
    now: datetime,
    secret_headers: SecretHeaders | None = None,
    enabled: bool = True,
) -> Probe:
    """Set how this dependency's recovery is tested. Without `secret_headers` the stored ones stay."""
    wanted, values = _checked(dependency, spec, secret_headers)
    probe, _ = Probe.objects.update_or_create(
        dependency=dependency,
        defaults={
            "kind": "http",
            "operation": _operation(operation),
            "spec": wanted.to_dict(),
            "secrets": secrets.seal_values(values),
            "enabled": enabled,
            "updated_at": now,
            "updated_by": actor,
        },
    )
    _audit(actor, "save_probe", dependency, {"url": _plain(wanted.url), "enabled": enabled})
    system.wake_scheduler()
    return probe


@transaction.atomic
def remove_probe(*, dependency: Dependency, actor: str) -> None:
    """From now on nothing but a permit tests this dependency."""
    if Probe.objects.filter(dependency=dependency).delete()[0]:
        _audit(actor, "remove_probe", dependency, {})


def shown(probe: Probe) -> dict[str, Any]:
    """A probe as an editor may show it: of a secret header no more than its name."""
    try:
        names = secrets.unseal_values(probe.secrets)
    except secrets.Unreadable as lost:
        names = {str(lost): ""}
    return {
        "kind": probe.kind,
        "operation": probe.operation,
        "spec": probe.spec,
        "secret_headers": dict.fromkeys(names, secrets.MASK),
        "enabled": probe.enabled,
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
    secret_headers: SecretHeaders | None = None,
) -> ProbeTest:
    """Have a Celery worker ask once, without touching the circuit; the row's `result` fills within seconds."""
    wanted, values = _checked(dependency, spec, secret_headers)
    test = ProbeTest.objects.create(
        id=uuid4(),
        dependency=dependency,
        spec=wanted.to_dict(),
        secrets=secrets.seal_values(values),
        asked_by=actor,
        asked_at=now,
    )
    _audit(actor, "test_probe", dependency, {"url": _plain(wanted.url)})
    system.wake_scheduler()
    return test


@transaction.atomic
def take_rounds(*, ids: Iterable[UUID | str], now: datetime) -> list[Job]:
    """Those of these rounds that nobody has taken and whose lease still runs; a second taker gets none."""
    rows = ProbeRound.objects.filter(
        id__in=list(ids), dispatched_at=None, finished_at=None, lease_expires_at__gt=now
    ).select_for_update(skip_locked=True, no_key=True, of=("self",))
    taken = list(rows.select_related("circuit__dependency__probe"))
    ProbeRound.objects.filter(id__in=[row.pk for row in taken]).update(dispatched_at=now)
    return [_job_of_round(row, now) for row in taken]


@transaction.atomic
def claim_tests(*, now: datetime, limit: int) -> list[UUID]:
    """Try-outs that wait for somebody to take them."""
    rows = ProbeTest.objects.filter(claimed_at=None, asked_at__gt=now - TEST_LIMIT)
    found = list(rows.select_for_update(skip_locked=True, no_key=True).order_by("asked_at")[:limit])
    ProbeTest.objects.filter(id__in=[row.pk for row in found]).update(claimed_at=now)
    return [row.pk for row in found]


def take_tests(*, ids: Iterable[UUID | str], now: datetime) -> list[Job]:
    """The claimed try-outs that have no result yet."""
    rows = ProbeTest.objects.filter(id__in=list(ids), finished_at=None)
    return [_job(row.pk, row.spec, row.secrets, "", TEST_LIMIT.total_seconds()) for row in rows]


def finish_test(*, test_id: UUID, result: Mapping[str, Any], now: datetime) -> None:
    """Keep the result and forget the secrets."""
    ProbeTest.objects.filter(pk=test_id, finished_at=None).update(result=dict(result), finished_at=now, secrets="")


def prune_probes(*, now: datetime) -> int:
    """Drop old rounds and try-outs."""
    rounds = ProbeRound.objects.filter(granted_at__lt=now - KEEP_ROUNDS).delete()[0]
    return rounds + ProbeTest.objects.filter(asked_at__lt=now - KEEP_TESTS).delete()[0]


def _checked(
    dependency: Dependency, given: Mapping[str, Any], headers: SecretHeaders | None
) -> tuple[HttpSpec, dict[str, str]]:
    """The typed probe and all its secret headers, or a refusal that names the field."""
    try:
        spec = probe_spec.read(given)
        values = probe_spec.read_secret_headers(_with_stored(dependency, spec, headers))
    except BadSpec as bad:
        raise Refused("bad_field", bad.message, bad.mend, bad.field) from None
    egress.demand_reachable(spec.url, field="url")
    return spec, values


def _with_stored(dependency: Dependency, spec: HttpSpec, given: SecretHeaders | None) -> dict[str, str]:
    """The values given, and the stored ones that were to be kept: for the host they were written for only."""
    kept = Probe.objects.filter(dependency=dependency).exclude(secrets="").first()
    if kept is None or (given is not None and None not in given.values()):
        return {name: value or "" for name, value in (given or {}).items()}
    if _origin(kept.spec["url"]) != _origin(spec.url):
        mend = "enter the secret headers anew: stored ones are never sent to another address"
        raise Refused("secrets_needed", "the address has changed", mend, "secret_headers")
    stored = _unsealed(kept)
    wanted = dict.fromkeys(stored) if given is None else given
    return {name: stored.get(name, "") if value is None else value for name, value in wanted.items()}


def _unsealed(probe: Probe) -> dict[str, str]:
    try:
        return secrets.unseal_values(probe.secrets)
    except secrets.Unreadable as lost:
        raise Refused("secrets_lost", "the stored secrets cannot be read", str(lost), "secret_headers") from None


def _origin(url: str) -> str:
    return url.split("/", 3)[2].casefold() + url.split(":", 1)[0].casefold()


def _plain(url: str) -> str:
    return url.partition("?")[0]


def _operation(name: str) -> str:
    if not name.strip() or len(name) > 200:
        mend = "name the tool, or the part of one, that this request exercises"
        raise Refused("bad_field", "the operation is missing or too long", mend, "operation")
    return name.strip()


def _job_of_round(row: ProbeRound, now: datetime) -> Job:
    lease_s = (row.lease_expires_at - now).total_seconds()
    probe: Probe | None = getattr(row.circuit.dependency, "probe", None)
    if probe is None:
        return Job(row.pk, None, {}, "", lease_s, "the probe was removed")
    return _job(row.pk, probe.spec, probe.secrets, probe.operation, lease_s)


def _job(job_id: UUID, spec: Mapping[str, Any], sealed: str, operation: str, lease_s: float) -> Job:
    try:
        return Job(job_id, probe_spec.read(spec), secrets.unseal_values(sealed), operation, lease_s)
    except (BadSpec, secrets.Unreadable) as problem:
        return Job(job_id, None, {}, operation, lease_s, str(problem))


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
