"""Reviews of tools over the API: where an edit leads, who may, in which order, and what each refusal says."""

from __future__ import annotations

import pytest

from controlplane.models import AuditEntry, Tool, ToolChange
from controlplane.services import catalogue

PROD = {"environment": "prod"}
REFUND = PROD | {"tool": "refund", "if_match": "*"}
MILDER = {"tool": "refund", "side_effect": "read_only", "reason": "it only asks for a quote"}


def proposed(api, **more):
    answer = api.propose_tool_change(MILDER | more, **PROD)
    assert answer.status == 201, answer.data
    return answer


def here(review):
    return PROD | {"review": review.data["id"], "if_match": "*"}


def approve(api, review, **more):
    return api.approve_tool_review({"content_hash": review.data["content_hash"]} | more, **here(review))


def last():
    return AuditEntry.objects.latest("id")


def side_effect():
    return Tool.objects.get(name="refund", environment__slug="prod").side_effect


def test_an_edit_that_makes_a_tool_milder_is_refused_and_says_where_to_go(cast, as_):
    answer = as_(cast.petra).edit_tool({"side_effect": "read_only", "owner": "billing"}, **REFUND)

    assert (answer.status, answer.error["code"], answer.error["field"]) == (422, "needs_approval", "side_effect")
    assert "POST /api/v1/environments/prod/tool-reviews" in answer.error["mend"]
    assert (last().action, last().accepted) == ("edit_tool", False)
    assert Tool.objects.get(name="refund").owner == "", "nothing of it was done"


def test_a_stricter_class_is_at_once(cast, as_):
    assert as_(cast.petra).edit_tool({"side_effect": "destructive"}, **REFUND).status == 200

    assert side_effect() == "destructive"


def test_a_milder_class_is_proposed_looked_at_and_approved_by_somebody_else(cast, as_):
    petra, ada = as_(cast.petra), as_(cast.ada)
    made = proposed(petra)
    read = ada.read_tool_review(**PROD, review=made.data["id"])

    assert read.data["changes"] == [{"field": "side_effect", "before": "side_effect", "after": "read_only"}]
    assert [(need["kind"], need["field"]) for need in read.data["needs"]] == [("milder", "side_effect")]
    assert (read.data["status"], read.data["moved"], read.data["approved_by"]) == ("in_review", False, "")
    (line,) = ada.list_tool_reviews(**PROD, status="in_review", tool="refund").data["results"]
    assert (line["id"], line["tool"], line["wanted"]) == (made.data["id"], "refund", {"side_effect": "read_only"})

    done = ada.approve_tool_review(
        {"content_hash": read.data["content_hash"], "reason": "seen"},
        **PROD, review=made.data["id"], if_match=read.etag,
    )  # fmt: skip

    assert (done.data["status"], done.data["approved_by"], done.data["needs"]) == ("approved", "ada", [])
    assert done.data["changes"] == read.data["changes"], "what it was stays to be read"
    assert side_effect() == "read_only"
    assert (last().action, last().actor) == ("approve_tool_change", "ada")
    assert last().detail["through"].startswith("token ")


def test_a_token_counts_as_its_person(cast, as_):
    made = proposed(as_(cast.petra))

    answer = approve(as_(cast.petra), made)

    assert (answer.status, answer.error["code"]) == (409, "own_change")
    assert (last().action, last().actor, last().accepted) == ("approve_tool_change", "petra", False)
    assert side_effect() == "side_effect"


def test_a_tool_that_was_changed_meanwhile_is_told_and_submitted_again(cast, as_):
    petra, ada = as_(cast.petra), as_(cast.ada)
    made = proposed(petra)
    ada.edit_tool({"costly": True}, **REFUND)

    answer = approve(ada, made)

    assert (answer.status, answer.error["code"]) == (409, "moved")
    assert ada.read_tool_review(**PROD, review=made.data["id"]).data["moved"] is True
    assert approve(ada, petra.submit_tool_review(**here(made))).data["status"] == "approved"


def test_an_approval_of_what_it_said_before_is_refused(cast, as_):
    petra, ada = as_(cast.petra), as_(cast.ada)
    seen = proposed(petra)
    edited = petra.edit_tool_review({"side_effect": "unknown"}, **here(seen))
    assert (edited.data["status"], edited.data["reason"]) == ("draft", MILDER["reason"])
    petra.submit_tool_review(**here(seen))

    answer = approve(ada, seen)

    assert (answer.status, answer.error["code"], answer.error["field"]) == (409, "edited", "content_hash")
    assert side_effect() == "side_effect"


