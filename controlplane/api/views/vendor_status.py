"""Vendors' status pages: which is read beside a circuit, and what it last said. Context, never evidence."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane import clock
from controlplane.api import preconditions
from controlplane.api.base import One, lock_row
from controlplane.api.contract import edits
from controlplane.api.errors import Problem
from controlplane.api.fields import Said, Text
from controlplane.models import Dependency, VendorStatus
from controlplane.permissions import OPERATE
from controlplane.selectors import lists, named
from controlplane.services import vendor_status


class VendorStatusOut(serializers.ModelSerializer[VendorStatus]):
    """The page, and what it last said; in the vendor's own words, so hostile until escaped."""

    status_address = serializers.CharField(source="address")
    status_component = serializers.CharField(source="component")

    class Meta:
        model = VendorStatus
        fields = (
            "status_address", "status_component", "level", "said", "said_at", "link", "read_at", "failing_since",
            "problem", "updated_at", "updated_by",
        )  # fmt: skip


class VendorStatusSet(Said):
    """Which page is read from now on."""

    status_address = Text(
        max_length=500, help_text="Of Statuspage JSON (/api/v2/summary.json), or an RSS or Atom feed."
    )
    status_component = Text(
        max_length=200, allow_blank=True, default="", help_text="Of the page's components one, by its name."
    )


class OneVendorStatus(One):
    """The status page of one dependency's vendor."""

    noun, shape = "vendor_status", VendorStatusOut
    queryset = lists.dependencies()

    def find(self, *, lock: bool = False) -> Dependency:
        """The dependency that it belongs to."""
        row = named.dependency(self.environment, self.kwargs["dependency"])
        if lock:
            lock_row(row)
        return row

    def presented(self, row: Any) -> Any:
        """Its page, or an error that says how to name one."""
        status = VendorStatus.objects.filter(dependency=row).first()
        if status is None:
            raise Problem(404, "no_vendor_status", f"no status page is read for {row.slug}", "name one with PUT")
        return status

    def condition(self) -> str | None:
        """A first page has no version to name; `If-None-Match: *` says that it is meant to be the first."""
        if VendorStatus.objects.filter(dependency=self.find()).exists():
            if self.request.headers.get("If-None-Match", "").strip() == "*":
                raise Problem(412, "stale", "a page is read already", "read it first", "If-None-Match")
            return preconditions.demand_condition(self.request)
        if self.request.headers.get("If-Match"):
            raise Problem(412, "stale", "no page is read any more", "leave out If-Match to name one", "If-Match")
        return None

    @edits(OPERATE, takes=VendorStatusSet, gives=VendorStatusOut, may_be_first=True)
    def put(self, row: Dependency, said: dict[str, Any]) -> VendorStatus:
        """Have this page read; it is shown beside the circuit and moves nothing."""
        return vendor_status.set_status(
            dependency=row,
            address=said["status_address"],
            component=said["status_component"],
            actor=self.actor(),
            now=clock.now(),
        )

    @edits(OPERATE)
    def delete(self, row: Dependency, said: dict[str, Any]) -> None:
        """Read none any more."""
        self.presented(row)
        vendor_status.remove_status(dependency=row, actor=self.actor())
