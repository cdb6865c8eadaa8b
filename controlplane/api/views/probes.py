"""Probes: how a dependency's recovery is tested. Secret header values go in and never come out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import extend_schema_field
from recloser.core.places import AskFrom
from rest_framework import serializers

from controlplane import clock, probe_spec
from controlplane.api import preconditions
from controlplane.api.base import Face, One, lock_row
from controlplane.api.contract import edits, writes
from controlplane.api.errors import Problem, bad_field
from controlplane.api.fields import Choice, Flag, Object, Said, Text
from controlplane.models import Dependency, Probe, ProbeTest
from controlplane.permissions import OPERATE
from controlplane.probe_spec import schema
from controlplane.selectors import lists, named
from controlplane.services import probes
from controlplane.services.probes import TEST_LIMIT

SPEC = "What the kind asks and expects; its fields are the kind's own."


@extend_schema_field(schema.of_all())
class ProbeSpecField(Object):
    """The typed fields of one kind of probe."""


class ProbeOut(serializers.Serializer[Any]):
    """What is asked of a dependency; of a secret header no more than its name."""

    kind = serializers.CharField()
    operation = serializers.CharField()
    spec = serializers.DictField(help_text=SPEC)
    secret_headers = serializers.DictField(child=serializers.CharField(), help_text="Masked.")
    secret_values = serializers.DictField(child=serializers.CharField(), help_text="Masked.")
    enabled = serializers.BooleanField()
    ask_from = serializers.ChoiceField(choices=[each.value for each in AskFrom])
    heartbeat_s = serializers.IntegerField(allow_null=True, help_text="Pace in seconds while closed; null: not asked.")
    updated_at = serializers.DateTimeField()
    updated_by = serializers.CharField()


class ProbeSet(Said):
    """How recovery is tested from now on. A secret header of null keeps its stored value; without any, all stay."""

    operation = Text(max_length=200)
    kind = Choice(choices=list(probe_spec.KINDS), default=probe_spec.DEFAULT)
    spec = ProbeSpecField(help_text=SPEC)
    secret_headers = Object(required=False, help_text="For kinds that speak HTTP, and gRPC's metadata.")
    secret_values = Object(required=False, help_text="For kinds that name what they take: password, api_key.")
    enabled = Flag(default=True)
    ask_from = Choice(
        choices=[each.value for each in AskFrom],
        required=False,
        help_text="Where it is asked from; agents get plain HTTP and TCP probes without secrets. Left out: as it was.",
    )
    heartbeat_s = serializers.IntegerField(
        required=False, allow_null=True, min_value=60, max_value=86_400,
        help_text="Ask at this pace while the circuit is closed, too, for a warning. Left out or null: never.",
    )  # fmt: skip


class ProbeTry(Said):
    """What to ask once; without a spec, what is stored."""

    kind = Choice(choices=list(probe_spec.KINDS), default=probe_spec.DEFAULT)
    spec = ProbeSpecField(required=False, help_text=SPEC)
    secret_headers = Object(required=False)
    secret_values = Object(required=False)


class ProbeTestOut(serializers.ModelSerializer[ProbeTest]):
    """One try-out; `result` fills within seconds."""

    dependency = serializers.CharField(source="dependency.slug")
    spec = serializers.DictField()
    state = serializers.SerializerMethodField(help_text="waiting, done or lost.")

    class Meta:
        model = ProbeTest
        fields = ("id", "dependency", "state", "kind", "spec", "asked_by", "asked_at", "finished_at", "result")

    def get_state(self, row: ProbeTest) -> str:
        """Nobody took it, it is under way, or its answer is there."""
        if row.finished_at is not None:
            return "done"
        return "lost" if clock.now() - row.asked_at > 2 * TEST_LIMIT + timedelta(seconds=10) else "waiting"


class OneProbe(One):
    """The probe of one dependency."""

    noun, shape = "probe", ProbeOut
    queryset = lists.dependencies()

    def find(self, *, lock: bool = False) -> Dependency:
        """The dependency that is tested."""
        row = named.dependency(self.environment, self.kwargs["dependency"])
        if lock:
            lock_row(row)
        return row

    def presented(self, row: Any) -> Any:
        """Its probe, or an error that says how to set one."""
        probe = Probe.objects.filter(dependency=row).first()
        if probe is None:
            mend = "set one with PUT, or leave recovery to permits"
            raise Problem(404, "no_probe", f"{row.slug} has no probe", mend)
        return probes.shown(probe)

    def condition(self) -> str | None:
        """A first probe has no version to name; `If-None-Match: *` says that it is meant to be the first."""
        dependency = self.find()
        if Probe.objects.filter(dependency=dependency).exists():
            if self.request.headers.get("If-None-Match", "").strip() == "*":
                raise Problem(412, "stale", "there is a probe already", "read it first", "If-None-Match")
            return preconditions.demand_condition(self.request)
        if self.request.headers.get("If-Match"):
            raise Problem(412, "stale", "there is no probe any more", "leave out If-Match to set one", "If-Match")
        return None

    @edits(OPERATE, takes=ProbeSet, gives=ProbeOut, may_be_first=True)
    def put(self, row: Dependency, said: dict[str, Any]) -> dict[str, Any]:
        """Set how its recovery is tested."""
        return probes.shown(
            probes.save_probe(dependency=row, **said | _secrets(said), actor=self.actor(), now=clock.now())
        )

    @edits(OPERATE)
    def delete(self, row: Dependency, said: dict[str, Any]) -> None:
        """Remove it: from now on nothing but a permit tests this dependency."""
        self.presented(row)
        probes.remove_probe(dependency=row, actor=self.actor())


class TryProbe(Face):
    """One question out of turn."""

    noun = "probe_test"
    queryset = lists.probe_tests()

    @writes(OPERATE, takes=ProbeTry, gives=ProbeTestOut, status=202, name="test_probe")
    def post(self, said: dict[str, Any]) -> ProbeTest:
        """Have a worker ask once, without touching the circuit; read the answer at probe/tests/<id>."""
        dependency = named.dependency(self.environment, self.kwargs["dependency"])
        asked = {"kind": said["kind"], "spec": said["spec"]} if said.get("spec") else _stored(dependency)
        return probes.test_now(dependency=dependency, actor=self.actor(), now=clock.now(), **asked | _secrets(said))


class OneProbeTest(One):
    """One try-out; it is kept for an hour."""

    queryset = lists.probe_tests()
    noun, inside, shape = "probe_test", "dependency__environment", ProbeTestOut
    by = {"pk": "test"}

    def get_queryset(self) -> Any:
        """Of this dependency."""
        dependency = named.dependency(self.environment, self.kwargs["dependency"])
        return super().get_queryset().filter(dependency=dependency)


def _stored(dependency: Dependency) -> dict[str, Any]:
    probe = Probe.objects.filter(dependency=dependency).first()
    if probe is None:
        raise bad_field("spec", "there is no stored probe to try", "say what to ask")
    return {"kind": probe.kind, "spec": probe.spec}


def _secrets(said: dict[str, Any]) -> dict[str, Any]:
    """Secrets as the service takes them: text, or null for what is stored."""
    found = {field: said.get(field) for field in ("secret_headers", "secret_values")}
    for field, given in found.items():
        for name, value in (given or {}).items():
            if value is not None and not isinstance(value, str):
                raise bad_field(f"{field}.{name[:60]}", "it is not text", "send a string, or null to keep it")
    return found
