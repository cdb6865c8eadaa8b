"""A change that needs a second person: proposed, looked at, and in force only as what was looked at."""

import pytest

from controlplane import clock
from controlplane.models import AuditEntry, DocumentVersion, PolicyRevision
from controlplane.selectors import policies as resolved
from controlplane.services import policies, reviews
from controlplane.services.errors import Refused

pytestmark = pytest.mark.django_db

LOOSE = {"consecutive_failures": 4, "model_text": "Ask the customer to wait for a colleague."}


@pytest.fixture
def refund(cast):
    return cast.tools["refund"]


@pytest.fixture
def proposed(cast, refund):
    return propose(cast)


def propose(cast, values=LOOSE, **more):
    asked = {"environment": cast.prod, "level": "tool", "tool": cast.tools["refund"], "values": values,
             "reason": "the vendor drops calls", "actor": "petra", "now": clock.now()}  # fmt: skip
    return reviews.propose(**(asked | more))


def approve(revision, actor="ada", **more):
    return reviews.approve(**({"revision": revision, "content_hash": revision.content_hash, "actor": actor,
                               "now": clock.now()} | more))  # fmt: skip


def last():
    return AuditEntry.objects.order_by("-id").first()


def failures(refund):
    return resolved.of_tool(refund).policy.consecutive_failures


def refusal(act, code):
    with pytest.raises(Refused) as refused:
        act()
    assert refused.value.code == code and refused.value.mend
    assert (last().accepted, last().detail["code"]) == (False, code)
    return refused.value


def test_what_is_proposed_is_not_in_force(proposed, cast, refund):
    assert (proposed.status, proposed.base, proposed.number) == ("in_review", 0, 1)
    assert failures(refund) == 2
    assert DocumentVersion.objects.get(environment=cast.prod).config == 1
    assert (last().action, last().actor, last().detail["hash"]) == ("propose_policy", "petra", proposed.content_hash)


def test_a_second_person_puts_it_in_force(proposed, cast, refund):
    done = approve(proposed, reason="seen with billing")

    assert (done.status, done.created_by, done.approved_by, done.decision) == (
        "published", "petra", "ada", "seen with billing",
    )  # fmt: skip
    assert failures(refund) == 4
    assert DocumentVersion.objects.get(environment=cast.prod).config == 2
    assert (last().action, last().actor, last().detail["proposed_by"]) == ("approve_policy", "ada", "petra")


@pytest.mark.parametrize("actor", ["petra", "Petra"])
def test_nobody_approves_or_rejects_their_own(proposed, refund, actor):
    refusal(lambda: approve(proposed, actor=actor), "own_change")
    refusal(lambda: reviews.reject(revision=proposed, reason="no", actor=actor, now=clock.now()), "own_change")

    proposed.refresh_from_db()
    assert proposed.status == "in_review" and failures(refund) == 2


def test_an_approval_is_for_the_content_that_was_looked_at(proposed, refund):
    seen = proposed.content_hash
    edited = reviews.edit(revision=proposed, values={"consecutive_failures": 9}, actor="petra")
    refusal(lambda: approve(proposed, content_hash=seen), "not_waiting")

    reviews.submit(revision=edited, actor="petra", now=clock.now())

    assert "edited" in refusal(lambda: approve(proposed, content_hash=seen), "edited").message
    assert failures(refund) == 2
    proposed.refresh_from_db()
    assert approve(proposed).values == {"consecutive_failures": 9}


def test_a_base_that_moved_on_ends_the_review_until_it_is_submitted_again(proposed, cast, refund):
    policies.publish(environment=cast.prod, level="tool", tool=refund, values={"semantic_failures": 2}, reason="x",
                     actor="ada", now=clock.now())  # fmt: skip
    assert reviews.is_moved(proposed)

    assert "revision 2" in refusal(lambda: approve(proposed), "moved").message
    again = reviews.submit(revision=proposed, actor="petra", now=clock.now())

    assert (again.base, again.number) == (2, 3)
    assert approve(again).number == 3
    assert set(PolicyRevision.objects.values_list("number", "status")) == {(2, "superseded"), (3, "published")}


def test_of_two_reviews_over_one_base_one_is_looked_at_anew(proposed, cast):
    other = propose(cast, {"consecutive_failures": 6})
    approve(proposed)

    refusal(lambda: approve(other), "moved")


def test_an_author_who_saw_an_older_base_is_told(proposed, cast):
    approve(proposed)

    refusal(lambda: propose(cast, {"consecutive_failures": 5}, base=0), "moved")
    assert propose(cast, {"consecutive_failures": 5}, base=1).base == 1


def test_a_rejection_says_why_and_ends_it(proposed, refund):
    refusal(lambda: reviews.reject(revision=proposed, reason=" ", actor="ada", now=clock.now()), "bad_field")

    done = reviews.reject(revision=proposed, reason="four refunds are too many", actor="ada", now=clock.now())

    assert (done.status, done.decided_by, done.decision) == ("rejected", "ada", "four refunds are too many")
    assert (last().action, last().reason) == ("reject_policy", "four refunds are too many")
    assert "rejected by ada" in refusal(lambda: approve(done, actor="otto"), "not_waiting").message
    assert failures(refund) == 2


def test_its_author_takes_it_back_and_nobody_else(proposed):
    refusal(lambda: reviews.withdraw(revision=proposed, actor="ada", now=clock.now()), "not_yours")
    refusal(lambda: reviews.edit(revision=proposed, values={}, actor="ada"), "not_yours")

    assert reviews.withdraw(revision=proposed, actor="petra", now=clock.now()).status == "withdrawn"
    refusal(lambda: approve(proposed), "not_waiting")


def test_each_step_sent_again_does_nothing_more(cast, proposed):
    assert propose(cast) == proposed
    other = propose(cast, {"consecutive_failures": 5})
    third = propose(cast, {"consecutive_failures": 6})
    reject = {"revision": other, "reason": "too many", "actor": "ada", "now": clock.now()}
    withdraw = {"revision": third, "actor": "petra", "now": clock.now()}
    first = [approve(proposed), reviews.reject(**reject), reviews.withdraw(**withdraw)]
    entries = AuditEntry.objects.count()

    assert [approve(proposed), reviews.reject(**reject), reviews.withdraw(**withdraw)] == first
    back = policies.roll_back(revision=proposed, reason="again", actor="petra", now=clock.now())

    assert back == proposed and PolicyRevision.objects.count() == 3
    assert AuditEntry.objects.count() == entries


def test_a_draft_waits_for_its_author(cast):
    draft = propose(cast, draft=True)
    assert (draft.status, draft.base) == ("draft", None)
    refusal(lambda: approve(draft), "not_waiting")

    assert reviews.submit(revision=draft, actor="petra", now=clock.now()).status == "in_review"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"consecutive_failurs": 4}, "consecutive_failurs"),
        ({"model_text": "Try again later."}, "model_text"),
        ({"fallback_tool": "no_such"}, "fallback_tool"),
        ({"short_run_steps": -1}, "short_run_steps"),
    ],
)
def test_what_could_never_be_in_force_is_refused_before_anybody_reviews_it(cast, values, field):
    with pytest.raises(Refused) as refused:
        propose(cast, values)

    assert refused.value.field == field
    assert not PolicyRevision.objects.exists()
    assert (last().action, last().accepted) == ("propose_policy", False)


def test_what_became_unsound_meanwhile_is_refused_at_the_approval(cast, refund):
    waiting = propose(cast, {"fallback_tool": "web_search"})
    type(refund).objects.filter(name="web_search").update(side_effect="destructive")

    refusal(lambda: approve(waiting), "stricter_fallback")
