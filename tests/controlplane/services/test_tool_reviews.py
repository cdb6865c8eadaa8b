"""A tool that would be guarded less: proposed, looked at by somebody else, and changed only as it was looked at."""

import threading

import pytest
from django.db import connections
from recloser.core.types import SideEffectClass

from controlplane import clock
from controlplane.models import AuditEntry, DocumentVersion, Tool, ToolChange
from controlplane.selectors import policies as resolved
from controlplane.services import catalogue, policies, removal, tool_reviews, tools
from controlplane.services.errors import Refused
from tests import factories

pytestmark = pytest.mark.django_db

MILDER = {"side_effect": "read_only"}


@pytest.fixture
def refund(cast):
    return cast.tools["refund"]


@pytest.fixture
def loose(cast):
    """search-api lets later runs test it, whatever stands before it; as only reading tools do, nobody else is asked."""
    policies.publish(environment=cast.prod, level="dependency", dependency=cast.search_api, values={"permits": True},
                     reason="searches are harmless", actor="petra", now=clock.now())  # fmt: skip
    return cast.search_api


@pytest.fixture
def proposed(refund):
    return propose(refund)


def propose(tool, wanted=MILDER, **more):
    asked = {"tool": tool, "wanted": wanted, "reason": "it only asks for a quote", "actor": "petra", "now": clock.now()}
    return tool_reviews.propose(**(asked | more))


def approve(change, actor="ada", **more):
    asked = {"change": change, "content_hash": change.content_hash, "actor": actor, "now": clock.now()}
    return tool_reviews.approve(**(asked | more))


def edit(tool, actor="petra", **changes):
    return catalogue.edit_tool(tool=tool, changes=changes, actor=actor)


def last():
    return AuditEntry.objects.order_by("-id").first()


def refusal(act, code, field=None):
    with pytest.raises(Refused) as refused:
        act()
    assert refused.value.code == code and refused.value.mend
    assert field is None or refused.value.field == field
    assert (last().accepted, last().detail["code"]) == (False, code)
    return refused.value


def test_what_is_proposed_changes_nothing(proposed, cast, refund):
    refund.refresh_from_db()
    assert (proposed.status, refund.side_effect) == ("in_review", "side_effect")
    assert DocumentVersion.objects.get(environment=cast.prod).config == 1
    assert (last().action, last().actor, last().target) == ("propose_tool_change", "petra", "refund")
    assert last().detail["hash"] == proposed.content_hash


def test_a_second_person_makes_the_class_milder(proposed, cast, refund):
    done = approve(proposed, reason="seen with billing")

    refund.refresh_from_db()
    assert (refund.side_effect, refund.class_confirmed) == ("read_only", True)
    assert (done.status, done.approved_by, done.decision) == ("approved", "ada", "seen with billing")
    assert resolved.of_tool(refund).policy.consecutive_failures == 5
    assert DocumentVersion.objects.get(environment=cast.prod).config == 2
    assert (last().action, last().actor, last().detail["proposed_by"]) == ("approve_tool_change", "ada", "petra")


@pytest.mark.parametrize("actor", ["petra", "Petra"])
def test_nobody_approves_or_rejects_their_own(proposed, refund, actor):
    refusal(lambda: approve(proposed, actor=actor), "own_change")
    refusal(lambda: tool_reviews.reject(change=proposed, reason="no", actor=actor, now=clock.now()), "own_change")

    refund.refresh_from_db()
    assert refund.side_effect == "side_effect"


@pytest.mark.parametrize(
    "changes", [{"side_effect": "destructive"}, {"costly": True}, {"dependencies": ["crm-db", "payments"]}]
)
def test_a_tool_that_was_changed_meanwhile_is_looked_at_anew(proposed, refund, changes):
    edit(refund, actor="ada", **changes)
    proposed.refresh_from_db()
    assert tool_reviews.is_moved(proposed)

    assert "changed meanwhile" in refusal(lambda: approve(proposed), "moved").message
    refund.refresh_from_db()
    assert refund.side_effect == changes.get("side_effect", "side_effect")

    again = tool_reviews.submit(change=proposed, actor="petra", now=clock.now())
    assert approve(again).status == "approved"


