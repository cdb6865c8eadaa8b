"""The cast itself stands."""

import pytest
from django.contrib.auth import authenticate

from tests import factories

pytestmark = pytest.mark.django_db


def test_the_cast_is_complete():
    cast = factories.cast()

    assert {tool.name for tool in cast.search_api.tools.all()} == {"web_search", "news_search"}
    assert {session.worker for session in cast.sessions} == set(cast.workers)
    assert cast.otto.has_perm("controlplane.operate_circuit")
    assert not cast.ann.has_perm("controlplane.operate_circuit")


def test_the_people_can_sign_in(rf):
    factories.cast()

    assert authenticate(rf.get("/"), username="otto", password=factories.PASSWORD)