@pytest.mark.parametrize(
    "deed", ["approve_tool_review", "reject_tool_review", "withdraw_tool_review", "submit_tool_review",
             "edit_tool_review"]
)  # fmt: skip
def test_a_decision_names_the_version_it_is_about(cast, as_, deed):
    petra, ada = as_(cast.petra), as_(cast.ada)
    made = proposed(petra)
    stale = ada.read_tool_review(**PROD, review=made.data["id"]).etag
    petra.edit_tool_review({"reason": "another"}, **here(made))
    body = {"approve_tool_review": {"content_hash": made.data["content_hash"]}, "reject_tool_review": {"reason": "no"},
            "edit_tool_review": {"reason": "x"}}.get(deed)  # fmt: skip

    answer = getattr(ada, deed)(body, **PROD, review=made.data["id"], if_match=stale)
    unnamed = getattr(ada, deed)(body, **PROD, review=made.data["id"])

    assert (answer.status, answer.error["code"], unnamed.status) == (412, "stale", 428)
    assert ToolChange.objects.get().status == "draft"


def test_a_rejected_or_withdrawn_change_is_decided_once(cast, as_):
    petra, ada = as_(cast.petra), as_(cast.ada)
    first, second = proposed(petra), proposed(petra, draft=True)

    rejected = ada.reject_tool_review({"reason": "it pays"}, **here(first))
    again = ada.reject_tool_review({"reason": "it pays"}, **here(first))
    withdrawn = petra.withdraw_tool_review(**here(second))

    assert (rejected.data["status"], rejected.data["decision"], again.data) == ("rejected", "it pays", rejected.data)
    assert (second.data["status"], withdrawn.data["status"]) == ("draft", "withdrawn")
    assert approve(ada, first).error["code"] == approve(ada, second).error["code"] == "not_waiting"


def test_a_looser_place_leads_to_a_review_and_is_approved(cast, as_):
    petra, ada = as_(cast.petra), as_(cast.ada)
    loose = petra.publish_dependency_policy(
        {"values": {"permits": True}, "reason": "searches are harmless"}, **PROD, dependency="search-api", if_match="*"
    )
    assert loose.status == 200

    answer = petra.edit_tool({"dependencies": ["search-api"]}, **REFUND)
    assert (answer.status, answer.error["code"], answer.error["field"]) == (422, "needs_approval", "dependencies")
    made = petra.propose_tool_change({"tool": "refund", "dependencies": ["search-api"], "reason": "x"}, **PROD)
    assert approve(ada, made).status == 200

    assert ada.read_tool(**PROD, tool="refund").data["dependencies"] == ["search-api"]


def test_another_environments_review_is_not_there(cast, as_):
    made = proposed(as_(cast.petra))

    assert approve(as_(cast.ada), made, content_hash="x").error["code"] == "edited"
    there = {"environment": "staging", "review": made.data["id"], "if_match": "*"}
    assert as_(cast.ada).approve_tool_review({"content_hash": made.data["content_hash"]}, **there).status == 404


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"tool": "refnd"}, "tool"),
        ({"side_effect": "harmless"}, "side_effect"),
        ({"side_effect": "side_effect"}, "side_effect"),
        ({"dependencies": ["paiments"]}, "dependencies"),
        ({"dependencies": []}, "dependencies"),
        ({"reason": ""}, "reason"),
        ({"owner": "me"}, "owner"),
    ],
)
def test_what_cannot_be_proposed_names_its_field(cast, as_, more, field):
    answer = as_(cast.petra).propose_tool_change(MILDER | more, **PROD)

    assert (answer.status, answer.error["field"]) == (422, field)
    assert not ToolChange.objects.exists()


def test_a_decided_change_stays_as_it_was_decided(cast, as_):
    petra, ada = as_(cast.petra), as_(cast.ada)
    made = proposed(petra)
    approve(ada, made)
    catalogue.edit_tool(tool=cast.tools["refund"], changes={"side_effect": "destructive"}, actor="ada")

    read = ada.read_tool_review(**PROD, review=made.data["id"])

    assert read.data["changes"] == [{"field": "side_effect", "before": "side_effect", "after": "read_only"}]
    assert read.data["moved"] is False