def test_who_answers_for_a_tool_does_not_stale_what_is_proposed(proposed, refund):
    edit(refund, owner="billing")

    assert approve(proposed).status == "approved"


def test_what_guards_the_new_place_less_than_was_read_is_looked_at_anew(cast, refund):
    """The dependency is loosened between the review and the yes."""
    waiting = propose(refund, {"side_effect": "idempotent_write", "dependencies": ["search-api"]})
    assert [need.kind for need in tool_reviews.needs_of(waiting)] == ["milder"]
    moving = propose(refund, {"dependencies": ["search-api"]})
    policies.publish(environment=cast.prod, level="dependency", dependency=cast.search_api, values={"permits": True},
                     reason="x", actor="ada", now=clock.now())  # fmt: skip

    refusal(lambda: approve(moving), "moved")


def test_an_approval_is_for_the_content_and_the_base_that_were_looked_at(proposed, refund):
    seen = proposed.content_hash
    tool_reviews.edit(change=proposed, wanted={"side_effect": "unknown"}, actor="petra")
    refusal(lambda: approve(proposed, content_hash=seen), "not_waiting")
    tool_reviews.submit(change=proposed, actor="petra", now=clock.now())
    refusal(lambda: approve(proposed, content_hash=seen), "edited", "content_hash")

    proposed.refresh_from_db()
    read = proposed.content_hash
    edit(refund, actor="ada", side_effect="destructive")
    tool_reviews.submit(change=proposed, actor="petra", now=clock.now())

    refusal(lambda: approve(proposed, content_hash=read), "edited")
    refund.refresh_from_db()
    assert refund.side_effect == "destructive"


def test_a_rejection_says_why_and_a_withdrawal_is_its_authors(refund):
    first, second = propose(refund), propose(refund, {"side_effect": "unknown"})
    refusal(lambda: tool_reviews.reject(change=first, reason=" ", actor="ada", now=clock.now()), "bad_field", "reason")
    refusal(lambda: tool_reviews.withdraw(change=first, actor="ada", now=clock.now()), "not_yours")
    refusal(lambda: tool_reviews.edit(change=first, wanted={"costly": True}, actor="ada"), "not_yours")

    rejected = tool_reviews.reject(change=first, reason="it pays", actor="ada", now=clock.now())
    withdrawn = tool_reviews.withdraw(change=second, actor="petra", now=clock.now())

    assert (rejected.status, rejected.decision, withdrawn.status) == ("rejected", "it pays", "withdrawn")
    assert "rejected by ada" in refusal(lambda: approve(first, actor="otto"), "not_waiting").message


def test_each_step_sent_again_does_nothing_more(refund, proposed):
    assert propose(refund) == proposed
    other, third = (propose(refund, {"side_effect": each}) for each in ("unknown", "idempotent_write"))
    reject = {"change": other, "reason": "no", "actor": "ada", "now": clock.now()}
    withdraw = {"change": third, "actor": "petra", "now": clock.now()}
    first = [tool_reviews.reject(**reject), tool_reviews.withdraw(**withdraw), approve(proposed)]
    entries = AuditEntry.objects.count()

    assert [tool_reviews.reject(**reject), tool_reviews.withdraw(**withdraw), approve(proposed)] == first
    assert AuditEntry.objects.count() == entries and ToolChange.objects.count() == 3


def test_a_draft_waits_for_its_author(refund):
    draft = propose(refund, draft=True)
    refusal(lambda: approve(draft), "not_waiting")

    assert tool_reviews.submit(change=draft, actor="petra", now=clock.now()).status == "in_review"


