"""Reviews and people over the API: who may, in which order, and what each refusal says."""

from __future__ import annotations

import pytest
from django.test import Client

from controlplane.models import AuditEntry, PersonalToken, PolicyRevision, User
from controlplane.selectors import policies as resolved
from controlplane.services import policies
from tests import factories
from tests.api.generated import Api
from tests.conftest import NOON

PROD = {"environment": "prod"}
LOOSE = {"level": "tool", "tool": "refund", "values": {"consecutive_failures": 4}, "reason": "the vendor drops calls"}


def proposed(api, **more):
    answer = api.propose_policy(LOOSE | more, **PROD)
    assert answer.status == 201, answer.data
    return answer


def approve(api, review, **more):
    body = {"content_hash": review.data["content_hash"], "reason": "seen"} | more
    return api.approve_review(body, **PROD, review=review.data["id"], if_match="*")


def last():
    return AuditEntry.objects.latest("id")


def test_what_loosens_is_refused_and_says_where_to_go(cast, as_):
    answer = as_(cast.petra).publish_tool_policy(
        {"values": LOOSE["values"], "reason": "x"}, **PROD, tool="refund", if_match="*"
    )

    assert (answer.status, answer.error["code"], answer.error["field"]) == (
        422,
        "needs_approval",
        "consecutive_failures",
    )
    assert "send it for review" in answer.error["mend"]


def test_a_change_is_proposed_looked_at_and_approved_by_somebody_else(cast, as_):
    petra, ada = as_(cast.petra), as_(cast.ada)
    made = proposed(petra)
    read = ada.read_review(**PROD, review=made.data["id"])

    assert read.data["changes"] == [
        {"part": "run", "field": "consecutive_failures", "before": 2, "before_origin": "class", "after": 4,
         "after_origin": "tool"}
    ]  # fmt: skip
    assert read.data["needs"][0]["names"] == ["consecutive_failures"]
    assert (read.data["status"], read.data["base"], read.data["moved"]) == ("in_review", 0, False)
    assert [row["id"] for row in ada.list_reviews(**PROD, status="in_review").data["results"]] == [made.data["id"]]

    done = ada.approve_review(
        {"content_hash": read.data["content_hash"]}, **PROD, review=made.data["id"], if_match=read.etag
    )

    assert (done.data["status"], done.data["approved_by"]) == ("published", "ada")
    assert resolved.of_tool(cast.tools["refund"]).policy.consecutive_failures == 4
    assert ada.read_tool_policy(**PROD, tool="refund").data["revision"]["id"] == made.data["id"]


def test_nobody_approves_their_own_and_the_attempt_is_on_record(cast, as_):
    api = as_(cast.petra)

    answer = approve(api, proposed(api))

    assert (answer.status, answer.error["code"]) == (409, "own_change")
    assert (last().action, last().actor, last().accepted) == ("approve_policy", "petra", False)
    assert last().detail["through"].startswith("token ")


@pytest.mark.parametrize("deed", ["approve_review", "reject_review", "withdraw_review", "submit_review", "edit_review"])
def test_a_decision_names_the_version_it_is_about(cast, as_, deed):
    petra, ada = as_(cast.petra), as_(cast.ada)
    made = proposed(petra)
    stale = ada.read_review(**PROD, review=made.data["id"]).etag
    petra.edit_review({"values": {"consecutive_failures": 9}}, **PROD, review=made.data["id"], if_match=stale)
    body = {"approve_review": {"content_hash": made.data["content_hash"]}, "reject_review": {"reason": "no"},
            "edit_review": {"values": {}}}.get(deed)  # fmt: skip

    answer = getattr(ada, deed)(body, **PROD, review=made.data["id"], if_match=stale)

    assert (answer.status, answer.error["code"]) == (412, "stale")
    assert PolicyRevision.objects.get().status == "draft"


def test_an_approval_of_what_it_said_before_is_refused(cast, as_):
    petra, ada = as_(cast.petra), as_(cast.ada)
    seen = proposed(petra)
    here = PROD | {"review": seen.data["id"], "if_match": "*"}
    petra.edit_review({"values": {"consecutive_failures": 9}}, **here)
    petra.submit_review(**here)

    answer = approve(ada, seen)

    assert (answer.status, answer.error["code"], answer.error["field"]) == (409, "edited", "content_hash")
    assert resolved.of_tool(cast.tools["refund"]).policy.consecutive_failures == 2


def test_a_base_that_moved_on_is_told(cast, as_):
    petra, ada = as_(cast.petra), as_(cast.ada)
    made = proposed(petra)
    policies.publish(environment=cast.prod, level="tool", tool=cast.tools["refund"], values={}, reason="x",
                     actor="ada", now=NOON)  # fmt: skip

    answer = approve(ada, made)

    assert (answer.status, answer.error["code"]) == (409, "moved")
    assert ada.read_review(**PROD, review=made.data["id"]).data["moved"] is True


