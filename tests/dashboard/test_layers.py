"""Policies for many: an environment's and a class's values, edited in the dashboard."""

from __future__ import annotations

import pytest
from django.urls import reverse
from recloser.core.types import SideEffectClass

from controlplane.delivery import resolve
from controlplane.models import Environment, PolicyRevision


@pytest.fixture
def unprotected(cast):
    Environment.objects.filter(pk=cast.prod.pk).update(protected=False)
    cast.prod.refresh_from_db()
    return cast


def to(layer, part):
    return reverse("dashboard:layer-policy", args=["prod", layer, part])


def said(base="0", **values):
    return {"reason": "decided with the teams", "base": base, "do": "publish"} | values


def test_an_environments_defaults_are_published_and_hold_for_every_tool(cast, unprotected, as_):
    answer = as_(cast.petra).post(to("environment", "run"), said(semantic_failures="2"))

    assert answer.status_code == 302
    row = PolicyRevision.objects.get()
    assert (row.level, row.values) == ("environment", {"run": {"semantic_failures": 2}})
    assert resolve.of_tool(cast.tools["web_search"]).policy.semantic_failures == 2


def test_one_policy_of_a_layer_leaves_the_other_as_it_is(cast, unprotected, as_):
    client = as_(cast.petra)
    client.post(to("environment", "run"), said(semantic_failures="2"))
    client.post(to("environment", "circuit"), said(base="1", cooldown_s="45"))

    row = PolicyRevision.objects.get(status="published")
    assert row.values == {"run": {"semantic_failures": 2}, "circuit": {"cooldown_s": 45}}

    client.post(to("environment", "run"), said(base="2"))
    assert PolicyRevision.objects.get(status="published").values == {"circuit": {"cooldown_s": 45}}


def test_a_class_has_values_of_its_own(cast, unprotected, as_):
    as_(cast.petra).post(to("read_only", "circuit"), said(min_calls="30"))

    assert resolve.of_dependency(cast.search_api).policy.min_calls == 30
    assert resolve.of_dependency(cast.payments).policy.min_calls != 30


def test_what_guards_a_class_less_is_sent_for_review_and_its_author_comes_back_to_it(cast, as_):
    client = as_(cast.petra)
    asked = client.post(to("side_effect", "run"), said(identical_calls="9"))
    assert "It needs a second person" in asked.content.decode()
    assert not PolicyRevision.objects.filter(status="published").exists()

    sent = client.post(to("side_effect", "run"), said(identical_calls="9", do="review"))

    row = PolicyRevision.objects.get(status="in_review")
    assert row.values == {"run": {"identical_calls": 9}}
    page = client.get(sent["Location"]).content.decode()
    assert f"{to('side_effect', 'run')}?review={row.pk}" in page
    form = client.get(f"{to('side_effect', 'run')}?review={row.pk}").context["form"]
    assert form.initial["identical_calls"] == "9"


def test_an_environments_page_shows_its_own_layer_and_none_below(cast, unprotected, as_):
    client = as_(cast.petra)
    client.post(to("read_only", "run"), said(semantic_failures="2"))

    groups = dict(client.get(to("environment", "run")).context["groups"])

    [row] = [one for one in groups["Rejected arguments"] if one.name == "semantic_failures"]
    assert (row.in_force, row.origin) == ("3", "default")


def test_the_list_says_what_each_layer_sets(cast, unprotected, as_):
    client = as_(cast.petra)
    client.post(to("environment", "circuit"), said(cooldown_s="45", min_calls="30"))

    rows = client.get(reverse("dashboard:layers", args=["prod"])).context["rows"]

    assert [one["layer"] for one in rows] == ["environment", *(each.value for each in SideEffectClass)]
    assert (rows[0]["circuit"], rows[0]["run"]) == (2, 0)


@pytest.mark.parametrize("name", ["ann", "otto"])
def test_who_may_not_edit_reads_the_list_and_changes_nothing(cast, unprotected, as_, name):
    client = as_(getattr(cast, name))

    assert "edit</a>" not in client.get(reverse("dashboard:layers", args=["prod"])).content.decode()
    assert client.post(to("environment", "run"), said(semantic_failures="2")).status_code == 403
    assert not PolicyRevision.objects.exists()


@pytest.mark.parametrize(("layer", "part"), [("environment", "tools"), ("dangerous", "run"), ("class", "circuit")])
def test_there_is_no_other_layer(cast, as_, layer, part):
    assert as_(cast.petra).get(f"/policies/prod/{layer}/{part}/").status_code == 404
