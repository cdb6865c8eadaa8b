"""People and the audit."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.models import AuditEntry, User
from controlplane.selectors import people as selector
from controlplane.services import audit
from tests import factories


def to(name, *more):
    return reverse(f"dashboard:{name}", args=more)


def said(**more):
    return {"token": str(uuid.uuid4()), **more}


def test_an_admin_adds_somebody_who_then_signs_in(cast, as_):
    answer = as_(cast.ada).post(to("add-person"), said(username="olga", email="olga@example.com", role="on_call"))

    password = answer.context["secret"]
    entered = Client().post("/sign-in/", {"username": "olga", "password": password})
    assert entered.status_code == 302
    assert User.objects.get(username="olga").role == "on_call"
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.target, entry.detail) == ("ada", "add_person", "olga", {"role": "on_call"})
    assert password not in str(entry.detail)


@pytest.mark.parametrize(
    ("field", "value"),
    [("username", "OTTO"), ("username", "a b"), ("username", ""), ("role", "king"), ("email", "nowhere")],
)
def test_a_bad_person_names_its_field(cast, as_, field, value):
    answer = as_(cast.ada).post(to("add-person"), said(**{"username": "olga", "role": "viewer", field: value}))

    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {field}
    assert User.objects.count() == 4


def test_a_role_holds_from_the_next_click_on(cast, as_):
    otto = Client()
    otto.force_login(cast.otto, backend="controlplane.permissions.RoleBackend")

    as_(cast.ada).post(to("change-role", cast.otto.pk), said(role="viewer"))

    assert otto.post("/circuits/prod/search-api/force-close/", said(reason="x")).status_code == 403


def test_somebody_switched_off_is_out_at_once_and_comes_back(cast, as_):
    otto = Client()
    otto.force_login(cast.otto, backend="controlplane.permissions.RoleBackend")
    client = as_(cast.ada)

    client.post(to("switch-person", cast.otto.pk), said())
    assert otto.get("/").status_code == 302
    assert Client().post("/sign-in/", {"username": "otto", "password": factories.PASSWORD}).status_code == 422

    client.post(to("switch-person", cast.otto.pk), said())
    assert Client().post("/sign-in/", {"username": "otto", "password": factories.PASSWORD}).status_code == 302


def test_a_new_password_ends_the_old_one_and_its_sessions(cast, as_):
    otto = Client()
    otto.force_login(cast.otto, backend="controlplane.permissions.RoleBackend")

    password = as_(cast.ada).post(to("new-password", cast.otto.pk), said()).context["secret"]

    assert otto.get("/").status_code == 302
    assert Client().post("/sign-in/", {"username": "otto", "password": password}).status_code == 302


def test_the_last_admin_stays(cast, as_):
    client = as_(cast.ada)

    assert client.post(to("change-role", cast.ada.pk), said(role="viewer")).status_code == 422
    assert client.post(to("switch-person", cast.ada.pk), said()).status_code == 422
    assert User.objects.get(pk=cast.ada.pk).is_active


@pytest.mark.parametrize("name", ["ann", "otto", "petra"])
def test_people_are_for_admins(cast, as_, name):
    client = as_(getattr(cast, name))

    assert client.get(to("people")).status_code == 403
    for page in (to("add-person"), to("change-role", cast.ann.pk), to("new-password", cast.ann.pk)):
        assert client.post(page, said(username="olga", role="admin")).status_code == 403
    assert User.objects.get(pk=cast.ann.pk).role == "viewer"


def entry(cast, environment="prod", **given):
    values = {"actor": "otto", "action": "force_close", "target": "search-api", "accepted": True, "reason": "drill"}
    environment_id = getattr(cast, environment).pk if environment else None
    audit.record(environment_id=environment_id, **(values | given))
    return AuditEntry.objects.latest("id").pk


def listed(client, **query):
    answer = client.get(to("audit"), {"environment": "prod", **query})
    return [row.pk for row in answer.context["found"].entries]


def test_the_audit_is_filtered(cast, as_):
    one = entry(cast)
    two = entry(cast, actor="petra", action="publish_policy", target="tool web_search", accepted=False)
    entry(cast, environment="staging")
    client = as_(cast.ann)

    assert listed(client) == [two, one]
    assert listed(client, actor="otto") == [one]
    assert listed(client, action="publish_policy") == [two]
    assert listed(client, target="SEARCH-a") == [one]
    assert listed(client, accepted="no") == [two]


def test_what_belongs_to_no_environment_is_for_admins(cast, as_):
    everywhere = entry(cast, environment=None, action="add_person", target="olga")

    assert listed(as_(cast.ada)) == [everywhere]
    assert listed(as_(cast.ann)) == []


def test_pages_of_the_audit_follow_its_ids(cast, as_, monkeypatch):
    monkeypatch.setattr(selector.audit, "__kwdefaults__", {"below": None, "limit": 3})
    made = [entry(cast) for _ in range(8)]
    client, seen, address = as_(cast.ann), [], to("audit") + "?environment=prod&actor=otto"

    while address:
        answer = client.get(address)
        seen += [row.pk for row in answer.context["found"].entries]
        address = answer.context["next"] and to("audit") + answer.context["next"]

    assert seen == made[::-1]


def test_the_number_of_queries_does_not_grow(cast, as_, django_assert_num_queries):
    for _ in range(10):
        entry(cast)
    client = as_(cast.ada)

    with django_assert_num_queries(6):
        listed(client)
    with django_assert_num_queries(6):
        client.get(to("people"))
