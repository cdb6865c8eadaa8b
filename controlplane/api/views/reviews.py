"""Reviews: changes of policy that wait for a second person, with what they would change."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema_field
from recloser.core.types import SideEffectClass
from rest_framework import serializers

from controlplane import clock
from controlplane.api import filters
from controlplane.api.base import Many, One, lock_row
from controlplane.api.contract import edits, writes
from controlplane.api.errors import Problem
from controlplane.api.fields import Choice, Flag, Object, Said, Text
from controlplane.api.lookup import given
from controlplane.api.views.policies import LEVELS, RevisionOut
from controlplane.models import PolicyRevision
from controlplane.permissions import EDIT_POLICY
from controlplane.selectors import named
from controlplane.selectors import reviews as selector
from controlplane.services import policies, reviews

STATUSES = [each.value for each in PolicyRevision.Status]


class ChangeOut(serializers.Serializer[Any]):
    """One value: as it is, and as it would be."""

    part = serializers.CharField(help_text="circuit or run.")
    field = serializers.CharField(source="name")
    before = serializers.JSONField(allow_null=True)
    before_origin = serializers.CharField()
    after = serializers.JSONField(allow_null=True)
    after_origin = serializers.CharField()


class NeedOut(serializers.Serializer[Any]):
    """Why it needs a second person."""

    kind = serializers.CharField(help_text="loosens or alters.")
    names = serializers.ListField(child=serializers.CharField(), source="fields", help_text="The fields.")
    message = serializers.CharField()


class ReviewOut(RevisionOut):
    """A change that waits, or was decided: its values, and what they change against what is in force."""

    needs = serializers.SerializerMethodField()
    moved = serializers.SerializerMethodField(
        help_text="True: another revision came into force since; its author submits it again."
    )
    changes = serializers.SerializerMethodField()

    class Meta(RevisionOut.Meta):
        fields = (
            *RevisionOut.Meta.fields, "base", "submitted_at", "decided_at", "decided_by", "decision", "needs", "moved",
            "changes",
        )  # fmt: skip

    @extend_schema_field(NeedOut(many=True))
    def get_needs(self, row: PolicyRevision) -> Any:
        """While it waits."""
        return NeedOut(reviews.needs_of(row), many=True).data

    def get_moved(self, row: PolicyRevision) -> bool:
        """Whether its base is in force no more."""
        return reviews.is_moved(row)

    @extend_schema_field(ChangeOut(many=True))
    def get_changes(self, row: PolicyRevision) -> Any:
        """Field by field."""
        return ChangeOut(selector.changes(row), many=True).data


class ReviewLineOut(RevisionOut):
    """One line of the list."""

    class Meta(RevisionOut.Meta):
        fields = (*RevisionOut.Meta.fields, "base", "submitted_at", "decided_at", "decided_by", "decision")


class ReviewCreate(Said):
    """One layer's values, all that it would set, and why. Level `class` names the side_effect, `dependency` and `tool`
    their owner."""

    level = Choice(choices=LEVELS.values)
    side_effect = Choice(choices=[each.value for each in SideEffectClass], required=False)
    dependency = Text(max_length=200, required=False)
    tool = Text(max_length=200, required=False)
    values = Object()
    reason = Text(max_length=500)
    draft = Flag(default=False, help_text="Keep it, and submit it later.")


class ReviewEdit(Said):
    """What its author changes of it; it is a draft again."""

    values = Object()
    reason = Text(max_length=500)


class Approval(Said):
    """Which content was looked at: `content_hash` as it was read. A word to the record, if there is one to say."""

    content_hash = Text(max_length=64)
    reason = Text(max_length=500, allow_blank=True, default="")


class Rejection(Said):
    """What would have to be different."""

    reason = Text(max_length=500)


class Withdrawal(Said):
    """Why, if there is something to say."""

    reason = Text(max_length=500, allow_blank=True, default="")


class ReviewFilter(django_filters.FilterSet):
    """Which reviews."""

    status = filters.word(*STATUSES)
    level = filters.word(*LEVELS.values)
    dependency = filters.Named(named.dependency, "dependency")
    tool = filters.Named(named.tool, "tool")
    created_by = filters.text("created_by")


class Reviews(Many):
    """Changes of policy that were sent for review or kept as drafts."""

    queryset = selector.reviews()
    noun, shape = "review", ReviewLineOut
    filterset_class = ReviewFilter
    orders = {"created_at": "-created_at"}

    @writes(EDIT_POLICY, takes=ReviewCreate, gives=ReviewOut, status=201, name="propose_policy")
    def post(self, said: dict[str, Any]) -> PolicyRevision:
        """Send a change for review, or keep it as a draft: nothing is in force by it."""
        owners = {"dependency": named.dependency, "tool": named.tool}
        for field, look_up in owners.items():
            if field in said:
                said[field] = given(look_up, self.environment, said[field], field)
        return reviews.propose(environment=self.environment, **said, actor=self.actor(), now=clock.now())


class OneReview(One):
    """One change under review."""

    queryset = selector.reviews()
    noun, shape = "review", ReviewOut
    by = {"pk": "review"}

    def find(self, *, lock: bool = False) -> PolicyRevision:
        """The revision; deciding takes its turn within the environment."""
        if lock:
            lock_row(self.environment)
        return super().find()  # type: ignore[no-any-return]

    @edits(EDIT_POLICY, takes=ReviewEdit, gives=ReviewOut, name="edit_review")
    def patch(self, row: PolicyRevision, said: dict[str, Any]) -> PolicyRevision:
        """Change what you propose: it is a draft again, and an approval of what it said before is refused."""
        return reviews.edit(revision=row, **said, actor=self.actor())


class SubmitReview(OneReview):
    """A draft that is sent."""

    http_method_names = ["post"]

    @edits(EDIT_POLICY, gives=ReviewOut, name="submit_review")
    def post(self, row: PolicyRevision, said: dict[str, Any]) -> PolicyRevision:
        """Send it for review over what is in force now; one whose base has moved on is renewed so."""
        return reviews.submit(revision=row, actor=self.actor(), now=clock.now())


class ApproveReview(OneReview):
    """A second person's yes."""

    http_method_names = ["post"]

    @edits(EDIT_POLICY, takes=Approval, gives=ReviewOut, name="approve_review")
    def post(self, row: PolicyRevision, said: dict[str, Any]) -> PolicyRevision:
        """Put it in force, as somebody else than its author; it must be what you have read, over the same base."""
        return reviews.approve(revision=row, **said, actor=self.actor(), now=clock.now())


