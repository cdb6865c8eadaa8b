"""Circuits: where each stands, and what an operator may do to one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import django_filters
from recloser.core.types import Mode, State
from rest_framework import serializers

from controlplane import clock
from controlplane.api import filters
from controlplane.api.base import Face, Many, One
from controlplane.api.contract import writes
from controlplane.api.errors import bad_field
from controlplane.api.fields import Instant, Number, Said, Text
from controlplane.api.views.access import OptionalReason, Reason
from controlplane.api.views.history import TripOut
from controlplane.models import Circuit
from controlplane.permissions import OPERATE
from controlplane.selectors import lists, named, standings
from controlplane.services import circuits

STATES, MODES = [each.value for each in State], [each.value for each in Mode]


class CircuitOut(serializers.Serializer[Any]):
    """The shared breaker of a dependency at one moment. State, mode and what callers meet are three things."""

    dependency = serializers.CharField(source="dependency.slug")
    tools = serializers.ListField(child=serializers.CharField())
    state = serializers.ChoiceField(choices=STATES, source="core.state.value")
    mode = serializers.ChoiceField(choices=MODES, source="mode.value")
    effective = serializers.CharField(source="effective.value", help_text="What callers meet.")
    stands = serializers.CharField(
        source="kind", help_text="In one word: forced, locked_out, open, half_open, suspected or closed."
    )
    since = serializers.DateTimeField(allow_null=True)
    delivery = serializers.CharField(source="delivery.value", help_text="enforce, observe or off.")
    generation = serializers.IntegerField(source="core.generation")
    cause = serializers.CharField(source="row.cause")
    actor = serializers.CharField(source="row.actor")
    reason = serializers.CharField(source="row.reason")
    changed_at = serializers.DateTimeField(source="row.changed_at", allow_null=True)
    opened_at = serializers.DateTimeField(allow_null=True)
    next_probe_at = serializers.DateTimeField(allow_null=True)
    round_ends_at = serializers.DateTimeField(allow_null=True, help_text="Until when the probe in flight may take.")
    held_until = serializers.DateTimeField(allow_null=True)
    locked_out_at = serializers.DateTimeField(allow_null=True)
    suspected_at = serializers.DateTimeField(source="row.suspected_at", allow_null=True)
    acknowledged_at = serializers.DateTimeField(source="row.acknowledged_at", allow_null=True)
    acknowledged_by = serializers.CharField(source="row.acknowledged_by")
    fault_worker = serializers.IntegerField(
        source="row.fault_worker_id", allow_null=True, help_text="The worker that failed alone while others succeeded."
    )
    quorum_short_at = serializers.DateTimeField(
        source="row.quorum_short_at", allow_null=True, help_text="Since when too few workers live for its quorum."
    )


class MeasuredOut(serializers.Serializer[Any]):
    """One signal against its threshold; a threshold of null is off."""

    signal = serializers.CharField()
    value = serializers.FloatField(allow_null=True)
    threshold = serializers.FloatField(allow_null=True)


class EvidenceOut(serializers.Serializer[Any]):
    """What it would be judged by at this moment; what opened it stands in its trip."""

    window_s = serializers.FloatField(source="policy.window_s")
    calls = serializers.IntegerField(source="found.judged")
    failures = serializers.IntegerField(source="found.failures")
    slow = serializers.IntegerField(source="found.slow")
    failing_workers = serializers.IntegerField()
    live_workers = serializers.IntegerField(source="found.live_workers", allow_null=True)
    min_calls = serializers.IntegerField(source="policy.min_calls")
    min_workers = serializers.IntegerField(source="policy.min_workers")
    signals = MeasuredOut(many=True)


class HitOut(serializers.Serializer[Any]):
    """The runs that went without it."""

    runs = serializers.IntegerField()
    running = serializers.IntegerField()
    undisclosed = serializers.IntegerField()
    agents = serializers.ListField(child=serializers.CharField())


class CircuitDetailOut(CircuitOut):
    """One circuit with its evidence, its last trip, and whom it hits."""

    evidence = EvidenceOut()
    trip = TripOut(allow_null=True, help_text="The trip that last opened it for the fleet.")
    hit = HitOut(help_text="Runs that lacked it since it opened, or within the last hour.")


class CircuitFilter(django_filters.FilterSet):
    """Which circuits."""

    state = filters.word(*STATES)
    mode = filters.word(*MODES)
    suspected = filters.IsSet("suspected_at")
    locked_out = filters.IsSet("locked_out_at")
    owner = filters.text("dependency__owner")
    tool = filters.Named(named.tool, "dependency__tools")


class Circuits(Many):
    """The circuits of an environment."""

    queryset = lists.circuits()
    noun, shape = "circuit", CircuitOut
    filterset_class = CircuitFilter
    orders = {"dependency": "dependency__slug"}

    def presented(self, rows: list[Any]) -> list[Any]:
        """Each where it stands now."""
        return standings.of_rows(self.environment, rows, clock.now())


class OneCircuit(One):
    """One circuit."""

    queryset = lists.circuits()
    noun, shape = "dependency", CircuitDetailOut
    by = {"dependency__slug": "dependency"}
    verbs = One.verbs | {"get": "read_circuit_of", "head": "read_circuit_of"}

    def presented(self, row: Any) -> Any:
        """Where it stands, and by what evidence."""
        return standings.in_full(row, clock.now())


class Hold(Said):
    """Why, and how long: `until` a moment, or `for_s` seconds; a day at most."""

    reason = Text(max_length=500)
    until = Instant(required=False)
    for_s = Number(required=False, min_value=1, max_value=86_400)


class _Deed(One):
    """Something done to one circuit."""

    queryset = lists.circuits()
    noun = "dependency"
    by = {"dependency__slug": "dependency"}
    http_method_names = ["post"]

    def carry_out(self, act: Callable[..., Circuit], said: dict[str, Any], **more: Any) -> Any:
        """Do it once for each Idempotency-Key; what stands afterwards."""
        row, now = self.find(), clock.now()
        token = self.request.headers.get("Idempotency-Key")
        reason = said.get("reason", "")
        act(dependency_id=row.dependency_id, actor=self.actor(), reason=reason, now=now, token=token, **more)
        (after,) = standings.of_rows(self.environment, [self.find()], clock.now())
        return after


class ForceClose(_Deed):
    """Close by hand."""

    @writes(OPERATE, takes=Reason, gives=CircuitOut, name="force_close", keyed=True)
    def post(self, said: dict[str, Any]) -> Any:
        """Close it once, with fresh counters; new evidence may open it again."""
        return self.carry_out(circuits.force_close, said)


class HoldOpen(_Deed):
    """Hold open by hand."""

    @writes(OPERATE, takes=Hold, gives=CircuitOut, name="hold_open", keyed=True)
    def post(self, said: dict[str, Any]) -> Any:
        """Reject every call until then, whatever the evidence."""
        return self.carry_out(circuits.hold_open, said, until=_end(said, clock.now()))


class HoldClosed(_Deed):
    """Hold closed by hand."""

    @writes(OPERATE, takes=Hold, gives=CircuitOut, name="hold_closed", keyed=True)
    def post(self, said: dict[str, Any]) -> Any:
        """Admit every call until then, whatever the evidence; what would have tripped is recorded."""
        return self.carry_out(circuits.hold_closed, said, until=_end(said, clock.now()))


class Release(_Deed):
    """End an override."""

    @writes(OPERATE, takes=OptionalReason, gives=CircuitOut, name="release", keyed=True)
    def post(self, said: dict[str, Any]) -> Any:
        """Let the evidence decide again, before the override's time is up."""
        return self.carry_out(circuits.release, said)


