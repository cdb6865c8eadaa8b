"""Signing in, out, and what happens when a session ends while a page is open."""

from __future__ import annotations

import pytest
from django.urls import reverse

from controlplane.models import AuditEntry, Circuit
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage

PART = {"HX-Request": "true"}


def sign_in(client, name="otto", password=factories.PASSWORD, **more):
    return client.post(reverse("dashboard:sign-in"), {"username": name, "password": password, **more})


def test_signing_in_leads_to_where_one_wanted_to_go(cast, client):
    wanted = reverse("dashboard:circuit", args=["prod", "search-api"])
    asked = client.get(wanted)

    assert asked.status_code == 302
    assert asked["Location"] == f"/sign-in/?next={wanted.replace('/', '%2F')}"
    assert sign_in(client, next=wanted)["Location"] == wanted
    assert client.get(wanted).status_code == 200


@pytest.mark.parametrize("elsewhere", ["https://evil.example", "//evil.example/x", "javascript:alert(1)"])
def test_nobody_is_sent_to_another_site(cast, client, elsewhere):
    assert sign_in(client, next=elsewhere)["Location"] == "/"


def test_a_wrong_password_says_so_and_names_no_account(cast, client):
    known, unknown = sign_in(client, password="wrong"), sign_in(client, name="nobody", password="wrong")

    assert known.status_code == unknown.status_code == 422
    assert "do not match" in known.content.decode()
    assert "do not match" in unknown.content.decode()


def test_too_many_wrong_passwords_lock_the_name_and_say_for_how_long(cast, client, settings):
    for _ in range(settings.AXES_FAILURE_LIMIT):
        answer = sign_in(client, password="wrong")

    assert answer.status_code == 429
    assert "locked for 15 minutes" in answer.content.decode()
    assert sign_in(client).status_code == 429
    assert sign_in(client, name="ada").status_code == 302


def test_signing_out_takes_a_post(cast, as_):
    client = as_(cast.otto)

    assert client.get(reverse("dashboard:sign-out")).status_code == 405
    assert client.post(reverse("dashboard:sign-out"))["Location"] == "/sign-in/"
    assert client.get("/")["Location"].startswith("/sign-in/")


@pytest.mark.case("D01")
def test_d01_a_session_that_ended_leads_a_fragment_to_sign_in_and_back(cast, client):
    answer = client.get("/runs/?environment=prod&show=all", headers=PART)

    assert answer.status_code == 401
    assert answer.content == b""
    assert answer["HX-Redirect"] == "/sign-in/?next=%2Fruns%2F%3Fenvironment%3Dprod%26show%3Dall"


@pytest.mark.case("D01")
def test_d01_it_leads_back_to_the_page_not_to_the_fragment(cast, client):
    where = {"HX-Current-URL": "http://testserver/?environment=prod"}
    address = reverse("dashboard:action", args=["prod", "search-api", "force-close"])

    assert client.get(address, headers=PART | where)["HX-Redirect"] == "/sign-in/?next=%2F%3Fenvironment%3Dprod"


@pytest.mark.case("D01")
def test_d01_a_plain_page_is_redirected(cast, client):
    assert client.get("/?environment=prod")["Location"] == "/sign-in/?next=%2F%3Fenvironment%3Dprod"


@pytest.mark.case("D01")
def test_d01_an_action_of_an_ended_session_changes_nothing(cast, client):
    stage.opened(cast.search_api, NOON)
    address = reverse("dashboard:action", args=["prod", "search-api", "force-close"])
    data = {"reason": "it is back", "token": "7f1fb7a2-6c3b-4b38-9a55-4b2f0a4a7f11"}

    answer = client.post(address, data, headers=PART | {"HX-Current-URL": "http://testserver/"})

    assert answer["HX-Redirect"] == "/sign-in/?next=%2F"
    assert Circuit.objects.get(dependency=cast.search_api).state == "open"
    assert not AuditEntry.objects.exists()


def test_every_page_is_guarded_by_headers(cast, as_):
    answer = as_(cast.ann).get("/")
    policy = answer["Content-Security-Policy"]

    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer["Referrer-Policy"] == "same-origin"
    assert "no-store" in answer["Cache-Control"]
