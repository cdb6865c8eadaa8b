"""What the vendor says of itself: context beside a circuit, never evidence."""

from django.db import models

from controlplane.models.tool import Dependency


class VendorStatus(models.Model):
    """A status page that is read for one dependency, and what it last said; nothing that decides reads this."""

    dependency = models.OneToOneField(Dependency, on_delete=models.CASCADE, related_name="vendor_status")
    address = models.CharField(max_length=500, help_text="of Statuspage JSON, or of an RSS or Atom feed")
    component = models.CharField(max_length=200, blank=True, help_text="of the page's; empty: the page as a whole")
    updated_at = models.DateTimeField()
    updated_by = models.CharField(max_length=150)
    due_at = models.DateTimeField(help_text="when it is read next")
    tried_at = models.DateTimeField(null=True, blank=True)
    read_at = models.DateTimeField(null=True, blank=True, help_text="when it was last read")
    failing_since = models.DateTimeField(null=True, blank=True, help_text="since when it could not be read")
    problem = models.CharField(max_length=200, blank=True)
    level = models.CharField(max_length=20, blank=True, help_text="operational, degraded, outage, maintenance, unrated")
    said = models.CharField(max_length=300, blank=True, help_text="in the vendor's words; hostile until escaped")
    said_at = models.DateTimeField(null=True, blank=True, help_text="by the vendor's own clock")
    link = models.CharField(max_length=500, blank=True, help_text="a web address for people, or empty")
    etag = models.CharField(max_length=300, blank=True)
    last_modified = models.CharField(max_length=100, blank=True)

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="vendor_status_due")]

    def __str__(self) -> str:
        return f"{self.dependency_id}: {self.level or 'never read'}"
