"""The layers of an environment, resolved for a dependency and a tool."""

import pytest
from recloser.core.policy import Origin
from recloser.core.types import SideEffectClass

from controlplane.delivery import resolve
from controlplane.models import PolicyRevision, Tool
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return factories.cast()


def _revision(cast, level, values, **more):
    fields = {"number": 1, "content_hash": "", "status": "published", "reason": "r", "created_at": NOON}
    return PolicyRevision.objects.create(environment=cast.prod, level=level, values=values, **{**fields, **more})


def test_without_revisions_the_defaults_hold(cast):
    found = resolve.of_dependency(cast.search_api)

    assert found.policy.min_calls == 20
    assert found.origins["min_calls"] is Origin.DEFAULT


def test_each_layer_outdoes_the_one_before_it(cast):
    _revision(cast, "environment", {"circuit": {"min_calls": 30, "cooldown_s": 20}, "run": {"semantic_failures": 4}})
    _revision(cast, "dependency", {"min_calls": 40}, dependency=cast.search_api)
    _revision(cast, "tool", {"semantic_failures": 9}, tool=cast.tools["web_search"])

    circuit = resolve.of_dependency(cast.search_api)
    run = resolve.of_tool(cast.tools["web_search"])

    assert (circuit.policy.min_calls, circuit.origins["min_calls"]) == (40, Origin.DEPENDENCY)
    assert (circuit.policy.cooldown_s, circuit.origins["cooldown_s"]) == (20, Origin.ENVIRONMENT)
    assert (run.policy.semantic_failures, run.origins["semantic_failures"]) == (9, Origin.TOOL)
    assert resolve.of_tool(cast.tools["news_search"]).policy.semantic_failures == 4


def test_the_strictest_tool_of_a_dependency_gives_its_preset(cast):
    assert resolve.of_dependency(cast.search_api).policy.permits is True
    cast.tools["news_search"].side_effect = SideEffectClass.DESTRUCTIVE
    cast.tools["news_search"].save()

    assert resolve.of_dependency(cast.search_api).policy.permits is False


def test_a_tool_that_a_key_discovered_does_not_change_the_preset_of_a_named_dependency(cast):
    before = resolve.of_dependency(cast.search_api).policy
    row = Tool.objects.create(environment=cast.prod, name="made_up", created_at=NOON, discovered_by=cast.workers[0].key)
    row.dependencies.add(cast.search_api)

    assert resolve.of_dependency(cast.search_api).policy == before

    row.side_effect, row.class_confirmed = SideEffectClass.DESTRUCTIVE, True
    row.save()
    assert resolve.of_dependency(cast.search_api).policy.permits is False


def test_only_published_revisions_of_the_own_environment_hold(cast):
    _revision(cast, "environment", {"circuit": {"min_calls": 30}, "run": {}}, status="draft")
    PolicyRevision.objects.create(
        environment=cast.staging,
        level="environment",
        values={"circuit": {"min_calls": 50}, "run": {}},
        number=1,
        content_hash="",
        status="published",
        reason="r",
        created_at=NOON,
    )

    assert resolve.of_dependency(cast.search_api).policy.min_calls == 20


def test_a_field_that_only_a_newer_version_knows_is_left_out(cast):
    _revision(cast, "dependency", {"min_calls": 40, "from_the_future": 1}, dependency=cast.search_api)

    assert resolve.of_dependency(cast.search_api).policy.min_calls == 40
