"""Policies: each layer with the values it sets, what they come to, and every revision there was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import django_filters
from recloser.core.policy import CIRCUIT_FIELDS, RUN_FIELDS, Field, Resolved, plain
from recloser.core.types import SideEffectClass
from rest_framework import serializers

from controlplane import clock
from controlplane.api import filters
from controlplane.api.base import Many, One, lock_row
from controlplane.api.contract import edits
from controlplane.api.errors import Problem
from controlplane.api.fields import Object, Said, Text
from controlplane.delivery import resolve
from controlplane.models import Dependency, PolicyRevision, Tool
from controlplane.permissions import EDIT_POLICY
from controlplane.selectors import lists, named
from controlplane.services import policies

LEVELS = PolicyRevision.Level


class RevisionOut(serializers.ModelSerializer[PolicyRevision]):
    """The values one layer set, as they stood; it never changes."""

    dependency = serializers.CharField(source="dependency.slug", default=None, allow_null=True)
    tool = serializers.CharField(source="tool.name", default=None, allow_null=True)

    class Meta:
        model = PolicyRevision
        fields: tuple[str, ...] = (
            "id", "level", "side_effect", "dependency", "tool", "number", "values", "content_hash", "status", "reason",
            "created_at", "created_by", "approved_by", "published_at", "superseded_at",
        )  # fmt: skip


class ValueOut(serializers.Serializer[Any]):
    """One value in force, and the layer it came from."""

    value = serializers.JSONField()
    origin = serializers.CharField(help_text="default, environment, class, dependency or tool.")


class PolicyOut(serializers.Serializer[Any]):
    """One layer: what it sets itself, and what all layers together come to there."""

    level = serializers.ChoiceField(choices=LEVELS.values)
    side_effect = serializers.CharField(allow_blank=True)
    dependency = serializers.CharField(source="dependency.slug", default=None, allow_null=True)
    tool = serializers.CharField(source="tool.name", default=None, allow_null=True)
    values = serializers.DictField(help_text="What this layer sets: empty while nothing was published.")
    revision = RevisionOut(allow_null=True)
    circuit = serializers.DictField(child=ValueOut(), allow_null=True, help_text="The shared circuit's policy.")
    run = serializers.DictField(child=ValueOut(), allow_null=True, help_text="The run breaker's policy.")


class PolicySet(Said):
    """All that the layer sets from now on, and why. A dependency sets circuit fields and a tool run fields; an
    environment and a class set both, under `circuit` and `run`."""

    values = Object()
    reason = Text(max_length=500)


@dataclass(frozen=True, slots=True)
class Layer:
    """One place in the resolution, and the revision in force there."""

    environment_id: int
    level: str
    side_effect: str = ""
    dependency: Dependency | None = None
    tool: Tool | None = None
    revision: PolicyRevision | None = None

    @property
    def values(self) -> dict[str, Any]:
        """What it sets."""
        return self.revision.values if self.revision else {}

    @property
    def circuit(self) -> dict[str, Any] | None:
        """The shared circuit's policy as it comes to here; None for a tool, which sets none."""
        if self.tool is not None:
            return None
        pk = self.dependency.pk if self.dependency else None
        return _told(resolve.published(self.environment_id).circuit(pk, self._character()), CIRCUIT_FIELDS)

    @property
    def run(self) -> dict[str, Any] | None:
        """The run's policy as it comes to here; None for a dependency, which sets none."""
        if self.dependency is not None:
            return None
        pk = self.tool.pk if self.tool else None
        return _told(resolve.published(self.environment_id).run(pk, self._character()), RUN_FIELDS)

    def _character(self) -> resolve.Character:
        if self.side_effect:
            return resolve.Character(SideEffectClass(self.side_effect), costly=False)
        if self.dependency is not None:
            return resolve.character_of(self.dependency.tools.all())
        return resolve.character_of([self.tool]) if self.tool is not None else resolve.UNKNOWN


def _told(resolved: Resolved[Any], fields: Mapping[str, Field]) -> dict[str, Any]:
    return {
        name: {"value": plain(field, getattr(resolved.policy, name)), "origin": resolved.origins[name].value}
        for name, field in fields.items()
    }


