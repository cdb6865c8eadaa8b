"""A tool that would be guarded less: its editor leads to a proposal, which waits where people see it."""

from __future__ import annotations

import uuid

import pytest
from django.urls import reverse

from controlplane import clock
from controlplane.models import AuditEntry, Tool, ToolChange, User
from controlplane.services import catalogue, policies, tool_reviews
from tests import factories


def to(name, *more):
    return reverse(f"dashboard:{name}", args=["prod", *more])


@pytest.fixture
def zoe(cast):
    """Another product owner."""
    return factories.person("zoe", cast.petra.role)


@pytest.fixture
def waiting(cast):
    return tool_reviews.propose(
        tool=cast.tools["refund"], wanted={"side_effect": "read_only"}, reason="it <b>only</b> asks", actor="petra",
        now=clock.now(),
    )  # fmt: skip


def edited(**more):
    return {"token": uuid.uuid4(), "side_effect": "side_effect", "owner": "", "operation": "refund",
            "dependencies": "payments", **more}  # fmt: skip


def asked(**more):
    return edited(**{"side_effect": "read_only", "reason": "it only asks for a quote", **more})


def decide(client, row, do, **more):
    return client.post(to("decide-tool", row.pk), {"do": do, "content_hash": row.content_hash, "reason": "", **more})


def side_effect():
    return Tool.objects.get(name="refund").side_effect


def last():
    return AuditEntry.objects.latest("id")


@pytest.mark.parametrize("page", ["edit-tool", "confirm-class"])
def test_a_milder_class_is_no_dead_end(cast, as_, page):
    client = as_(cast.petra)
    answer = client.post(to(page, "refund"), edited(side_effect="read_only"))

    assert answer.status_code == 422 and side_effect() == "side_effect"
    assert "another person approves it" in answer.content.decode()
    instead = answer.context["instead"]
    assert (
        instead.startswith(to("propose-tool", "refund")) and "Propose it to a second person" in answer.content.decode()
    )
    form = client.get(instead).context["form"]
    assert (form["side_effect"].value(), form["dependencies"].value()) == ("read_only", "payments")
    assert (last().action, last().accepted) == ("edit_tool", False)


def test_a_stricter_class_leads_nowhere_else(cast, as_):
    assert as_(cast.petra).post(to("edit-tool", "refund"), edited(side_effect="destructive")).status_code == 302

    assert side_effect() == "destructive"


def test_a_looser_place_leads_there_too_and_brings_it_along(cast, as_):
    policies.publish(environment=cast.prod, level="dependency", dependency=cast.search_api, values={"permits": True},
                     reason="x", actor="petra", now=clock.now())  # fmt: skip
    client = as_(cast.petra)

    answer = client.post(to("edit-tool", "refund"), edited(dependencies="search-api", costly="on"))

    form = client.get(answer.context["instead"]).context["form"]
    assert (form["dependencies"].value(), form["costly"].value()) == ("search-api", True)
    assert "permits guards refund less" in answer.content.decode()


def test_it_is_proposed_and_waits_where_people_see_it(cast, as_, zoe):
    answer = as_(cast.petra).post(to("propose-tool", "refund"), asked())

    row = ToolChange.objects.get()
    assert answer.headers["Location"] == to("tool-review", row.pk)
    assert (row.wanted, row.created_by, row.status) == ({"side_effect": "read_only"}, "petra", "in_review")
    client = as_(zoe)
    assert "1 change waits for review" in client.get("/tools/?environment=prod").content.decode()
    assert "Reviews <span" in client.get("/?environment=prod").content.decode()
    listed = client.get("/reviews/?environment=prod").content.decode()
    assert to("tool-review", row.pk) in listed and "1 change waits for a second person" in listed
    assert side_effect() == "side_effect"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"reason": " "}, "reason"),
        ({"side_effect": "side_effect"}, "side_effect"),
        ({"dependencies": "paiments"}, "dependencies"),
    ],
)
def test_what_cannot_be_proposed_says_so_at_its_field(cast, as_, given, field):
    answer = as_(cast.petra).post(to("propose-tool", "refund"), asked(**given))

    assert answer.status_code == 422 and answer.context["form"].errors[field]
    assert not ToolChange.objects.exists()


def test_the_tools_page_shows_it_and_who_may_decide(cast, as_, waiting, zoe):
    page = as_(cast.ann).get(to("tool", "refund")).content.decode()

    assert "1 change waits for a second person" in page and to("tool-review", waiting.pk) in page
    assert "May decide: ada, zoe." in page
    assert "it &lt;b&gt;only&lt;/b&gt; asks" in page
    User.objects.filter(username__in=["ada", "zoe"]).update(is_active=False)
    assert "Nobody else may edit policies yet" in as_(cast.ann).get(to("tool", "refund")).content.decode()
    assert "waits for a second person" not in as_(cast.ann).get(to("tool", "web_search")).content.decode()