class RejectReview(OneReview):
    """A second person's no."""

    http_method_names = ["post"]

    @edits(EDIT_POLICY, takes=Rejection, gives=ReviewOut, name="reject_review")
    def post(self, row: PolicyRevision, said: dict[str, Any]) -> PolicyRevision:
        """Turn it down, and say why."""
        return reviews.reject(revision=row, **said, actor=self.actor(), now=clock.now())


class WithdrawReview(OneReview):
    """Its author's second thought."""

    http_method_names = ["post"]

    @edits(EDIT_POLICY, takes=Withdrawal, gives=ReviewOut, name="withdraw_review")
    def post(self, row: PolicyRevision, said: dict[str, Any]) -> PolicyRevision:
        """Take your own change back."""
        return reviews.withdraw(revision=row, **said, actor=self.actor(), now=clock.now())


class RollBack(One):
    """An earlier revision that is wanted again."""

    queryset = PolicyRevision.objects.select_related("environment", "dependency", "tool")
    noun, shape = "revision", RevisionOut
    by = {"pk": "revision"}
    http_method_names = ["post"]

    @writes(EDIT_POLICY, takes=Rejection, gives=RevisionOut, status=201, name="roll_back_policy")
    def post(self, said: dict[str, Any]) -> PolicyRevision:
        """Put its values in force again, as a new revision. What needs a second person is refused: propose it."""
        row = self.find()
        if row.published_at is None:
            raise Problem(409, "never_published", "this revision was never in force", "propose its values instead")
        return policies.roll_back(revision=row, **said, actor=self.actor(), now=clock.now())