class ProbeNow(_Deed):
    """Test at once."""

    @writes(OPERATE, takes=OptionalReason, gives=CircuitOut, name="probe_now", keyed=True)
    def post(self, said: dict[str, Any]) -> Any:
        """Make an open circuit due at once: for its probe, or without one for the first call of a later run."""
        return self.carry_out(circuits.probe_now, said)


class Acknowledge(_Deed):
    """Be on it."""

    @writes(OPERATE, takes=OptionalReason, gives=CircuitOut, name="acknowledge", keyed=True)
    def post(self, said: dict[str, Any]) -> Any:
        """Say that somebody is on it."""
        return self.carry_out(circuits.acknowledge, said)


class HandBack(_Deed):
    """Be on it no more."""

    @writes(OPERATE, takes=OptionalReason, gives=CircuitOut, name="hand_back", keyed=True)
    def post(self, said: dict[str, Any]) -> Any:
        """Take an acknowledgement back: nobody is on it any more."""
        return self.carry_out(circuits.hand_back, said)


class WriteNote(_Deed):
    """Something that the next one should know."""

    @writes(OPERATE, takes=Reason, gives=CircuitOut, name="note", keyed=True)
    def post(self, said: dict[str, Any]) -> Any:
        """Write it down under your name, for everyone who looks at this circuit; it cannot be changed afterwards."""
        return self.carry_out(circuits.note, said)


ACTIONS: dict[str, type[Face]] = {
    "force-close": ForceClose,
    "hold-open": HoldOpen,
    "hold-closed": HoldClosed,
    "release": Release,
    "probe-now": ProbeNow,
    "acknowledge": Acknowledge,
    "hand-back": HandBack,
    "note": WriteNote,
}


def _end(said: dict[str, Any], now: datetime) -> datetime:
    if ("until" in said) == ("for_s" in said):
        raise bad_field("until", "it is not clear until when", "give either until or for_s")
    return said["until"] if "until" in said else now + timedelta(seconds=said["for_s"])