@pytest.mark.parametrize(
    ("wanted", "code", "field"),
    [
        ({}, "bad_field", "side_effect"),
        ({"side_effect": "side_effect"}, "bad_field", "side_effect"),
        ({"side_effect": "harmless"}, "bad_field", "side_effect"),
        ({"dependencies": []}, "bad_field", "dependencies"),
        ({"dependencies": ["serch-api"]}, "unknown_dependency", "dependencies"),
        ({"owner": "me"}, "bad_field", "owner"),
    ],
)
def test_what_nobody_could_do_is_refused_before_anybody_reviews_it(refund, wanted, code, field):
    refusal(lambda: propose(refund, wanted), code, field)

    assert last().action == "propose_tool_change" and not ToolChange.objects.exists()


def test_a_class_milder_than_what_stands_in_for_the_tool_is_refused(cast, refund):
    factories.tool(cast.payments, "store_credit", side_effect=SideEffectClass.SIDE_EFFECT)
    policies.publish(environment=cast.prod, level="tool", tool=refund, values={"fallback_tool": "store_credit"},
                     reason="x", actor="petra", approved_by="ada", now=clock.now())  # fmt: skip

    refusal(lambda: propose(refund), "stricter_fallback", "side_effect")


def test_a_place_that_is_gone_meanwhile_is_told(cast, refund):
    waiting = propose(refund, {**MILDER, "dependencies": ["crm-db"]})
    Tool.objects.filter(name="db_lookup").delete()
    removal.remove_dependency(dependency=cast.crm_db, actor="ada")

    refusal(lambda: approve(waiting), "moved")
    refusal(lambda: tool_reviews.submit(change=waiting, actor="petra", now=clock.now()), "unknown_dependency")


# Where a tool stands


@pytest.mark.parametrize("behind", [["search-api"], ["payments", "search-api"]])
@pytest.mark.parametrize("how", ["edit", "ensure"])
def test_nobody_alone_moves_a_strict_tool_to_where_less_guards_it(cast, refund, loose, behind, how):
    def move():
        if how == "edit":
            return edit(refund, dependencies=behind)
        return tools.ensure_tool(environment=cast.prod, name="refund", dependencies=behind, actor="petra",
                                 now=clock.now())  # fmt: skip

    refused = refusal(move, "needs_approval", "dependencies")

    assert "permits guards refund less than where it stands" in refused.message
    assert "send it for review" in refused.mend
    assert refund.dependencies.get() == cast.payments


def test_a_second_person_lets_it_stand_there(cast, refund, loose):
    waiting = propose(refund, {"dependencies": ["search-api"]})
    assert [(need.kind, need.field) for need in tool_reviews.needs_of(waiting)] == [("eases", "dependencies")]

    approve(waiting)

    assert refund.dependencies.get() == loose


def test_a_stricter_class_and_a_looser_place_in_one_edit_are_seen_through(cast, loose):
    """As a reading tool it may be tested by calls where it stands; as what it becomes it may not."""
    refusal(lambda: edit(cast.tools["db_lookup"], side_effect="destructive", dependencies=["search-api"]),
            "needs_approval", "dependencies")  # fmt: skip

    assert Tool.objects.get(name="db_lookup").side_effect == "read_only"


def test_moves_that_guard_as_much_are_done_at_once(cast, refund, loose):
    edit(refund, dependencies=["crm-db"])
    edit(refund, dependencies=["payments", "crm-db"])
    edit(cast.tools["db_lookup"], dependencies=["search-api"])

    assert {row.slug for row in refund.dependencies.all()} == {"payments", "crm-db"}
    assert not AuditEntry.objects.filter(accepted=False).exists()


def test_what_stands_there_already_with_approval_moves_on_to_the_like(cast, refund, loose):
    approve(propose(refund, {"dependencies": ["search-api"]}))
    policies.publish(environment=cast.prod, level="dependency", dependency=cast.crm_db, values={"permits": True},
                     reason="x", actor="ada", now=clock.now())  # fmt: skip

    edit(refund, dependencies=["crm-db"])

    assert refund.dependencies.get() == cast.crm_db


