"""What happened: trips, transitions, outages, probe rounds."""

from __future__ import annotations

from typing import Any

import django_filters
from recloser.core.types import Cause, Scope, Signal, State, Verdict
from rest_framework import serializers

from controlplane import clock
from controlplane.api import filters
from controlplane.api.base import Many, One
from controlplane.api.contract import writes
from controlplane.api.fields import Said, Text
from controlplane.models import Outage, ProbeRound, ProbeVote, Transition, Trip
from controlplane.permissions import OPERATE
from controlplane.selectors import lists, named
from controlplane.services import trips


def words(enum: Any) -> list[str]:
    """The values of an enumeration."""
    return [each.value for each in enum]


class TripOut(serializers.ModelSerializer[Trip]):
    """One opening, or one withdrawal of a tool in a run: the signal, its evidence against the threshold, and where."""

    dependency = serializers.CharField(source="dependency.slug", default=None, allow_null=True)
    tool = serializers.CharField(source="tool.name", default=None, allow_null=True)
    key = serializers.CharField(source="key.prefix", default=None, allow_null=True)
    worker = serializers.IntegerField(source="worker_id", allow_null=True)
    outage = serializers.IntegerField(source="outage_id", allow_null=True)

    class Meta:
        model = Trip
        fields = (
            "id", "at", "received_at", "scope", "signal", "dependency", "tool", "run", "step", "worker", "key",
            "outage", "action", "delivery", "evidence", "threshold", "shares", "policy", "false_trip_at",
            "false_trip_by",
        )  # fmt: skip


class TripFilter(django_filters.FilterSet):
    """Which trips."""

    dependency = filters.Named(named.dependency, "dependency")
    tool = filters.Named(named.tool, "tool")
    scope = filters.word(*words(Scope))
    signal = filters.word(*words(Signal))
    delivery = filters.word("enforce", "observe")
    run = django_filters.UUIDFilter(field_name="run")
    worker = filters.Whole(field_name="worker_id")
    outage = filters.Whole(field_name="outage_id")
    marked_false = filters.IsSet("false_trip_at")
    since = filters.since("at")
    until = filters.until("at")


class Trips(Many):
    """Openings and withdrawals in an environment."""

    queryset = lists.trips()
    noun, shape = "trip", TripOut
    filterset_class = TripFilter
    orders = {"at": "-at"}


class OneTrip(One):
    """One trip."""

    queryset = lists.trips()
    noun, shape = "trip", TripOut
    by = {"pk": "trip"}


class FalseTrip(Said):
    """What shows that nothing was wrong with the dependency."""

    reason = Text(max_length=500)


class MarkFalse(OneTrip):
    """A trip that should not have been."""

    http_method_names = ["post"]

    @writes(OPERATE, takes=FalseTrip, gives=TripOut, name="mark_false_trip")
    def post(self, said: dict[str, Any]) -> Trip:
        """Say that it should not have tripped; policies are judged by such marks."""
        trips.mark_false_trip(trip=self.find(), actor=self.actor(), reason=said["reason"], now=clock.now())
        return self.find()  # type: ignore[no-any-return]


class UnmarkFalse(OneTrip):
    """A trip that was right after all."""

    http_method_names = ["post"]

    @writes(OPERATE, gives=TripOut, name="unmark_false_trip")
    def post(self, said: dict[str, Any]) -> Trip:
        """Take the mark back."""
        trips.unmark_false_trip(trip=self.find(), actor=self.actor())
        return self.find()  # type: ignore[no-any-return]


class TransitionOut(serializers.ModelSerializer[Transition]):
    """Any change of state or mode, with its cause and actor."""

    dependency = serializers.CharField(source="circuit.dependency.slug")
    outage = serializers.IntegerField(source="outage_id", allow_null=True)

    class Meta:
        model = Transition
        fields = (
            "id", "dependency", "at", "generation", "from_state", "to_state", "from_mode", "to_mode", "cause", "actor",
            "reason", "evidence", "outage",
        )  # fmt: skip


class TransitionFilter(django_filters.FilterSet):
    """Which transitions."""

    dependency = filters.Named(named.dependency, "circuit__dependency")
    cause = filters.word(*words(Cause))
    to_state = filters.word(*words(State))
    actor = filters.text("actor")
    outage = filters.Whole(field_name="outage_id")
    since = filters.since("at")
    until = filters.until("at")


class Transitions(Many):
    """Changes of state or mode in an environment."""

    queryset = lists.transitions()
    noun, inside, shape = "transition", "circuit__environment", TransitionOut
    filterset_class = TransitionFilter
    orders = {"at": "-at", "id": "pk"}


class OneTransition(One):
    """One transition."""

    queryset = lists.transitions()
    noun, inside, shape = "transition", "circuit__environment", TransitionOut
    by = {"pk": "transition"}


class OutageOut(serializers.ModelSerializer[Outage]):
    """One episode of a circuit, from leaving closed to returning."""

    dependency = serializers.CharField(source="circuit.dependency.slug")

    class Meta:
        model = Outage
        fields = ("id", "dependency", "started_at", "ended_at", "cause", "locked_out_at")


class OutageFilter(django_filters.FilterSet):
    """Which outages."""

    dependency = filters.Named(named.dependency, "circuit__dependency")
    running = filters.IsEmpty("ended_at")
    locked_out = filters.IsSet("locked_out_at")
    since = filters.since("started_at")
    until = filters.until("started_at")


class Outages(Many):
    """Outages in an environment."""

    queryset = lists.outages()
    noun, inside, shape = "outage", "circuit__environment", OutageOut
    filterset_class = OutageFilter
    orders = {"started_at": "-started_at"}


class OneOutage(One):
    """One outage."""

    queryset = lists.outages()
    noun, inside, shape = "outage", "circuit__environment", OutageOut
    by = {"pk": "outage"}


class ProbeVoteOut(serializers.ModelSerializer[ProbeVote]):
    """One place's part in a round that several places decide."""

    class Meta:
        model = ProbeVote
        fields = ("place", "by_agent", "taken_at", "voted_at", "verdict", "answered")


class ProbeRoundOut(serializers.ModelSerializer[ProbeRound]):
    """One round of a half-open circuit: what was asked, what came back, what it said."""

    dependency = serializers.CharField(source="circuit.dependency.slug")
    votes = ProbeVoteOut(many=True, read_only=True, help_text="Empty where one Celery worker decides alone.")

    class Meta:
        model = ProbeRound
        fields = (
            "id", "dependency", "generation", "operation", "requested_by", "due_at", "granted_at", "lease_expires_at",
            "dispatched_at", "connected_at", "finished_at", "verdict", "applied", "asked", "answered",
            "places_wanted", "quorum", "votes",
        )  # fmt: skip


class ProbeRoundFilter(django_filters.FilterSet):
    """Which rounds."""

    dependency = filters.Named(named.dependency, "circuit__dependency")
    verdict = filters.word(*words(Verdict))
    running = filters.IsEmpty("finished_at")
    since = filters.since("granted_at")
    until = filters.until("granted_at")


class ProbeRounds(Many):
    """Probe rounds in an environment."""

    queryset = lists.rounds()
    noun, inside, shape = "probe_round", "circuit__environment", ProbeRoundOut
    filterset_class = ProbeRoundFilter
    orders = {"granted_at": "-granted_at"}
