"""The audit is one chain: linear under concurrency, and whatever was changed in it shows."""

import io
import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from controlplane.models import AuditAnchor, AuditEntry
from controlplane.services import audit, partitions

pytestmark = pytest.mark.django_db


def _record(number=1, **more):
    for _ in range(number):
        audit.record(actor="otto", action="force_close", target="search-api", accepted=True, **more)


def _bypass(statement):
    """Change the table as somebody with the database's keys could."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement)
        cursor.execute("SET LOCAL session_replication_role = origin")


def test_an_untouched_chain_verifies():
    _record(3, detail={"until": datetime(2026, 6, 1, tzinfo=UTC), "n": 1.5}, reason="ä")

    verdict = audit.verify()
    assert verdict.broken_at is None and verdict.entries >= 3


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit_entry SET actor = 'nobody' WHERE id = {id}",
        "UPDATE audit_entry SET accepted = false WHERE id = {id}",
        "UPDATE audit_entry SET detail = '{{\"a\": 1}}' WHERE id = {id}",
        "UPDATE audit_entry SET at = at + interval '1 second' WHERE id = {id}",
    ],
)
def test_a_changed_entry_is_found(change):
    _record(3)
    middle = AuditEntry.objects.order_by("-id")[1].id
    _bypass(change.format(id=middle))

    assert audit.verify().broken_at == middle


def test_a_removed_entry_is_found():
    _record(3)
    last, middle = (entry.id for entry in AuditEntry.objects.order_by("-id")[:2])
    _bypass(f"DELETE FROM audit_entry WHERE id = {middle}")

    assert audit.verify().broken_at == last


def test_the_command_says_that_the_chain_is_whole():
    _record(3)
    said = io.StringIO()

    call_command("verify_audit", stdout=said)

    assert said.getvalue() == f"{AuditEntry.objects.count()} entries, and every one fits the one before it\n"


def test_the_command_fails_where_it_is_broken_and_says_where():
    _record(3)
    middle = AuditEntry.objects.order_by("-id")[1].id
    _bypass(f"UPDATE audit_entry SET actor = 'nobody' WHERE id = {middle}")

    with pytest.raises(CommandError, match=f"broken at entry {middle},") as failed:
        call_command("verify_audit")

    assert failed.value.returncode == 1


@pytest.mark.django_db(transaction=True)
def test_twenty_writers_at_once_make_one_linear_chain():
    def write():
        try:
            _record(5)
        finally:
            connection.close()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert audit.verify().broken_at is None


def test_retention_drops_whole_months_and_the_chain_goes_on_from_the_anchor(frozen_clock):
    frozen_clock.advance(-(datetime(2026, 6, 1, 12, tzinfo=UTC) - datetime(2024, 1, 10, tzinfo=UTC)).total_seconds())
    old = datetime(2024, 1, 10, tzinfo=UTC)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM audit_entry")
        cursor.execute("SET LOCAL session_replication_role = origin")
    AuditAnchor.objects.all().delete()
    partitions.make_ahead(now=old)
    _record(2)
    last = AuditEntry.objects.order_by("-id").first()
    frozen_clock.advance(timedelta(days=500).total_seconds())
    _record(1)

    dropped = partitions.drop_old(now=old + timedelta(days=500))

    assert "audit_entry_202401" in dropped
    assert AuditAnchor.objects.get(last_id=last.id).hash == last.hash
    assert audit.verify() == audit.Verdict(entries=1, broken_at=None)
    _record(1)
    assert audit.verify().broken_at is None
