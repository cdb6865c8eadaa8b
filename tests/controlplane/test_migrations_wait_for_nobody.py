"""No migration, past or to come, makes others wait while it builds an index or rewrites a column of a growing table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import connection, migrations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import CharField, Field, ForeignKey, Index, IntegerField, TextField

from controlplane.migrations._bounded import concurrently

GROWING = {
    *("run", "steplog", "trip", "transition", "outage", "proberound", "alertdelivery", "session"),
    *("observation", "auditentry", "rollupminute", "rollupday", "rolluphour", "runhour"),
}
"""Models whose tables have no bound but retention."""


def faults(migration: migrations.Migration, before: ProjectState) -> Iterator[str]:
    """What of it would hold up others, operation by operation."""
    new: set[str] = set()
    concurrent = any(isinstance(one, AddIndexConcurrently) for one in migration.operations)
    alone = all(isinstance(one, AddIndexConcurrently | migrations.RunSQL) for one in migration.operations)
    if concurrent and migration.atomic:
        yield "builds indexes concurrently inside a transaction"
    if concurrent and not alone:
        yield "does more than build indexes, so it cannot be run again after it was stopped"
    for operation in migration.operations:
        if isinstance(operation, migrations.CreateModel):
            new.add(operation.name_lower)
        model = getattr(operation, "model_name_lower", "")
        if model in GROWING - new and (found := _fault(operation, before)):
            yield f"{found} of {model}"
        operation.state_forwards(migration.app_label, before)


def _fault(operation: Operation, state: ProjectState) -> str:
    if isinstance(operation, migrations.AddIndex) and not isinstance(operation, AddIndexConcurrently):
        return "builds an index"
    if isinstance(operation, migrations.AddConstraint):
        return "checks every row for a constraint"
    if isinstance(operation, migrations.AddField) and (operation.field.db_index or operation.field.unique):
        return "builds an index for a column"
    if isinstance(operation, migrations.AlterField):
        fields = state.models["controlplane", operation.model_name_lower].fields
        return _rewrites(fields[operation.name], operation.field)
    return ""


def _rewrites(old: Field, new: Field) -> str:
    if isinstance(new, ForeignKey):
        return "builds an index for a column" if new.db_index and not old.db_index else ""
    if old.db_type(connection) != new.db_type(connection) and not _widens(old, new):
        return "rewrites a column"
    if old.null and not new.null:
        return "looks for nulls in every row"
    return "builds an index for a column" if new.db_index and not old.db_index else ""


def _widens(old: Field, new: Field) -> bool:
    """A longer text is no rewrite."""
    longer = isinstance(new, TextField) or (new.max_length or 0) >= (old.max_length or 0)
    return isinstance(old, CharField) and isinstance(new, CharField | TextField) and longer


def every() -> Iterator[tuple[migrations.Migration, ProjectState]]:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    for key in loader.graph.forwards_plan(loader.graph.leaf_nodes("controlplane")[0]):
        if key[0] == "controlplane":
            yield loader.graph.nodes[key], loader.project_state([key], at_end=False)


def test_no_migration_makes_others_wait():
    told = {migration.name: list(faults(migration, before)) for migration, before in every()}

    assert len(told) > 18
    assert {name: found for name, found in told.items() if found} == {}


def _state() -> ProjectState:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    return loader.project_state(loader.graph.leaf_nodes("controlplane")[:1])


INDEX = Index(fields=["status"], name="some_index")


@pytest.mark.parametrize(
    ("operations", "atomic", "found"),
    [
        ([migrations.AddIndex("run", INDEX)], True, ["builds an index of run"]),
        ([AddIndexConcurrently("run", INDEX)], True, ["builds indexes concurrently inside a transaction"]),
        ([migrations.AddField("trip", "x", IntegerField(null=True, db_index=True))], True,
         ["builds an index for a column of trip"]),
        ([migrations.AlterField("run", "revision", TextField())], True, ["rewrites a column of run"]),
        ([migrations.AlterField("run", "step_limit", IntegerField())], True, ["looks for nulls in every row of run"]),
        ([migrations.AlterField("run", "status", CharField(max_length=200))], True, []),
        ([migrations.AddField("trip", "x", IntegerField(null=True)), *concurrently({"run": [INDEX]})], False,
         ["does more than build indexes, so it cannot be run again after it was stopped"]),
        ([migrations.AddIndex("probe", INDEX)], True, []),
        (list(concurrently({"run": [INDEX]})), False, []),
    ],
)  # fmt: skip
def test_what_would_make_others_wait_is_found(operations, atomic, found):
    made = type("Migration", (migrations.Migration,), {"operations": operations, "atomic": atomic})

    assert list(faults(made("0099_x", "controlplane"), _state())) == found
