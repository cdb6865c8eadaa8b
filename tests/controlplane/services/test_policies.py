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


LOOSE = {"consecutive_failures": 4, "never_open": True, "semantic_failures": 2}


def _loosen(cast, **more):
    return _publish(cast, "tool", LOOSE, tool=cast.tools["refund"], **more)


@pytest.mark.parametrize("approver", ["", " ", "petra", "Petra "])
def test_nobody_alone_loosens_what_guards_a_side_effect(cast, approver):
    with pytest.raises(Refused) as refused:
        _loosen(cast, approved_by=approver)

    assert refused.value.code == "needs_approval" and "another person" in refused.value.mend
    assert "consecutive_failures, never_open" in refused.value.message
    assert "semantic_failures" not in refused.value.message
    assert not PolicyRevision.objects.exists()
    assert AuditEntry.objects.get().detail == {"code": "needs_approval", "field": "consecutive_failures"}


def test_with_another_persons_approval_it_is_in_force_and_says_whose(cast):
    revision = _loosen(cast, approved_by="ada")

    assert (revision.created_by, revision.approved_by) == ("petra", "ada")
    assert resolved.of_tool(cast.tools["refund"]).policy.consecutive_failures == 4
    assert AuditEntry.objects.get().detail["approved_by"] == "ada"


@pytest.mark.parametrize(
    ("level", "values", "more"),
    [
        ("class", {"run": {"retry_ambiguous": True}}, {"side_effect": "destructive"}),
        ("class", {"circuit": {"permits": True}}, {"side_effect": "unknown"}),
        ("dependency", {"permits": True}, {"dependency": "payments"}),
        ("environment", {"run": {"never_open": True}}, {}),
        ("tool", {"identical_calls": None}, {"tool": "refund"}),
    ],
)
def test_every_level_that_reaches_such_a_tool_is_watched(cast, level, values, more):
    owners = {"payments": cast.payments, "refund": cast.tools["refund"]}
    place = {name: owners.get(value, value) for name, value in more.items()}

    with pytest.raises(Refused) as refused:
        _publish(cast, level, values, **place)

    assert refused.value.code == "needs_approval"
    assert _publish(cast, level, values, **place, approved_by="ada").status == "published"


def test_tightening_and_what_concerns_harmless_tools_needs_nobody_else(cast):
    _publish(cast, "tool", {"consecutive_failures": 1}, tool=cast.tools["refund"])
    _publish(cast, "tool", {"consecutive_failures": 50, "never_open": True}, tool=cast.tools["web_search"])
    _publish(cast, "dependency", {"permits": True, "min_calls": 40}, dependency=cast.search_api)

    assert PolicyRevision.objects.filter(status="published", approved_by="").count() == 3


def test_a_text_that_invites_another_call_is_refused_with_its_words(cast):
    with pytest.raises(Refused) as refused:
        _publish(cast, "tool", {"model_text": "It is down: wait a minute and call it."}, tool=cast.tools["web_search"])

    assert refused.value.field == "model_text" and "wait a minute and call it" in refused.value.message


def test_so_is_one_that_a_class_or_the_environment_would_give(cast):
    with pytest.raises(Refused) as refused:
        _publish(cast, "environment", {"run": {"model_text": "Try again later."}})

    assert refused.value.field == "run.model_text"


@pytest.mark.parametrize(("level", "field"), [("tool", "model_text"), ("environment", "run.user_text")])
def test_a_variable_that_there_is_not_is_refused_by_its_field(cast, level, field):
    values = {"model_text": "Ask {fallbak}."} if level == "tool" else {"run": {"user_text": "Ask {fallbak}."}}
    with pytest.raises(Refused) as refused:
        _publish(cast, level, values, tool=cast.tools["web_search"] if level == "tool" else None)

    assert refused.value.field == field
    assert "{fallbak}" in refused.value.message and "{fallback}" in refused.value.mend


def test_a_text_invites_a_call_also_around_a_variable(cast):
    with pytest.raises(Refused) as refused:
        _publish(cast, "tool", {"model_text": "Try {tool} again."}, tool=cast.tools["web_search"])

    assert refused.value.field == "model_text"


def test_a_text_that_forbids_it_passes(cast):
    text = "Do not call it again. Answer from what you have."
    _publish(cast, "tool", {"model_text": text}, tool=cast.tools["web_search"], approved_by="ada")

    assert resolved.of_tool(cast.tools["web_search"]).policy.model_text == text


