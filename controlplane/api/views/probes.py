"""Probes: how a dependency's recovery is tested. Secret header values go in and never come out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rest_framework import serializers

from controlplane import clock
from controlplane.api import preconditions
from controlplane.api.base import Face, One, lock_row
from controlplane.api.contract import edits, writes
from controlplane.api.errors import Problem, bad_field
from controlplane.api.fields import Flag, Object, Said, Text
from controlplane.models import Dependency, Probe, ProbeTest
from controlplane.permissions import OPERATE
from controlplane.selectors import lists, named
from controlplane.services import probes
from controlplane.services.probes import TEST_LIMIT

SPEC = "url, method, headers, body, expected_status, body_condition, latency_ms, time_limit_s, redirects, max_redirects"


class ProbeOut(serializers.Serializer[Any]):
    """What is asked of a dependency; of a secret header no more than its name."""

    kind = serializers.CharField()
    operation = serializers.CharField()
    spec = serializers.DictField(help_text=SPEC)
    secret_headers = serializers.DictField(child=serializers.CharField(), help_text="Masked.")
    enabled = serializers.BooleanField()
    updated_at = serializers.DateTimeField()
    updated_by = serializers.CharField()


class ProbeSet(Said):
    """How recovery is tested from now on. A secret header of null keeps its stored value; without any, all stay."""

    operation = Text(max_length=200)
    spec = Object(help_text=SPEC)
    secret_headers = Object(required=False)
    enabled = Flag(default=True)


class ProbeTry(Said):
    """What to ask once; without a spec, what is stored."""

    spec = Object(required=False, help_text=SPEC)
    secret_headers = Object(required=False)


class ProbeTestOut(serializers.ModelSerializer[ProbeTest]):
    """One try-out; `result` fills within seconds."""

    dependency = serializers.CharField(source="dependency.slug")
    spec = serializers.DictField()
    state = serializers.SerializerMethodField(help_text="waiting, done or lost.")

    class Meta:
        model = ProbeTest
        fields = ("id", "dependency", "state", "spec", "asked_by", "asked_at", "finished_at", "result")

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
            probes.save_probe(dependency=row, **said | _headers(said), actor=self.actor(), now=clock.now())
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
        spec = said.get("spec") or _stored(dependency)
        return probes.test_now(dependency=dependency, spec=spec, actor=self.actor(), now=clock.now(), **_headers(said))


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
    return {name: value for name, value in probe.spec.items() if value is not None or name == "body_condition"}


def _headers(said: dict[str, Any]) -> dict[str, Any]:
    """Secret headers as the service takes them: text, or null for what is stored."""
    given = said.get("secret_headers")
    for name, value in (given or {}).items():
        if value is not None and not isinstance(value, str):
            raise bad_field(f"secret_headers.{name[:60]}", "it is not text", "send a string, or null to keep it")
    return {"secret_headers": given}
