"""Tools and the policy editor."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from controlplane.models import AuditEntry, PolicyRevision, Tool
from controlplane.services import policies
from tests.conftest import NOON
from tests.dashboard import stage


def to(name, *more):
    return reverse(f"dashboard:{name}", args=["prod", *more])


@pytest.fixture
def discovered(cast):
    return Tool.objects.create(
        environment=cast.prod, name="export rows/all", created_at=NOON, discovered_by=cast.support_key
    )


def test_tools_that_wait_for_a_person_come_first(cast, discovered, as_):
    answer = as_(cast.ann).get("/tools/?environment=prod")

    assert answer.context["found"].tools[0].tool.name == "export rows/all"
    assert answer.context["waiting"] == 1
    assert "undecided" in answer.content.decode()


def edit(**more):
    return {"token": uuid.uuid4(), "side_effect": "read_only", "owner": "data team", "operation": "export",
            "dependencies": "crm-db, payments", **more}  # fmt: skip


def test_a_discovered_tool_is_confirmed_with_owner_and_dependencies(cast, discovered, as_):
    as_(cast.petra).post(to("edit-tool", discovered.name), edit())

    discovered.refresh_from_db()
    assert (discovered.side_effect, discovered.class_confirmed, discovered.owner) == ("read_only", True, "data team")
    assert {row.slug for row in discovered.dependencies.all()} == {"crm-db", "payments"}
    assert AuditEntry.objects.get().action == "edit_tool"


def named(cast, name):
    return Tool.objects.create(environment=cast.prod, name=name, created_at=NOON, discovered_by=cast.support_key)


def test_a_discovered_tool_shows_what_its_name_suggests_and_one_button_confirms_it(cast, as_):
    row = named(cast, "delete_invoice")
    row.dependencies.add(cast.payments)

    page = as_(cast.petra).get(to("tool", row.name)).content.decode()
    as_(cast.petra).post(to("confirm-class", row.name), {"token": uuid.uuid4(), "side_effect": "destructive"})

    assert "Its name suggests: destructive" in page and "the word delete" in page
    row.refresh_from_db()
    assert (row.side_effect, row.class_confirmed) == ("destructive", True)
    assert row.dependencies.get() == cast.payments, "nothing else changes"
    assert AuditEntry.objects.get().action == "edit_tool"
    assert "Its name suggests" not in as_(cast.petra).get(to("tool", row.name)).content.decode()


def test_a_name_that_says_nothing_proposes_nothing(cast, discovered, as_):
    row = named(cast, "frobnicate")

    assert "Its name suggests" not in as_(cast.petra).get(to("tool", row.name)).content.decode()
    assert "Its name suggests" not in as_(cast.petra).get(to("tool", discovered.name)).content.decode()


def test_a_proposal_changes_nothing_by_itself_and_who_may_not_edit_cannot_confirm_it(cast, as_):
    row = named(cast, "get_invoice")

    page = as_(cast.ann).get(to("tool", row.name)).content.decode()
    answer = as_(cast.ann).post(to("confirm-class", row.name), {"side_effect": "read_only"})

    assert "Its name suggests: read only" in page and "Confirm: " not in page
    assert answer.status_code == 403
    row.refresh_from_db()
    assert (row.side_effect, row.class_confirmed) == ("unknown", False)


def test_a_class_that_there_is_not_is_not_confirmed(cast, as_):
    row = named(cast, "get_invoice")

    assert as_(cast.petra).post(to("confirm-class", row.name), {"side_effect": "harmless"}).status_code == 422
    row.refresh_from_db()
    assert not row.class_confirmed


def test_a_misspelt_dependency_says_what_was_meant(cast, discovered, as_):
    answer = as_(cast.petra).post(to("edit-tool", discovered.name), edit(dependencies="crm-bd"))

    assert answer.status_code == 422
    assert "did you mean crm-db?" in answer.context["form"].errors["dependencies"][0].lower()


def test_a_misspelt_tool_says_what_was_meant(cast, as_):
    answer = as_(cast.ann).get(to("tool", "web_serch"))

    assert answer.status_code == 404
    assert "did you mean web_search?" in answer.content.decode()


@pytest.mark.parametrize("name", ["ann", "otto"])
@pytest.mark.parametrize("page", ["edit-tool", "tool-policy"])
def test_who_may_not_edit_is_refused_on_record(cast, as_, name, page):
    answer = as_(getattr(cast, name)).post(to(page, "web_search"), edit())

    assert answer.status_code == 403
    assert AuditEntry.objects.get().accepted is False
    assert not PolicyRevision.objects.exists()


def test_the_tool_page_shows_what_proving_it_down_takes(cast, as_):
    stage.run(cast.research, NOON, step_limit=40)
    stage.observed(cast.workers[0], cast.tools["web_search"], NOON - timedelta(minutes=1), timeout=2, attempts=8)

    proof = as_(cast.ann).get(to("tool", "web_search")).context["proof"]

    assert (proof.threshold, proof.steps, proof.attempts) == (5, 40, 4.0)
    assert (proof.share, proof.requests) == (0.125, 20.0)


def test_a_short_run_proves_it_down_sooner(cast, as_):
    stage.run(cast.research, NOON, step_limit=8)

    proof = as_(cast.ann).get(to("tool", "web_search")).context["proof"]

    assert (proof.threshold, proof.share) == (3, 0.375)


def published(**more):
    return {"base": "0", "do": "publish", "reason": "decided with the search team", **more}


@pytest.fixture
def unprotected(cast):
    """In prod one person is enough."""
    cast.prod.protected = False
    cast.prod.save()


def test_a_policy_is_published_with_a_reason_and_shows_its_origin(cast, unprotected, as_):
    client = as_(cast.petra)

    answer = client.post(
        to("tool-policy", "web_search"),
        published(
            consecutive_failures="4",
            degraded_behaviour="partial_answer",
            outcomes="402 = rate_limited 3600\n418 = ok",
            ignored_args="note, trace_id",
            semantic_remove_after="off",
            never_open="no",
        ),
    )

    assert answer.status_code == 302
    row = PolicyRevision.objects.get()
    assert row.values == {
        "consecutive_failures": 4, "degraded_behaviour": "partial_answer", "ignored_args": ["note", "trace_id"],
        "outcomes": {"402": {"outcome": "rate_limited", "wait_s": 3600.0}, "418": "ok"},
        "semantic_remove_after": None, "never_open": False,
    }  # fmt: skip
    assert (row.reason, row.created_by) == ("decided with the search team", "petra")
    rows = {one.name: one for one in client.get(to("tool", "web_search")).context["policy_rows"]}
    assert (rows["consecutive failures"].value, rows["consecutive failures"].origin) == ("4", "tool")
    assert (rows["semantic remove after"].value, rows["semantic remove after"].origin) == ("off", "tool")


def test_the_form_shows_what_was_typed_and_what_would_hold_without(cast, unprotected, as_):
    client = as_(cast.petra)
    client.post(
        to("tool-policy", "web_search"), published(consecutive_failures="4", outcomes="402 = rate_limited 3600")
    )

    groups = dict(client.get(to("tool-policy", "web_search")).context["groups"])

    row = next(one for one in groups["Failures in a run"] if one.name == "consecutive_failures")
    assert (row.field.value(), row.in_force, row.origin, row.inherited, row.own) == ("4", "4", "tool", "5", True)
    rule = next(one for one in groups["Everything else"] if one.name == "outcomes")
    assert rule.field.value() == "402 = rate_limited 3600"


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("consecutive_failures", "many", "not a number"),
        ("consecutive_failures", "0", "out of bounds"),
        ("identical_calls", "2.5", "not a whole number"),
        ("run_failure_rate", "140%", "out of bounds"),
        ("outcomes", "402 = late", "no outcome"),
        ("outcomes", "402 = rate_limited soon", "not possible"),
        ("call_timeout_s", "nan", "out of bounds"),
        ("degraded_behaviour", "hope", "not one of the choices"),
    ],
)
def test_every_error_stands_at_its_field(cast, as_, field, text, said):
    answer = as_(cast.petra).post(to("tool-policy", "web_search"), published(**{field: text}))

    assert answer.status_code == 422
    assert set(answer.context["form"].errors) == {field}
    assert said in answer.context["form"].errors[field][0]
    assert not PolicyRevision.objects.exists()


def test_all_errors_are_told_at_once(cast, as_):
    answer = as_(cast.petra).post(
        to("tool-policy", "web_search"), published(reason="", consecutive_failures="x", identical_calls="-1")
    )

    assert set(answer.context["form"].errors) == {"reason", "consecutive_failures", "identical_calls"}


def test_nobody_overwrites_what_was_published_meanwhile(cast, as_):
    policies.publish(
        environment=cast.prod, level="tool", tool=cast.tools["web_search"], values={"identical_calls": 9},
        reason="first", actor="ada", now=NOON,
    )  # fmt: skip

    answer = as_(cast.petra).post(to("tool-policy", "web_search"), published(consecutive_failures="4"))

    assert answer.status_code == 422
    assert "Revision 1 was published meanwhile" in answer.content.decode()
    assert PolicyRevision.objects.get().values == {"identical_calls": 9}


def test_the_words_are_previewed_and_nothing_is_published(cast, as_):
    answer = as_(cast.petra).post(
        to("tool-policy", "web_search"),
        {"base": "0", "do": "preview", "degraded_behaviour": "ask_user", "consecutive_failures": "2"},
    )

    assert answer.status_code == 200
    assert "Ask the user how to go on without it." in answer.context["notice"]
    assert answer.context["proof"].threshold == 2
    assert not PolicyRevision.objects.exists()


def test_an_earlier_revision_is_brought_back(cast, as_):
    client = as_(cast.petra)
    client.post(to("tool-policy", "web_search"), published(consecutive_failures="4"))
    client.post(to("tool-policy", "web_search"), published(base="1", consecutive_failures="2"))

    answer = client.get(to("tool-policy", "web_search") + "?revision=1")

    assert answer.context["form"]["consecutive_failures"].value() == "4"
    assert [row.number for row in answer.context["revisions"]] == [2, 1]


def test_a_dependency_has_its_editor_too(cast, as_):
    client = as_(cast.petra)

    answer = client.post(
        to("dependency-policy", "search-api"), published(failure_rate="40%", lockout_after_s="off", ramp="10%, 50%")
    )

    assert answer.status_code == 302
    assert PolicyRevision.objects.get().values == {"failure_rate": 0.4, "lockout_after_s": None, "ramp": [0.1, 0.5]}
    form = client.get(to("dependency-policy", "search-api")).context["form"]
    assert (form["failure_rate"].value(), form["ramp"].value()) == ("40%", "10%, 50%")


def test_a_contradiction_of_the_whole_is_told_at_its_field(cast, as_):
    answer = as_(cast.petra).post(to("dependency-policy", "search-api"), published(cooldown_s="90"))

    assert answer.status_code == 422
    assert "cooldown_max_s" in answer.context["form"].errors


def test_the_number_of_queries_does_not_grow_with_the_tools(cast, as_, django_assert_num_queries):
    for number in range(30):
        made = Tool.objects.create(environment=cast.prod, name=f"t{number}", created_at=NOON)
        made.dependencies.add(cast.crm_db)
    client = as_(cast.ann)

    with django_assert_num_queries(9):
        client.get("/tools/?environment=prod")


def test_one_tool_costs_a_bounded_number_of_queries(cast, as_, django_assert_num_queries):
    client = as_(cast.ann)

    with django_assert_num_queries(15):
        client.get(to("tool", "web_search"))


def test_a_tool_that_no_failure_withdraws_says_so_on_its_page_and_in_the_list(cast, as_):
    client, tool = as_(cast.ann), cast.tools["db_lookup"]
    own, listed = to("tool", tool.name), reverse("dashboard:tools") + "?environment=prod"

    def said():
        return "never withdrawn" in client.get(own).content.decode(), ">never<" in client.get(listed).content.decode()

    assert said() == (False, False)
    policies.publish(
        environment=cast.prod, level="tool", tool=tool, values={"never_open": True}, reason="the run is lost without",
        actor="petra", approved_by="ann", now=NOON,
    )  # fmt: skip
    assert said() == (True, True)
