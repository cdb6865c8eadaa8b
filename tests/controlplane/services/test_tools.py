"""Operators name tools and dependencies; a slip of the pen makes nothing new."""

import pytest

from controlplane import clock
from controlplane.models import AuditEntry, Circuit, Dependency, DocumentVersion, Tool
from controlplane.selectors import policies as resolved
from controlplane.services import catalogue, tools
from controlplane.services.errors import Refused

pytestmark = pytest.mark.django_db


def _tool(cast, name="web_search", **more):
    asked = {"environment": cast.prod, "name": name, "dependencies": ["search-api"], "actor": "petra"}
    return tools.ensure_tool(**(asked | {"now": clock.now()} | more))


def test_a_dependency_comes_with_its_circuit(cast):
    order = {"environment": cast.prod, "slug": "maps", "owner": "geo", "actor": "petra", "now": clock.now()}
    made = tools.ensure_dependency(**order)

    assert Circuit.objects.get(dependency=made).state == "closed"
    assert tools.ensure_dependency(**order) == made


def test_a_misspelt_dependency_is_an_error_that_says_what_was_meant(cast):
    with pytest.raises(Refused) as refused:
        _tool(cast, "maps_search", dependencies=["serach-api"])

    assert "search-api" in refused.value.mend
    assert not Tool.objects.filter(name="maps_search").exists()
    assert not Dependency.objects.filter(slug="serach-api").exists()


def test_a_class_that_an_operator_gives_is_confirmed_and_changes_the_preset(cast):
    version = DocumentVersion.objects.get(environment=cast.prod).config
    _tool(cast, side_effect="destructive")

    assert resolved.of_tool(cast.tools["web_search"]).policy.consecutive_failures == 1
    assert not resolved.of_dependency(cast.search_api).policy.permits
    assert DocumentVersion.objects.get(environment=cast.prod).config == version + 1


def test_nothing_new_changes_nothing(cast):
    version = DocumentVersion.objects.get(environment=cast.prod).config
    _tool(cast, side_effect="read_only")

    assert DocumentVersion.objects.get(environment=cast.prod).config == version


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": " web"}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"side_effect": "harmless"}, "side_effect"),
        ({"dependencies": []}, "dependencies"),
        ({"owner": "x" * 101}, "owner"),
    ],
)
def test_bad_input_is_refused_and_names_its_field(cast, wrong, field):
    with pytest.raises(Refused) as refused:
        _tool(cast, **wrong)
    assert refused.value.field == field


def _edit(cast, side_effect, **more):
    return catalogue.edit_tool(tool=cast.tools["refund"], changes={"side_effect": side_effect}, actor="petra", **more)


def _ensure(cast, side_effect, **more):
    return _tool(cast, "refund", dependencies=["payments"], side_effect=side_effect, **more)


@pytest.mark.parametrize("change", [_edit, _ensure])
@pytest.mark.parametrize("side_effect", ["read_only", "idempotent_write", "unknown"])
@pytest.mark.parametrize("approver", ["", "petra"])
def test_nobody_alone_makes_a_confirmed_class_milder(cast, change, side_effect, approver):
    with pytest.raises(Refused) as refused:
        change(cast, side_effect, approved_by=approver)

    assert (refused.value.code, refused.value.field) == ("needs_approval", "side_effect")
    assert Tool.objects.get(name="refund").side_effect == "side_effect"


@pytest.mark.parametrize("change", [_edit, _ensure])
def test_with_another_persons_approval_it_is_milder_and_on_record(cast, change):
    assert change(cast, "read_only", approved_by="ada").side_effect == "read_only"
    assert AuditEntry.objects.get().detail["approved_by"] == "ada"


@pytest.mark.parametrize("change", [_edit, _ensure])
def test_a_class_that_nobody_had_confirmed_may_be_confirmed_as_a_milder_one(cast, change):
    Tool.objects.filter(name="refund").update(class_confirmed=False)
    cast.tools["refund"].refresh_from_db()

    made = change(cast, "read_only")

    assert (made.side_effect, made.class_confirmed) == ("read_only", True)


@pytest.mark.parametrize("change", [_edit, _ensure])
def test_what_changes_a_circuits_policy_is_looked_at_by_the_next_sweep(cast, change):
    """A tool's class gives its dependency's preset: deadlines that follow from it are reckoned anew."""
    Circuit.objects.filter(dependency=cast.payments).update(state="open", sweep_at=None)

    change(cast, "destructive")

    assert Circuit.objects.get(dependency=cast.payments).sweep_at is not None
    assert Circuit.objects.get(dependency=cast.search_api).sweep_at is None