def test_a_rejected_or_withdrawn_change_is_decided_once(cast, as_):
    petra, ada = as_(cast.petra), as_(cast.ada)
    first, second = proposed(petra), proposed(petra, reason="another")

    rejected = ada.reject_review({"reason": "too many"}, **PROD, review=first.data["id"], if_match="*")
    withdrawn = petra.withdraw_review(**PROD, review=second.data["id"], if_match="*")

    assert (rejected.data["status"], rejected.data["decision"]) == ("rejected", "too many")
    assert withdrawn.data["status"] == "withdrawn"
    assert approve(ada, first).error["code"] == approve(ada, second).error["code"] == "not_waiting"


def test_another_environments_review_is_not_there(cast, as_):
    made = proposed(as_(cast.petra))

    answer = as_(cast.ada).approve_review(
        {"content_hash": made.data["content_hash"]}, environment="staging", review=made.data["id"], if_match="*"
    )

    assert answer.status == 404


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"tool": "refnd"}, "tool"),
        ({"level": "class"}, "side_effect"),
        ({"values": {"consecutive_failurs": 1}}, "consecutive_failurs"),
        ({"reason": ""}, "reason"),
        ({"dependency": "payments"}, "dependency"),
    ],
)
def test_what_cannot_be_proposed_names_its_field(cast, as_, more, field):
    answer = as_(cast.petra).propose_policy(LOOSE | more, **PROD)

    assert (answer.status, answer.error["field"]) == (422, field)
    assert not PolicyRevision.objects.exists()


def test_a_revision_is_rolled_back_to(cast, as_):
    api = as_(cast.petra)
    for calls in (7, 9):
        api.publish_dependency_policy(
            {"values": {"min_calls": calls}, "reason": "x"}, **PROD, dependency="search-api", if_match="*"
        )
    first = PolicyRevision.objects.get(number=1)

    answer = api.roll_back_policy({"reason": "it was better"}, **PROD, revision=first.pk)

    assert (answer.status, answer.data["number"], answer.data["values"]) == (201, 3, {"min_calls": 7})
    draft = proposed(api, draft=True)
    refused = api.roll_back_policy({"reason": "x"}, **PROD, revision=draft.data["id"])
    assert (refused.status, refused.error["code"]) == (409, "never_published")


# People


def test_an_admin_adds_somebody_who_signs_in_with_the_password_shown_once(cast, as_):
    api = as_(cast.ada)

    made = api.add_person({"username": "finn", "role": "on_call"})

    assert made.status == 201
    signed = Client().post("/sign-in/", {"username": "finn", "password": made.data["password"]})
    assert signed.status_code == 302
    assert made.data["password"] not in str(api.list_people().data)
    assert api.read_person(person="finn").data["role"] == "on_call"


def test_somebody_switched_off_loses_sign_ins_and_tokens_for_good(cast, as_, document):
    api, browser = as_(cast.ada), Client()
    browser.force_login(cast.otto, backend="controlplane.permissions.RoleBackend")
    theirs = as_(cast.otto)
    assert browser.get("/api/v1/me").status_code == theirs.read_me().status == 200

    off = api.switch_off_person(person="otto", if_match="*")

    assert off.data["active"] is False
    assert browser.get("/api/v1/me").status_code == theirs.read_me().status == 401
    on = api.switch_on_person(person="otto", if_match="*")
    assert on.data["active"] is True
    assert Api(document, browser).read_me().status == theirs.read_me().status == 401
    assert not PersonalToken.objects.filter(user=cast.otto, revoked_at=None).exists()


def test_a_role_is_changed_with_the_version_in_mind(cast, as_):
    api = as_(cast.ada)
    read = api.read_person(person="otto")

    assert api.change_role({"role": "viewer"}, person="otto", if_match='"old"').status == 412
    changed = api.change_role({"role": "viewer"}, person="otto", if_match=read.etag)

    assert changed.data["role"] == "viewer"
    assert last().detail["before"] == "on_call"


def test_the_last_admin_stays(cast, as_):
    api = as_(cast.ada)

    demoted = api.change_role({"role": "viewer"}, person="ada", if_match="*")
    off = api.switch_off_person(person="ada", if_match="*")

    assert (demoted.status, demoted.error["code"]) == (409, "last_admin")
    assert (off.status, off.error["code"]) == (409, "self")
    assert User.objects.get(username="ada").role == "admin"
    assert AuditEntry.objects.filter(actor="ada", accepted=False).count() == 2


@pytest.mark.parametrize("person", ["ann", "otto", "petra"])
def test_people_are_for_admins(cast, as_, person):
    api = as_(getattr(cast, person))

    assert api.list_people().status == api.read_person(person="ada").status == 403


def test_people_page_and_filter(cast, as_):
    factories.person("eve", cast.ann.role)
    api = as_(cast.ada)

    first = api.list_people(limit=3)
    names = [row["username"] for row in first.data["results"]]
    rest = api.send("GET", first.data["next"].partition("testserver")[2])

    assert names + [row["username"] for row in rest.data["results"]] == ["ada", "ann", "eve", "otto", "petra"]
    assert [row["username"] for row in api.list_people(role="viewer").data["results"]] == ["ann", "eve"]
