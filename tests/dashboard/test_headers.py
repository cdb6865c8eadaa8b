"""Every answer, whatever became of the question, allows no foreign thing, no frame, and tells no other site."""

from __future__ import annotations

import uuid

import pytest
from django.core.exceptions import BadRequest
from django.test import Client
from django.urls import reverse

from dashboard.views import board
from tests.conftest import NOON
from tests.dashboard import attacker, everywhere, stage

CLOSE = reverse("dashboard:action", args=["prod", "search-api", "force-close"])
DEED = {"token": str(uuid.uuid4()), "reason": "it is back"}


def guards(answer):
    """What keeps a browser from doing more with it than we mean."""
    policy = {name: set(allowed) for name, *allowed in map(str.split, answer["Content-Security-Policy"].split(";"))}
    assert policy["default-src"] == {"'none'"}
    assert policy["frame-ancestors"] == policy["base-uri"] == {"'none'"}
    assert set().union(*policy.values()) <= {"'none'", "'self'", "data:"}
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == policy["connect-src"] == {"'self'"}
    assert (answer["Referrer-Policy"], answer["X-Frame-Options"]) == ("same-origin", "DENY")
    assert answer["X-Content-Type-Options"] == "nosniff"
    return answer.status_code


def test_every_address_answers_guarded(cast, as_):
    stood = attacker.attack(cast, NOON)
    client = as_(cast.ada)

    for name, path in everywhere.addresses(stood).items():
        assert guards(client.get(path)) == (302 if name == "sign-in" else 200), path
        assert guards(Client().get(path)) == (200 if name == "sign-in" else 302), path


def falls(*_args, **_given):
    raise RuntimeError("no page was made")


def refuses(*_args, **_given):
    raise BadRequest("no question that can be answered")


@pytest.mark.parametrize(
    "path", ["/nowhere/", "/circuits/prod/serch-api/", "/?environment=nowhere", "/runs/1/", "/trips.csv?environment=x"]
)
def test_what_is_not_there_is_guarded(cast, as_, path):
    assert guards(as_(cast.ada).get(path)) == 404


@pytest.mark.parametrize(("happens", "status"), [(falls, 500), (refuses, 400)])
def test_a_page_that_could_not_be_made_is_guarded(cast, client, monkeypatch, happens, status):
    client.raise_request_exception = False
    client.force_login(cast.ada, backend="controlplane.permissions.RoleBackend")
    monkeypatch.setattr(board.selector, "board", happens)

    assert guards(client.get("/")) == status


def test_what_is_refused_is_guarded(cast, as_):
    stage.opened(cast.search_api, NOON)
    forgetful = Client(enforce_csrf_checks=True)
    forgetful.force_login(cast.otto, backend="controlplane.permissions.RoleBackend")

    assert guards(forgetful.post(CLOSE, DEED)) == 403
    assert guards(as_(cast.ann).post(CLOSE, DEED)) == 403
    assert guards(as_(cast.otto).post(CLOSE, DEED, headers={"X-Recloser-Build": "build-118"})) == 409
    assert guards(as_(cast.otto).post(CLOSE, {})) == 422
    assert guards(as_(cast.otto).put(CLOSE)) == 405
    assert guards(Client().get("/", headers={"HX-Request": "true"})) == 401
    assert guards(Client().get("/", headers={"Host": "evil.example"})) == 400


def test_whoever_is_locked_out_is_guarded(cast, client, settings):
    address, wrong = reverse("dashboard:sign-in"), {"username": "otto", "password": "wrong"}

    statuses = [guards(client.post(address, wrong)) for _ in range(settings.AXES_FAILURE_LIMIT)]

    assert statuses[-1] == 429


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/circuits", "/api/v1/nowhere"])
def test_what_programs_ask_for_is_guarded(cast, client, path):
    guards(client.get(path))
