"""Certificates that probes meet: people are told before one expires, once a threshold."""

from collections.abc import Mapping
from datetime import UTC, datetime

from django.db import transaction
from recloser.core.probe import certificate_warning

from controlplane.models import AlertCause, Circuit, Probe
from controlplane.services import alert_causes


@transaction.atomic
def note_certificate(*, dependency_id: int, until: datetime, now: datetime) -> int | None:
    """Remember what a dependency's probe met; the threshold that people are told of now, or None."""
    probe = Probe.objects.select_for_update(no_key=True).filter(dependency=dependency_id).first()
    if probe is None:
        return None
    warned_at = probe.certificate_warned if probe.certificate_until == until else None
    due = certificate_warning((until - now).total_seconds() / 86_400, warned_at)
    probe.certificate_until = until
    probe.certificate_warned = warned_at if due is None else due
    probe.save(update_fields=["certificate_until", "certificate_warned"])
    if due is not None:
        circuit = Circuit.objects.get(dependency=dependency_id)
        alert_causes.tell_once(circuit=circuit, kind=AlertCause.Kind.CERTIFICATE, now=now)
    return due


def note_certificates(met: Mapping[int, float], *, now: datetime) -> None:
    """The same for many: by dependency, when the certificate expires, as Unix time."""
    for dependency_id, until in sorted(met.items()):
        note_certificate(dependency_id=dependency_id, until=datetime.fromtimestamp(until, UTC), now=now)