def test_a_new_strict_tool_is_not_made_where_less_guards_it_than_its_class(cast, loose):
    def make(behind):
        return catalogue.create_tool(environment=cast.prod, name="purge", dependencies=[behind], actor="petra",
                                     side_effect="destructive", now=clock.now())  # fmt: skip

    refused = refusal(lambda: make("search-api"), "needs_approval", "dependencies")
    assert "a dependency of its own first" in refused.mend
    assert not Tool.objects.filter(name="purge").exists()

    approve(propose(make("payments"), {"dependencies": ["search-api"]}))
    assert Tool.objects.get(name="purge").dependencies.get() == loose


def test_an_unconfirmed_tool_is_confirmed_or_reviewed_before_it_moves_there(cast, refund, loose):
    Tool.objects.filter(name="refund").update(side_effect="unknown", class_confirmed=False)
    refused = refusal(lambda: edit(refund, dependencies=["search-api"]), "needs_approval", "dependencies")
    assert "confirm the tool's class first" in refused.mend

    edit(refund, side_effect="read_only", dependencies=["search-api"])

    assert refund.dependencies.get() == loose


def test_no_longer_costly_guards_a_strict_tool_less(refund):
    edit(refund, costly=True)

    refused = refusal(lambda: edit(refund, costly=False), "needs_approval", "costly")

    assert "consecutive_failures" in refused.message
    approve(propose(refund, {"costly": False}))
    refund.refresh_from_db()
    assert not refund.costly


def test_a_stricter_class_is_never_held_up(refund):
    assert edit(refund, side_effect="destructive").side_effect == "destructive"
    assert edit(refund, costly=True).costly


# Two at once


def at_once(*acts):
    """What each came to: its result, or the code of its refusal."""
    gate, came = threading.Barrier(len(acts)), {}

    def run(place, act):
        gate.wait(20)
        try:
            came[place] = act()
        except Refused as refused:
            came[place] = refused.code
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=each) for each in enumerate(acts)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    return [came[place] for place in range(len(acts))]


@pytest.mark.django_db(transaction=True)
def test_of_two_that_approve_at_once_one_does(proposed, refund):
    came = at_once(*[lambda who=who: approve(proposed, actor=who).decided_by for who in ("ada", "zoe")])

    proposed.refresh_from_db()
    assert sorted(came) == sorted([proposed.decided_by, "not_waiting"])
    assert AuditEntry.objects.filter(action="approve_tool_change", accepted=True).count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_approval_and_an_edit_at_once_end_as_one_after_the_other(proposed, refund):
    came = at_once(
        lambda: approve(proposed).status, lambda: edit(refund, actor="zoe", side_effect="destructive").side_effect
    )

    refund.refresh_from_db()
    assert came in (["approved", "destructive"], ["moved", "destructive"])
    assert refund.side_effect == "destructive", "the stricter word holds, whoever was first"
    proposed.refresh_from_db()
    assert proposed.status == ("approved" if came[0] == "approved" else "in_review")


@pytest.mark.django_db(transaction=True)
def test_a_loosening_and_a_move_at_once_do_not_slip_past_each_other(cast, refund):
    """Whichever is first, the other sees it: refund never stands where calls test, without a second person."""
    came = at_once(
        lambda: edit(refund, dependencies=["search-api"]).name,
        lambda: policies.publish(
            environment=cast.prod, level="dependency", dependency=cast.search_api, values={"permits": True},
            reason="x", actor="zoe", now=clock.now(),
        ).status,
    )  # fmt: skip

    assert came.count("needs_approval") == 1
    assert not (cast.search_api in refund.dependencies.all() and resolved.of_dependency(cast.search_api).policy.permits)
