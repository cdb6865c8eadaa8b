"""A change that needs a second person: told before it is saved, waiting where people see it, decided on its page."""

from __future__ import annotations

import pytest
from django.urls import reverse

from controlplane import clock
from controlplane.models import AuditEntry, PolicyRevision
from controlplane.selectors import policies as resolved
from controlplane.services import policies, reviews
from tests import factories

TEXT = "Answer from the documents at hand."


def editor(tool="web_search"):
    return reverse("dashboard:tool-policy", args=["prod", tool])


def address(row, page="review"):
    return reverse(f"dashboard:{page}", args=["prod", row.pk])


def typed(do, **more):
    return {"base": "0", "do": do, "reason": "decided with the search team", **more}


@pytest.fixture
def zoe(cast):
    """Another product owner."""
    return factories.person("zoe", cast.petra.role)


@pytest.fixture
def waiting(cast):
    return propose(cast)


def propose(cast, values=None, tool="web_search", actor="petra"):
    return reviews.propose(
        environment=cast.prod, level="tool", tool=cast.tools[tool], values=values or {"model_text": TEXT},
        reason="decided <b>together</b>", actor=actor, now=clock.now(),
    )  # fmt: skip


def decide(client, row, do, **more):
    return client.post(address(row, "decide"), {"do": do, "content_hash": row.content_hash, "reason": "", **more})


def text_in_force(cast):
    return resolved.of_tool(cast.tools["web_search"]).policy.model_text


def test_the_editor_marks_what_a_second_person_has_a_say_in(cast, as_):
    client = as_(cast.petra)

    def guards(tool):
        groups = client.get(editor(tool)).context["groups"]
        return {row.name: row.guard for _, rows in groups for row in rows if row.guard}

    told = dict.fromkeys(("degraded_behaviour", "fallback_tool", "model_text", "outcomes"), "alters")
    assert guards("web_search") == told
    assert guards("refund")["never_open"] == "loosens"
    assert guards("refund").items() >= told.items()


@pytest.mark.parametrize(
    ("tool", "given", "why"),
    [
        ("web_search", {"model_text": TEXT}, "prod is protected"),
        ("refund", {"consecutive_failures": "4"}, "Consecutive failures guards less than the class side effect does"),
    ],
)
def test_publishing_what_needs_a_second_person_saves_nothing_and_says_why(cast, as_, tool, given, why):
    answer = as_(cast.petra).post(editor(tool), typed("publish", **given))

    page = answer.content.decode()
    assert answer.status_code == 200
    assert why in page and "nothing is published yet" in page and "Send for review" in page
    assert not PolicyRevision.objects.exists()


def test_the_preview_says_it_too(cast, as_):
    page = as_(cast.petra).post(editor(), typed("preview", model_text=TEXT)).content.decode()

    assert "It needs a second person." in page and TEXT in page


def test_it_is_sent_for_review_and_waits_where_people_see_it(cast, as_, zoe):
    client = as_(cast.petra)

    answer = client.post(editor(), typed("review", model_text=TEXT))

    row = PolicyRevision.objects.get()
    assert (row.status, row.created_by, row.base) == ("in_review", "petra", 0)
    assert answer.headers["Location"] == address(row)
    client = as_(zoe)
    assert "1 change waits for review" in client.get("/tools/?environment=prod").content.decode()
    assert "Reviews <span" in client.get("/?environment=prod").content.decode()
    listed = client.get("/reviews/?environment=prod").content.decode()
    assert address(row) in listed and "1 change waits for a second person" in listed


def test_nothing_waiting_is_no_link_in_the_navigation(cast, as_, zoe):
    assert "/reviews/" not in as_(zoe).get("/?environment=prod").content.decode()


def test_the_page_shows_the_change_and_why_and_the_words(cast, as_, waiting, zoe):
    answer = as_(zoe).get(address(waiting))

    (change,) = answer.context["changes"]
    assert (change["name"], change["before"], change["after"]) == ("Model text", "none", TEXT)
    assert (change["before_origin"], change["after_origin"]) == ("default", "tool")
    page = answer.content.decode()
    assert "prod is protected" in page and TEXT in answer.context["notice"]
    assert "decided &lt;b&gt;together&lt;/b&gt;" in page
    assert 'value="approve"' in page and 'value="reject"' in page and 'value="withdraw"' not in page


def test_a_second_person_approves(cast, as_, waiting, zoe):
    answer = decide(as_(zoe), waiting, "approve", reason="good words")

    assert answer.status_code == 302
    assert text_in_force(cast) == TEXT
    page = as_(zoe).get(address(waiting)).content.decode()
    assert "zoe approved it" in page and "good words" in page and 'value="approve"' not in page


