"""The cast at noon, and a client for each of them, made from the schema that the API serves."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from controlplane import clock
from controlplane.api import attempts, schema
from controlplane.evidence import store
from controlplane.services import tokens
from tests import factories
from tests.api.generated import Api
from tests.conftest import NOON


@pytest.fixture(scope="session")
def document():
    return json.loads(schema.document())


@pytest.fixture
def cast(db, frozen_clock):
    store.forget()
    attempts.anonymous.__init__()
    return factories.cast(NOON)


@pytest.fixture
def as_(document):
    """`as_(cast.otto).force_close(...)`: by a token of all that the person may do, or of some scopes only."""

    def speak(person, *scopes) -> Api:
        wanted = scopes or tokens.scopes_of(person)
        _, secret = tokens.issue(person=person, name="test", scopes=wanted, now=clock.now())
        return Api(document, Client(), secret)

    return speak


@pytest.fixture
def nobody(document):
    return Api(document, Client())


@pytest.fixture
def signed_in(document):
    """Through the dashboard's session; with `csrf=True` as a browser would, who must send the CSRF token too."""

    def speak(person, *, csrf=False) -> Api:
        client = Client(enforce_csrf_checks=csrf)
        client.force_login(person, backend="controlplane.permissions.RoleBackend")
        return Api(document, client)

    return speak
