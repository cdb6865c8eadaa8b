"""A status page of a vendor, by dependency: context beside a circuit."""

import django.db.models.deletion
from django.db import migrations, models

from controlplane.migrations._bounded import bounded


class Migration(migrations.Migration):
    """A new table."""

    dependencies = [
        ("controlplane", "0016_places"),
    ]

    operations = bounded(
        migrations.CreateModel(
            name="VendorStatus",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "address",
                    models.CharField(help_text="of Statuspage JSON, or of an RSS or Atom feed", max_length=500),
                ),
                (
                    "component",
                    models.CharField(blank=True, help_text="of the page's; empty: the page as a whole", max_length=200),
                ),
                ("updated_at", models.DateTimeField()),
                ("updated_by", models.CharField(max_length=150)),
                ("due_at", models.DateTimeField(help_text="when it is read next")),
                ("tried_at", models.DateTimeField(blank=True, null=True)),
                ("read_at", models.DateTimeField(blank=True, help_text="when it was last read", null=True)),
                (
                    "failing_since",
                    models.DateTimeField(blank=True, help_text="since when it could not be read", null=True),
                ),
                ("problem", models.CharField(blank=True, max_length=200)),
                (
                    "level",
                    models.CharField(
                        blank=True, help_text="operational, degraded, outage, maintenance, unrated", max_length=20
                    ),
                ),
                (
                    "said",
                    models.CharField(
                        blank=True, help_text="in the vendor's words; hostile until escaped", max_length=300
                    ),
                ),
                ("said_at", models.DateTimeField(blank=True, help_text="by the vendor's own clock", null=True)),
                ("link", models.CharField(blank=True, help_text="a web address for people, or empty", max_length=500)),
                ("etag", models.CharField(blank=True, max_length=300)),
                ("last_modified", models.CharField(blank=True, max_length=100)),
                (
                    "dependency",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="vendor_status",
                        to="controlplane.dependency",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["due_at"], name="vendor_status_due")],
            },
        ),
    )
