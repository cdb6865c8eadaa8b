"""What people did, and what they were refused."""

from __future__ import annotations

import django_filters
from django.db.models import QuerySet
from rest_framework import serializers

from controlplane.api import filters
from controlplane.api.base import Many
from controlplane.models import AuditEntry
from controlplane.permissions import ADMINISTER
from controlplane.selectors import lists


class AuditEntryOut(serializers.ModelSerializer[AuditEntry]):
    """One action or one rejected attempt; each hash covers its entry and the one before it."""

    class Meta:
        model = AuditEntry
        fields = (
            "id", "at", "actor", "action", "target", "accepted", "reason", "detail", "environment_id", "previous_hash",
            "hash",
        )  # fmt: skip


class AuditFilter(django_filters.FilterSet):
    """Which entries."""

    actor = filters.text("actor")
    action = filters.text("action")
    target = filters.text("target")
    accepted = filters.Flag(field_name="accepted")
    since = filters.since("at")
    until = filters.until("at")


class EnvironmentAudit(Many):
    """The audit of one environment."""

    queryset = lists.audit()
    noun, inside, shape = "environment_audit_entry", "environment_id", AuditEntryOut
    filterset_class = AuditFilter
    orders = {"id": "-pk"}

    def get_queryset(self) -> QuerySet[AuditEntry]:
        """The entries of this environment; the table knows it by number only."""
        return lists.audit().filter(environment_id=self.environment.pk)


class WholeAudit(Many):
    """The whole audit: also what belongs to no environment, such as tokens and networks."""

    queryset = lists.audit()
    noun, inside, shape = "audit_entry", None, AuditEntryOut
    filterset_class = AuditFilter
    orders = {"id": "-pk"}
    reading = ADMINISTER