@pytest.mark.parametrize(
    ("tool", "fallback", "code"),
    [
        ("web_search", "news_serch", "unknown_tool"),
        ("web_search", "web_search", "bad_field"),
        ("web_search", "refund", "stricter_fallback"),
    ],
)
def test_a_fallback_that_is_not_there_or_does_more_is_refused(cast, tool, fallback, code):
    with pytest.raises(Refused) as refused:
        _publish(cast, "tool", {"fallback_tool": fallback}, tool=cast.tools[tool])

    assert (refused.value.code, refused.value.field) == (code, "fallback_tool")


def test_a_misspelt_fallback_is_told_what_was_meant(cast):
    with pytest.raises(Refused, match="news_search"):
        _publish(cast, "tool", {"fallback_tool": "news_serch"}, tool=cast.tools["web_search"])


def test_a_fallback_whose_class_nobody_confirmed_does_not_stand_in_for_a_harmless_tool(cast):
    type(cast.tools["news_search"]).objects.filter(name="news_search").update(class_confirmed=False)

    with pytest.raises(Refused) as refused:
        _publish(cast, "tool", {"fallback_tool": "news_search"}, tool=cast.tools["web_search"])

    assert refused.value.code == "stricter_fallback" and "confirm its class" in refused.value.mend


def test_a_fallback_of_the_same_class_or_a_milder_one_is_taken(cast):
    _publish(cast, "tool", {"fallback_tool": "news_search"}, tool=cast.tools["web_search"], approved_by="ada")
    _publish(cast, "tool", {"fallback_tool": "web_search"}, tool=cast.tools["refund"], approved_by="ada")

    assert resolved.of_tool(cast.tools["refund"]).policy.fallback_tool == "web_search"


def test_what_a_class_would_fall_back_on_is_no_stricter_than_the_class(cast):
    with pytest.raises(Refused):
        _publish(cast, "class", {"run": {"fallback_tool": "refund"}}, side_effect="idempotent_write")

    assert _publish(cast, "class", {"run": {"fallback_tool": "refund"}}, side_effect="destructive", approved_by="ada")


TEXT = {"model_text": "Answer from the documents at hand."}


@pytest.mark.parametrize(
    "values",
    [TEXT, {"fallback_tool": "news_search"}, {"outcomes": {"402": "timeout"}}, {"degraded_behaviour": "end_run"}],
)
def test_in_a_protected_environment_nobody_alone_changes_what_models_are_told(cast, values):
    with pytest.raises(Refused) as refused:
        _publish(cast, "tool", values, tool=cast.tools["web_search"])

    assert (refused.value.code, refused.value.field) == ("needs_approval", next(iter(values)))
    assert "prod is protected" in refused.value.message and "review" in refused.value.mend
    assert not PolicyRevision.objects.exists()


def test_what_is_left_as_it_was_needs_nobody(cast):
    web = cast.tools["web_search"]
    _publish(cast, "tool", TEXT, tool=web, approved_by="ada")

    assert _publish(cast, "tool", TEXT | {"consecutive_failures": 4, "user_text": "Sorry."}, tool=web)
    with pytest.raises(Refused):
        _publish(cast, "tool", {"consecutive_failures": 4}, tool=web)


def test_an_environment_that_is_not_protected_leaves_texts_to_one_person(cast):
    tool = cast.staging.tools.get()

    assert _publish(cast, "tool", TEXT, tool=tool, environment=cast.staging).status == "published"


def test_an_earlier_revision_is_rolled_back_to_as_a_new_one(cast):
    first, _ = (_publish(cast, "dependency", {"min_calls": calls}, dependency=cast.search_api) for calls in (10, 12))

    again = policies.roll_back(revision=first, reason="it was better", actor="petra", now=clock.now())

    assert (again.number, again.values, again.content_hash) == (3, {"min_calls": 10}, first.content_hash)
    assert resolved.of_dependency(cast.search_api).policy.min_calls == 10


def test_rolling_back_to_other_words_needs_a_second_person_too(cast):
    web = cast.tools["web_search"]
    first = _publish(cast, "tool", TEXT, tool=web, approved_by="ada")
    _publish(cast, "tool", {"model_text": "Ask the user."}, tool=web, approved_by="ada")

    with pytest.raises(Refused) as refused:
        policies.roll_back(revision=first, reason="it was better", actor="petra", now=clock.now())

    assert refused.value.code == "needs_approval"
    assert AuditEntry.objects.order_by("-id").first().action == "roll_back_policy"
