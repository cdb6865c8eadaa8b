"""The tables that Django's schema editor did not write."""

import pytest
from django.db import DatabaseError, connection, transaction

pytestmark = pytest.mark.django_db


def _columns(table):
    with connection.cursor() as cursor:
        cursor.execute("SELECT column_name FROM information_schema.columns WHERE table_name = %s", [table])
        return {name for (name,) in cursor.fetchall()}


@pytest.mark.parametrize("model", ["Observation", "AuditEntry"])
def test_an_unmanaged_model_names_the_columns_that_exist(model):
    from controlplane import models

    meta = getattr(models, model)._meta
    assert {field.column for field in meta.fields} == _columns(meta.db_table)


@pytest.mark.parametrize("statement", ["UPDATE audit_entry SET actor = 'x'", "DELETE FROM audit_entry"])
def test_the_audit_refuses_change(statement):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO audit_entry (actor, action, target, accepted, previous_hash, hash)"
            " VALUES ('ann', 'force_close', 'search-api', true, '', 'h')"
        )
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            cursor.execute(statement)
