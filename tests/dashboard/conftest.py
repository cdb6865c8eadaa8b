"""The cast at noon, and a signed-in client for each of them."""

from __future__ import annotations

import pytest
from django.test import Client

from tests import factories
from tests.conftest import NOON


@pytest.fixture(autouse=True)
def _plain_static(settings, tmp_path):
    """Without collectstatic, file names stand as they are."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }


@pytest.fixture
def cast(db, frozen_clock):
    return factories.cast(NOON)


@pytest.fixture
def as_(client):
    """`as_(cast.otto).get(...)`."""

    def signed_in(person) -> Client:
        client.force_login(person, backend="controlplane.permissions.RoleBackend")
        return client

    return signed_in
