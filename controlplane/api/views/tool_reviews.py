"""Reviews of tools: a class, a cost or a place that would guard a tool less, and waits for a second person."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane import clock
from controlplane.api import filters
from controlplane.api.base import Many, One, lock_row
from controlplane.api.contract import edits, writes
from controlplane.api.fields import Choice, Flag, Names, Said, Text
from controlplane.api.lookup import given
from controlplane.api.views.reviews import Approval, Rejection, Withdrawal
from controlplane.api.views.tools import CLASSES
from controlplane.models import ToolChange
from controlplane.permissions import EDIT_POLICY
from controlplane.selectors import named
from controlplane.selectors import reviews as selector
from controlplane.services import tool_reviews
from controlplane.services.tool_reviews import GUARDED


class ToolValueOut(serializers.Serializer[Any]):
    """One value of the tool: as it is, and as it would be."""

    field = serializers.CharField(source="name", help_text="side_effect, costly or dependencies.")
    before = serializers.JSONField()
    after = serializers.JSONField()


class ToolNeedOut(serializers.Serializer[Any]):
    """Why it needs a second person."""

    kind = serializers.CharField(help_text="milder (the class) or eases (the cost, or where it stands).")
    field = serializers.CharField()
    message = serializers.CharField()


class ToolReviewLineOut(serializers.ModelSerializer[ToolChange]):
    """One line of the list."""

    tool = serializers.CharField(source="tool.name")

    class Meta:
        model = ToolChange
        fields: tuple[str, ...] = (
            "id", "tool", "wanted", "content_hash", "status", "reason", "created_at", "created_by", "approved_by",
            "submitted_at", "decided_at", "decided_by", "decision",
        )  # fmt: skip


class ToolReviewOut(ToolReviewLineOut):
    """A change of a tool that waits, or was decided, against what the tool is."""

    needs = serializers.SerializerMethodField()
    moved = serializers.SerializerMethodField(
        help_text="True: the tool, or what guards it, was changed since; its author submits it again."
    )
    changes = serializers.SerializerMethodField()

    class Meta(ToolReviewLineOut.Meta):
        fields = (*ToolReviewLineOut.Meta.fields, "needs", "moved", "changes")

    @extend_schema_field(ToolNeedOut(many=True))
    def get_needs(self, row: ToolChange) -> Any:
        """While it waits."""
        return ToolNeedOut(tool_reviews.needs_of(row), many=True).data

    def get_moved(self, row: ToolChange) -> bool:
        """Whether its base holds no more."""
        return tool_reviews.is_moved(row)

    @extend_schema_field(ToolValueOut(many=True))
    def get_changes(self, row: ToolChange) -> Any:
        """Field by field."""
        return ToolValueOut(selector.tool_values(row), many=True).data


class ToolReviewCreate(Said):
    """What a tool is to be, as far as that is to change, and why."""

    tool = Text(max_length=200)
    side_effect = Choice(choices=CLASSES, required=False)
    costly = Flag(required=False)
    dependencies = Names(allow_empty=False, max_length=50, required=False)
    reason = Text(max_length=500)
    draft = Flag(default=False, help_text="Keep it, and submit it later.")


class ToolReviewEdit(Said):
    """What its author changes of it: what is given of the tool takes the place of all that was proposed."""

    side_effect = Choice(choices=CLASSES, required=False)
    costly = Flag(required=False)
    dependencies = Names(allow_empty=False, max_length=50, required=False)
    reason = Text(max_length=500)


class ToolReviewFilter(django_filters.FilterSet):
    """Which reviews."""

    status = filters.word(*ToolChange.Status.values)
    tool = filters.Named(named.tool, "tool")
    created_by = filters.text("created_by")


class ToolReviews(Many):
    """Changes of tools that were sent for review or kept as drafts."""

    queryset = selector.tool_changes()
    noun, shape = "tool_review", ToolReviewLineOut
    filterset_class = ToolReviewFilter
    orders = {"created_at": "-created_at"}

    @writes(EDIT_POLICY, takes=ToolReviewCreate, gives=ToolReviewOut, status=201, name="propose_tool_change")
    def post(self, said: dict[str, Any]) -> ToolChange:
        """Propose a milder class, or a looser place: nothing is in force by it. A stricter class needs no review."""
        tool = given(named.tool, self.environment, said.pop("tool"), "tool")
        wanted = _wanted(said)
        return tool_reviews.propose(tool=tool, wanted=wanted, **said, actor=self.actor(), now=clock.now())


class OneToolReview(One):
    """One change under review."""

    queryset = selector.tool_changes()
    noun, shape = "tool_review", ToolReviewOut
    by = {"pk": "review"}

    def find(self, *, lock: bool = False) -> ToolChange:
        """The change; deciding takes its turn within the environment."""
        if lock:
            lock_row(self.environment)
        return super().find()  # type: ignore[no-any-return]

    @edits(EDIT_POLICY, takes=ToolReviewEdit, gives=ToolReviewOut, name="edit_tool_review")
    def patch(self, row: ToolChange, said: dict[str, Any]) -> ToolChange:
        """Change what you propose: it is a draft again, and an approval of what it said before is refused."""
        wanted = _wanted(said) or None
        return tool_reviews.edit(change=row, wanted=wanted, **said, actor=self.actor())


class SubmitToolReview(OneToolReview):
    """A draft that is sent."""

    http_method_names = ["post"]

    @edits(EDIT_POLICY, gives=ToolReviewOut, name="submit_tool_review")
    def post(self, row: ToolChange, said: dict[str, Any]) -> ToolChange:
        """Send it for review over the tool as it is now; one whose tool was changed meanwhile is renewed so."""
        return tool_reviews.submit(change=row, actor=self.actor(), now=clock.now())


class ApproveToolReview(OneToolReview):
    """A second person's yes."""

    http_method_names = ["post"]

    @edits(EDIT_POLICY, takes=Approval, gives=ToolReviewOut, name="approve_tool_review")
    def post(self, row: ToolChange, said: dict[str, Any]) -> ToolChange:
        """Do it, as somebody else than its author; it must be what you have read, over the same tool."""
        return tool_reviews.approve(change=row, **said, actor=self.actor(), now=clock.now())


class RejectToolReview(OneToolReview):
    """A second person's no."""

    http_method_names = ["post"]

    @edits(EDIT_POLICY, takes=Rejection, gives=ToolReviewOut, name="reject_tool_review")
    def post(self, row: ToolChange, said: dict[str, Any]) -> ToolChange:
        """Turn it down, and say why."""
        return tool_reviews.reject(change=row, **said, actor=self.actor(), now=clock.now())


class WithdrawToolReview(OneToolReview):
    """Its author's second thought."""

    http_method_names = ["post"]

    @edits(EDIT_POLICY, takes=Withdrawal, gives=ToolReviewOut, name="withdraw_tool_review")
    def post(self, row: ToolChange, said: dict[str, Any]) -> ToolChange:
        """Take your own change back."""
        return tool_reviews.withdraw(change=row, **said, actor=self.actor(), now=clock.now())


def _wanted(said: dict[str, Any]) -> dict[str, Any]:
    """What is said of the tool, taken out of the rest."""
    return {name: said.pop(name) for name in GUARDED if name in said}
