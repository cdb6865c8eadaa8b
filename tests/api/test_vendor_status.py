"""Which status page is read beside a circuit, over the API."""

import pytest

from controlplane.models import VendorStatus
from controlplane.services import egress
from tests.factories import NOON

HERE = {"environment": "prod", "dependency": "search-api"}
PAGE = {"status_address": "http://127.0.0.1:9/feed"}


@pytest.fixture
def loopback(db):
    egress.allow_network(network="127.0.0.0/8", reason="tests", actor="ada", now=NOON)


def test_a_page_is_named_read_and_removed(cast, loopback, as_):
    api = as_(cast.otto)
    missing = api.read_vendor_status(**HERE)
    made = api.set_vendor_status(PAGE, **HERE)
    read = api.read_vendor_status(**HERE)
    edited = api.set_vendor_status({**PAGE, "status_component": "Search"}, **HERE, if_match=read.etag)
    removed = api.remove_vendor_status(**HERE, if_match="*")

    assert (missing.status, missing.error["code"]) == (404, "no_vendor_status")
    assert made.status in (200, 201), made.error
    assert (read.data["status_address"], read.data["level"], read.data["read_at"]) == (PAGE["status_address"], "", None)
    assert edited.data["status_component"] == "Search"
    assert removed.status == 204
    assert not VendorStatus.objects.exists()


@pytest.mark.parametrize("address", ["nonsense", "http://10.1.2.3/feed", "ftp://x"])
def test_a_wrong_address_is_named(cast, as_, address):
    answer = as_(cast.otto).set_vendor_status({"status_address": address}, **HERE)

    assert (answer.status, answer.error["field"]) == (422, "status_address")


def test_a_viewer_may_only_read(cast, as_):
    assert as_(cast.ann).set_vendor_status(PAGE, **HERE).status == 403