def test_ones_own_change_offers_no_approval_and_an_attempt_is_refused_on_record(cast, as_, waiting):
    client = as_(cast.petra)
    page = client.get(address(waiting)).content.decode()
    assert 'value="approve"' not in page and 'value="withdraw"' in page

    answer = decide(client, waiting, "approve")

    assert answer.status_code == 409
    assert "nobody approves a change of their own" in answer.content.decode().lower()
    entry = AuditEntry.objects.order_by("-id").first()
    assert (entry.action, entry.actor, entry.accepted) == ("approve_policy", "petra", False)
    assert text_in_force(cast) == ""


def test_who_may_not_edit_policies_looks_and_decides_nothing(cast, as_, waiting):
    client = as_(cast.otto)
    assert 'value="approve"' not in client.get(address(waiting)).content.decode()

    assert decide(client, waiting, "approve").status_code == 403
    assert AuditEntry.objects.order_by("-id").first().accepted is False
    assert text_in_force(cast) == ""


def test_what_was_edited_since_is_not_approved_unseen(cast, as_, waiting, zoe):
    reviews.edit(revision=waiting, values={"model_text": "Ask the user."}, actor="petra")
    reviews.submit(revision=waiting, actor="petra", now=clock.now())

    answer = decide(as_(zoe), waiting, "approve")

    assert answer.status_code == 409 and "petra has edited it" in answer.content.decode().lower()
    assert "Ask the user." in answer.content.decode()
    assert text_in_force(cast) == ""


def test_a_base_that_moved_on_is_told_and_submitted_again(cast, as_, waiting, zoe):
    policies.publish(environment=cast.prod, level="tool", tool=cast.tools["web_search"], values={"identical_calls": 4},
                     reason="x", actor="zoe", now=clock.now())  # fmt: skip
    page = as_(zoe).get(address(waiting)).content.decode()
    assert "Another revision came into force" in page and 'value="approve"' not in page
    assert decide(as_(zoe), waiting, "approve").status_code == 409

    assert decide(as_(cast.petra), waiting, "submit").status_code == 302
    assert decide(as_(zoe), waiting, "approve").status_code == 302
    assert text_in_force(cast) == TEXT


def test_a_rejection_wants_a_reason(cast, as_, waiting, zoe):
    client = as_(zoe)
    answer = decide(client, waiting, "reject")
    assert answer.status_code == 409 and answer.context["form"].errors["reason"]

    decide(client, waiting, "reject", reason="too vague")

    page = client.get("/reviews/?environment=prod").content.decode()
    assert "too vague" in page and "Nothing waits for review" in page


def test_its_author_takes_it_back_or_changes_it(cast, as_, waiting):
    client = as_(cast.petra)
    page = client.get(f"{editor()}?review={waiting.pk}").content.decode()
    assert TEXT in page and "Send for review" in page

    answer = client.post(editor(), typed("review", model_text="Ask the user.", review=waiting.pk))

    waiting.refresh_from_db()
    assert answer.headers["Location"] == address(waiting)
    assert (waiting.status, waiting.values) == ("in_review", {"model_text": "Ask the user."})
    assert decide(client, waiting, "withdraw").status_code == 302
    waiting.refresh_from_db()
    assert waiting.status == "withdrawn"


def test_somebody_elses_review_is_not_taken_up(cast, as_, waiting, zoe):
    as_(zoe).post(editor(), typed("review", model_text="Ask the user.", review=waiting.pk))

    waiting.refresh_from_db()
    assert waiting.values == {"model_text": TEXT}
    assert PolicyRevision.objects.filter(created_by="zoe", status="in_review").count() == 1


def test_a_review_of_another_environment_is_not_there(cast, as_, waiting):
    assert as_(cast.petra).get(reverse("dashboard:review", args=["staging", waiting.pk])).status_code == 404


def test_a_bare_post_changes_nothing(cast, as_, waiting, zoe):
    assert as_(zoe).post(address(waiting, "decide"), {"do": "explode"}).status_code == 422
    assert as_(zoe).get(address(waiting, "decide")).status_code == 405


def test_the_number_of_queries_does_not_grow_with_what_waits(cast, as_, waiting, django_assert_num_queries):
    for number in range(12):
        propose(cast, {"model_text": f"Take way {number}."})
    client = as_(cast.ann)
    client.get("/reviews/?environment=prod")

    with django_assert_num_queries(10):
        client.get("/reviews/?environment=prod")