def test_its_page_shows_the_change_and_why(cast, as_, waiting, zoe):
    page = as_(zoe).get(to("tool-review", waiting.pk))

    assert page.context["changes"] == [{"name": "Side-effect class", "before": "side effect", "after": "read only"}]
    text = page.content.decode()
    assert "Refund is confirmed as side effect, and read only is handled more leniently" in text
    assert 'value="approve"' in text and 'value="reject"' in text and 'value="withdraw"' not in text


def test_a_second_person_approves(cast, as_, waiting, zoe):
    answer = decide(as_(zoe), waiting, "approve", reason="I looked at its code")

    assert answer.status_code == 302 and side_effect() == "read_only"
    page = as_(zoe).get(to("tool-review", waiting.pk)).content.decode()
    assert "zoe approved it" in page and "I looked at its code" in page and 'value="approve"' not in page
    assert "I looked at its code" in as_(cast.ann).get("/reviews/?environment=prod").content.decode()
    assert (last().action, last().actor) == ("approve_tool_change", "zoe")


def test_ones_own_change_offers_no_approval_and_an_attempt_is_refused_on_record(cast, as_, waiting):
    client = as_(cast.petra)
    page = client.get(to("tool-review", waiting.pk)).content.decode()
    assert 'value="approve"' not in page and 'value="withdraw"' in page

    answer = decide(client, waiting, "approve")

    assert answer.status_code == 409 and "nobody approves a change of their own" in answer.content.decode().lower()
    assert (last().action, last().actor, last().accepted) == ("approve_tool_change", "petra", False)
    assert side_effect() == "side_effect"


@pytest.mark.parametrize("person", ["ann", "otto"])
def test_who_may_not_edit_policies_looks_and_does_nothing(cast, as_, waiting, person):
    client = as_(getattr(cast, person))
    assert 'value="approve"' not in client.get(to("tool-review", waiting.pk)).content.decode()

    assert decide(client, waiting, "approve").status_code == 403
    assert (last().actor, last().accepted) == (person, False)
    assert client.post(to("propose-tool", "refund"), asked()).status_code == 403
    assert (last().actor, last().accepted) == (person, False)
    assert side_effect() == "side_effect" and ToolChange.objects.count() == 1


def test_a_tool_that_was_changed_meanwhile_is_told_everywhere(cast, as_, waiting, zoe):
    catalogue.edit_tool(tool=cast.tools["refund"], changes={"costly": True}, actor="ada")

    page = as_(zoe).get(to("tool-review", waiting.pk)).content.decode()
    assert "refund, or what guards it, was changed since" in page and 'value="approve"' not in page
    assert "Changed meanwhile: petra submits it again" in as_(zoe).get(to("tool", "refund")).content.decode()
    assert decide(as_(zoe), waiting, "approve").status_code == 409

    assert decide(as_(cast.petra), waiting, "submit").status_code == 302
    waiting.refresh_from_db()
    assert decide(as_(zoe), waiting, "approve").status_code == 302
    assert side_effect() == "read_only"


def test_a_rejection_wants_a_reason(cast, as_, waiting, zoe):
    answer = decide(as_(zoe), waiting, "reject")
    assert answer.status_code == 409 and answer.context["form"].errors["reason"]

    decide(as_(zoe), waiting, "reject", reason="it pays")

    page = as_(zoe).get("/reviews/?environment=prod").content.decode()
    assert "it pays" in page and "Nothing waits for review" in page


def test_its_author_takes_it_back_or_changes_it(cast, as_, waiting, zoe):
    client = as_(cast.petra)
    editor = client.get(to("tool-review", waiting.pk)).context["editor"]
    form = client.get(editor).context["form"]
    assert (form["side_effect"].value(), form["review"].value()) == ("read_only", waiting.pk)

    answer = client.post(to("propose-tool", "refund"), asked(side_effect="unknown", review=waiting.pk))

    waiting.refresh_from_db()
    assert answer.headers["Location"] == to("tool-review", waiting.pk)
    assert (waiting.status, waiting.wanted) == ("in_review", {"side_effect": "unknown"})
    as_(zoe).post(to("propose-tool", "refund"), asked(side_effect="idempotent_write", review=waiting.pk))
    waiting.refresh_from_db()
    assert waiting.wanted == {"side_effect": "unknown"}, "nobody else takes it up"
    assert decide(as_(cast.petra), waiting, "withdraw").status_code == 302
    waiting.refresh_from_db()
    assert waiting.status == "withdrawn"


def test_a_review_of_another_environment_is_not_there(cast, as_, waiting):
    there = reverse("dashboard:tool-review", args=["staging", waiting.pk])

    assert as_(cast.petra).get(there).status_code == 404
    assert as_(cast.petra).post(f"{there}decide/", {"do": "withdraw", "content_hash": "x"}).status_code == 404


def test_a_bare_post_changes_nothing(cast, as_, waiting, zoe):
    assert as_(zoe).post(to("decide-tool", waiting.pk), {"do": "explode"}).status_code == 422
    assert as_(zoe).get(to("decide-tool", waiting.pk)).status_code == 405
