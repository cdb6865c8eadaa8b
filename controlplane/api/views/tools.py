"""What agents call: dependencies and tools. A name that is not there is an error, never a new object."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema_field
from recloser.core.effects import Basis
from recloser.core.types import SideEffectClass
from rest_framework import serializers

from controlplane import clock
from controlplane.api import filters
from controlplane.api.base import Many, One, lock_row
from controlplane.api.contract import edits, writes
from controlplane.api.fields import Choice, Flag, Names, Said, Text
from controlplane.models import Dependency, Environment, Tool
from controlplane.permissions import EDIT_POLICY
from controlplane.selectors import lists, named
from controlplane.selectors.tools import proposed, told
from controlplane.services import catalogue, removal
from controlplane.services.errors import Refused

CLASSES = [each.value for each in SideEffectClass]


class DependencyOut(serializers.ModelSerializer[Dependency]):
    """The downstream target behind one or more tools."""

    tools: Any = serializers.SlugRelatedField("name", many=True, read_only=True)
    discovered_by = serializers.CharField(
        source="discovered_by.prefix", default=None, allow_null=True, help_text="The key that first named it, if any."
    )

    class Meta:
        model = Dependency
        fields = ("slug", "owner", "description", "tools", "created_at", "discovered_by")


class DependencyCreate(Said):
    """A new dependency."""

    slug = Text(max_length=200)
    owner = Text(max_length=100, allow_blank=True, default="")
    description = Text(max_length=500, allow_blank=True, default="")


class DependencyEdit(Said):
    """What may change of one."""

    owner = Text(max_length=100, allow_blank=True)
    description = Text(max_length=500, allow_blank=True)


class DependencyFilter(django_filters.FilterSet):
    """Which dependencies."""

    owner = filters.text("owner")
    tool = filters.Named(named.tool, "tools")
    discovered = filters.IsSet("discovered_by")


class Dependencies(Many):
    """The dependencies of an environment."""

    queryset = lists.dependencies()
    noun, shape = "dependency", DependencyOut
    filterset_class = DependencyFilter
    orders = {"slug": "slug", "created_at": "created_at"}

    @writes(EDIT_POLICY, takes=DependencyCreate, gives=DependencyOut, status=201)
    def post(self, said: dict[str, Any]) -> Dependency:
        """Name a dependency; its circuit starts closed."""
        return catalogue.create_dependency(environment=self.environment, **said, actor=self.actor(), now=clock.now())


class OneDependency(One):
    """One dependency."""

    queryset = lists.dependencies()
    noun, shape = "dependency", DependencyOut
    by = {"slug": "dependency"}

    @edits(EDIT_POLICY, takes=DependencyEdit, gives=DependencyOut)
    def patch(self, row: Dependency, said: dict[str, Any]) -> Dependency:
        """Change its owner or description."""
        return catalogue.edit_dependency(dependency=row, changes=said, actor=self.actor())

    @edits(EDIT_POLICY)
    def delete(self, row: Dependency, said: dict[str, Any]) -> None:
        """Remove one that no tool stands before and that has no history; its probe and policy go with it."""
        removal.remove_dependency(dependency=row, actor=self.actor())


class ProposalOut(serializers.Serializer[Any]):
    """A class that name and hints suggest, for a person to confirm."""

    side_effect = serializers.ChoiceField(choices=CLASSES)
    basis = serializers.ChoiceField(choices=[each.value for each in Basis])
    because = serializers.CharField()


class HintsOut(serializers.Serializer[Any]):
    """What a tool says of itself, as one agent told it: a claim, which makes no class."""

    agent = serializers.CharField()
    stated = serializers.DictField(
        child=serializers.BooleanField(), help_text="By MCP's names; what is not stated is absent."
    )
    told_at = serializers.DateTimeField()
    counted = serializers.BooleanField(help_text="False while the key that told it is in quarantine.")


class ToolOut(serializers.ModelSerializer[Tool]):
    """A name the model can call."""

    dependencies: Any = serializers.SlugRelatedField("slug", many=True, read_only=True)
    discovered_by = serializers.CharField(
        source="discovered_by.prefix", default=None, allow_null=True, help_text="The key that first named it, if any."
    )
    proposal = serializers.SerializerMethodField()
    hints = serializers.SerializerMethodField()

    class Meta:
        model = Tool
        fields = (
            "name", "dependencies", "side_effect", "class_confirmed", "costly", "owner", "operation", "created_at",
            "discovered_by", "proposal", "hints",
        )  # fmt: skip

    @extend_schema_field(ProposalOut(allow_null=True))
    def get_proposal(self, row: Tool) -> dict[str, Any] | None:
        """While nobody has confirmed a class."""
        found = proposed(row)
        return None if found is None else ProposalOut(found).data

    @extend_schema_field(HintsOut(many=True))
    def get_hints(self, row: Tool) -> Any:
        """By agent."""
        return HintsOut(told(row), many=True).data


class ToolCreate(Said):
    """A new tool. A class given is thereby confirmed."""

    name = Text(max_length=200)
    dependencies = Names(allow_empty=False, max_length=50)
    side_effect = Choice(choices=CLASSES, required=False)
    costly = Flag(required=False)
    operation = Text(max_length=200, allow_blank=True, default="")
    owner = Text(max_length=100, allow_blank=True, default="")


class ToolEdit(Said):
    """What may change of one. A class given is thereby confirmed."""

    dependencies = Names(allow_empty=False, max_length=50)
    side_effect = Choice(choices=CLASSES)
    costly = Flag()
    operation = Text(max_length=200, allow_blank=True)
    owner = Text(max_length=100, allow_blank=True)


class ToolFilter(django_filters.FilterSet):
    """Which tools."""

    dependency = filters.Named(named.dependency, "dependencies")
    side_effect = filters.word(*CLASSES)
    confirmed = filters.Flag(field_name="class_confirmed")
    owner = filters.text("owner")
    discovered = filters.IsSet("discovered_by")


class Tools(Many):
    """The tools of an environment."""

    queryset = lists.tools()
    noun, shape = "tool", ToolOut
    filterset_class = ToolFilter
    orders = {"name": "name", "created_at": "created_at"}

    @writes(EDIT_POLICY, takes=ToolCreate, gives=ToolOut, status=201)
    def post(self, said: dict[str, Any]) -> Tool:
        """Name a tool in front of dependencies that exist."""
        return catalogue.create_tool(environment=self.environment, **said, actor=self.actor(), now=clock.now())


class OneTool(One):
    """One tool."""

    queryset = lists.tools()
    noun, shape = "tool", ToolOut
    by = {"name": "tool"}

    def find(self, *, lock: bool = False) -> Tool:
        """The tool; an edit takes its turn within the environment, as every review does."""
        if lock:
            lock_row(self.environment)
        return super().find(lock=lock)  # type: ignore[no-any-return]

    @edits(EDIT_POLICY, takes=ToolEdit, gives=ToolOut)
    def patch(self, row: Tool, said: dict[str, Any]) -> Tool:
        """Confirm its class, or change its owner, operation, cost or dependencies. What guards it less than now is
        refused (`needs_approval`): propose it under `tool-reviews`."""
        try:
            changed = catalogue.edit_tool(tool=row, changes=said, actor=self.actor())
        except Refused as refused:
            raise _leading(refused, self.environment) from None
        return lists.tools().get(pk=changed.pk)

    @edits(EDIT_POLICY)
    def delete(self, row: Tool, said: dict[str, Any]) -> None:
        """Remove one that nobody calls, that never tripped, and that no policy falls back on."""
        removal.remove_tool(tool=row, actor=self.actor())


def _leading(refused: Refused, here: Environment) -> Refused:
    """With the address at which a second person is asked."""
    if refused.code != "needs_approval":
        return refused
    mend = f"{refused.mend} (POST /api/v1/environments/{here.slug}/tool-reviews)"
    return Refused(refused.code, refused.message, mend, refused.field)
