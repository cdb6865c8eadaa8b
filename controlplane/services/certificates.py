"""Certificates that probes meet: people are told before one expires, once a threshold."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.db import transaction
from recloser.core.probe import CERTIFICATE_WARNINGS, certificate_warning

from controlplane.models import AlertCause, Circuit, Probe
from controlplane.services import alert_causes

QUIET = timedelta(hours=23)
"""Between two warnings about one dependency, whatever certificates it shows."""


@transaction.atomic
def note_certificate(*, dependency_id: int, until: datetime, now: datetime) -> int | None:
    """Remember what a dependency's probe met; the threshold that people are told of now, or None."""
    probe = Probe.objects.select_for_update(no_key=True).filter(dependency=dependency_id).first()
    if probe is None:
        return None
    due = _due(probe, until, now)
    due = due if due is not None and _tell(dependency_id, now) else None
    probe.certificate_until, probe.certificate_warned = until, _warned(probe, due, until, now)
    probe.save(update_fields=["certificate_until", "certificate_warned"])
    return due


def _tell(dependency_id: int, now: datetime) -> bool:
    """Once a day at most: two servers behind one name may show the old and the new one in turn."""
    circuit, kind = Circuit.objects.get(dependency=dependency_id), AlertCause.Kind.CERTIFICATE
    if AlertCause.objects.filter(circuit=circuit, kind=kind.value, told_at__gt=now - QUIET).exists():
        return False
    alert_causes.tell_anew(circuit=circuit, kind=kind, now=now)
    return True


def _warned(probe: Probe, due: int | None, until: datetime, now: datetime) -> int | None:
    """The threshold that was passed last; forgotten once a certificate is seen that passes none."""
    return None if _days(until, now) > max(CERTIFICATE_WARNINGS) else probe.certificate_warned if due is None else due


def note_certificates(met: Mapping[int, float], *, now: datetime) -> None:
    """The same for many: by dependency, when it expires, as Unix time; one look for all that say nothing new."""
    seen = {pk: datetime.fromtimestamp(until, UTC) for pk, until in met.items()}
    known = Probe.objects.filter(dependency__in=seen) if seen else []
    for probe in sorted(known, key=lambda each: each.pk):
        until = seen[probe.dependency_id]
        if probe.certificate_until != until or _due(probe, until, now) is not None:
            note_certificate(dependency_id=probe.dependency_id, until=until, now=now)


def _due(probe: Probe, until: datetime, now: datetime) -> int | None:
    return certificate_warning(_days(until, now), probe.certificate_warned)


def _days(until: datetime, now: datetime) -> float:
    return (until - now).total_seconds() / 86_400