class _Policy(One):
    """One layer's policy."""

    queryset = lists.revisions()
    noun, shape = "policy", PolicyOut
    verbs = One.verbs | {"put": "publish"}

    def find(self, *, lock: bool = False) -> Layer:
        """The layer as it stands; publishing takes its turn within the environment."""
        if lock:
            lock_row(self.environment)
        place = self.place()
        revision = self.get_queryset().filter(**place, status=PolicyRevision.Status.PUBLISHED).first()
        return Layer(environment_id=self.environment.pk, revision=revision, **place)

    def place(self) -> dict[str, Any]:
        """Level and owner."""
        raise NotImplementedError

    def publish(self, said: dict[str, Any]) -> Layer:
        """Put values in force in place of the former ones."""
        policies.publish(environment=self.environment, **self.place(), **said, actor=self.actor(), now=clock.now())
        return self.find()


_Publish = edits(EDIT_POLICY, takes=PolicySet, gives=PolicyOut)


class EnvironmentPolicy(_Policy):
    """What holds for a whole environment."""

    noun = "environment_policy"

    def place(self) -> dict[str, Any]:
        """The environment."""
        return {"level": LEVELS.ENVIRONMENT.value, "side_effect": "", "dependency": None, "tool": None}

    @_Publish
    def put(self, row: Layer, said: dict[str, Any]) -> Layer:
        """Publish the environment's layer: its values replace the former ones, at once."""
        return self.publish(said)


class ClassPolicy(_Policy):
    """What holds for a side-effect class."""

    noun = "class_policy"

    def place(self) -> dict[str, Any]:
        """The class."""
        word = self.kwargs["side_effect"]
        if word not in set(SideEffectClass):
            raise Problem(
                404, "not_found", f"there is no class {word[:40]!r}", f"use one of {', '.join(SideEffectClass)}"
            )
        return {"level": LEVELS.CLASS.value, "side_effect": word, "dependency": None, "tool": None}

    @_Publish
    def put(self, row: Layer, said: dict[str, Any]) -> Layer:
        """Publish a class's layer: its values replace the former ones, at once."""
        return self.publish(said)


class DependencyPolicy(_Policy):
    """What holds for one dependency's circuit."""

    noun = "dependency_policy"

    def place(self) -> dict[str, Any]:
        """The dependency."""
        owner = named.dependency(self.environment, self.kwargs["dependency"])
        return {"level": LEVELS.DEPENDENCY.value, "side_effect": "", "dependency": owner, "tool": None}

    @_Publish
    def put(self, row: Layer, said: dict[str, Any]) -> Layer:
        """Publish a dependency's layer: its values replace the former ones, at once; the circuit keeps its state."""
        return self.publish(said)


class ToolPolicy(_Policy):
    """What holds for one tool in a run."""

    noun = "tool_policy"

    def place(self) -> dict[str, Any]:
        """The tool."""
        owner = named.tool(self.environment, self.kwargs["tool"])
        return {"level": LEVELS.TOOL.value, "side_effect": "", "dependency": None, "tool": owner}

    @_Publish
    def put(self, row: Layer, said: dict[str, Any]) -> Layer:
        """Publish a tool's layer: its values replace the former ones, at once."""
        return self.publish(said)


class RevisionFilter(django_filters.FilterSet):
    """Which revisions."""

    level = filters.word(*LEVELS.values)
    side_effect = filters.word(*(each.value for each in SideEffectClass))
    dependency = filters.Named(named.dependency, "dependency")
    tool = filters.Named(named.tool, "tool")
    status = filters.word(*PolicyRevision.Status.values)


class Revisions(Many):
    """Every revision of every layer of an environment."""

    queryset = lists.revisions()
    noun, shape = "revision", RevisionOut
    filterset_class = RevisionFilter
    orders = {"created_at": "-created_at"}


class OneRevision(One):
    """One revision."""

    queryset = lists.revisions()
    noun, shape = "revision", RevisionOut
    by = {"pk": "revision"}
