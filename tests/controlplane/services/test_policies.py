"""A published policy is validated, immutable and in force at once."""

import pytest
from recloser.core.policy import Origin

from controlplane import clock
from controlplane.models import AuditEntry, DocumentVersion, PolicyRevision
from controlplane.selectors import policies as resolved
from controlplane.services import policies
from controlplane.services.errors import Refused

pytestmark = pytest.mark.django_db


def _publish(cast, level, values, **more):
    asked = {
        "environment": cast.prod,
        "level": level,
        "values": values,
        "reason": "fits last month",
        "actor": "petra",
        "now": clock.now(),
    }
    return policies.publish(**(asked | more))


def test_layers_resolve_from_environment_to_dependency_with_origins(cast):
    _publish(cast, "environment", {"circuit": {"min_calls": 30, "window_s": 90}})
    _publish(cast, "dependency", {"min_calls": 10}, dependency=cast.search_api)

    found = resolved.of_dependency(cast.search_api)
    assert (found.policy.min_calls, found.origins["min_calls"]) == (10, Origin.DEPENDENCY)
    assert (found.policy.window_s, found.origins["window_s"]) == (90, Origin.ENVIRONMENT)
    assert found.origins["cooldown_s"] is Origin.DEFAULT
    assert resolved.of_dependency(cast.crm_db).policy.min_calls == 30


def test_a_tools_own_run_fields_win(cast):
    _publish(cast, "class", {"run": {"semantic_failures": 4}}, side_effect="read_only")
    _publish(cast, "tool", {"consecutive_failures": 2}, tool=cast.tools["web_search"])

    web, news = (resolved.of_tool(cast.tools[name]) for name in ("web_search", "news_search"))
    assert (web.policy.consecutive_failures, web.origins["consecutive_failures"]) == (2, Origin.TOOL)
    assert news.policy.consecutive_failures == 5
    assert (news.policy.semantic_failures, news.origins["semantic_failures"]) == (4, Origin.CLASS)
    assert resolved.of_tool(cast.tools["refund"]).policy.semantic_failures == 3


def test_a_class_revision_wins_over_the_built_in_preset(cast):
    _publish(cast, "class", {"run": {"consecutive_failures": 1}}, side_effect="side_effect")

    assert resolved.of_tool(cast.tools["refund"]).policy.consecutive_failures == 1


def test_a_new_revision_supersedes_the_former_and_raises_the_config_version(cast):
    version = DocumentVersion.objects.get(environment=cast.prod).config
    first = _publish(cast, "dependency", {"min_calls": 10}, dependency=cast.search_api)
    second = _publish(cast, "dependency", {"min_calls": 12}, dependency=cast.search_api)

    first.refresh_from_db()
    assert (first.status, first.superseded_at, first.values) == ("superseded", clock.now(), {"min_calls": 10})
    assert (second.status, second.number) == ("published", 2)
    assert first.content_hash != second.content_hash == policies.content_hash({"min_calls": 12})
    assert DocumentVersion.objects.get(environment=cast.prod).config == version + 2
    assert resolved.of_dependency(cast.search_api).policy.min_calls == 12


def test_the_other_environment_is_untouched(cast):
    _publish(cast, "environment", {"circuit": {"min_calls": 30}})

    assert resolved.of_dependency(cast.staging_search_api).policy.min_calls == 20


def test_what_a_policy_says_is_read_once_a_version(cast, django_assert_num_queries):
    resolved.of_dependency(cast.search_api)

    with django_assert_num_queries(1):
        resolved.of_dependency(cast.search_api)


@pytest.mark.parametrize(
    ("level", "values", "field"),
    [
        ("dependency", {"min_cals": 10}, "min_cals"),
        ("dependency", {"failure_rate": 1.5}, "failure_rate"),
        ("dependency", {"semantic_failures": 2}, "semantic_failures"),
        ("dependency", {"cooldown_s": 50, "cooldown_max_s": 40}, "cooldown_max_s"),
        ("dependency", {"cooldown_s": 90}, "cooldown_max_s"),
        ("environment", {"min_calls": 10}, "min_calls"),
        ("environment", {"circuit": 3}, "circuit"),
        ("environment", {"circuit": {"min_calls": -1}}, "circuit.min_calls"),
        ("enviroment", {}, "level"),
        ("tool", {}, "tool"),
    ],
)
def test_a_policy_that_does_not_validate_is_refused_names_its_field_and_is_on_record(cast, level, values, field):
    more = {"dependency": cast.search_api} if level == "dependency" else {}

    with pytest.raises(Refused) as refused:
        _publish(cast, level, values, **more)

    assert refused.value.field == field and refused.value.mend
    assert not PolicyRevision.objects.exists()
    assert AuditEntry.objects.order_by("-id").first().accepted is False


def test_a_misspelt_field_is_told_what_was_meant(cast):
    with pytest.raises(Refused, match="min_calls"):
        _publish(cast, "dependency", {"min_cals": 10}, dependency=cast.search_api)


@pytest.mark.parametrize(
    "more", [{"reason": ""}, {"side_effect": "read_only"}, {"tool": "web_search"}, {"dependency": "staging"}]
)
def test_a_place_that_does_not_fit_is_refused(cast, more):
    if "tool" in more:
        more = {"tool": cast.tools["web_search"]}
    if "dependency" in more:
        more = {"dependency": cast.staging_search_api}

    with pytest.raises(Refused):
        _publish(cast, "dependency", {"min_calls": 3}, **({"dependency": cast.search_api} | more))


@pytest.mark.parametrize(("claimed", "failures"), [("read_only", 3), ("destructive", 1)])
def test_a_class_nobody_confirmed_is_never_handled_more_leniently_than_unknown(cast, claimed, failures):
    tool = cast.tools["web_search"]
    type(tool).objects.filter(pk=tool.pk).update(side_effect=claimed, class_confirmed=False)
    tool.refresh_from_db()

    assert resolved.of_tool(tool).policy.consecutive_failures == failures
