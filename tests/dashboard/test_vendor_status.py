"""The vendor's own words beside a circuit: escaped, with their age, and named as what they are."""

from datetime import timedelta

import pytest
from django.urls import reverse

from controlplane.models import AuditEntry, VendorStatus
from controlplane.services import egress
from tests.conftest import NOON
from tests.dashboard import stage as fleet

CIRCUIT = reverse("dashboard:circuit", args=["prod", "search-api"])
EDITOR = reverse("dashboard:vendor-status", args=["prod", "search-api"])


@pytest.fixture
def reachable(cast):
    egress.allow_network(network="127.0.0.0/8", reason="tests", actor="ada", now=NOON)


def told(cast, **more):
    values = {
        "address": "https://status.example.com/api/v2/summary.json",
        "updated_at": NOON,
        "updated_by": "ada",
        "due_at": NOON,
        "read_at": NOON,
        "level": "outage",
        "said": "<script>alert(1)</script> all down",
        "link": "https://status.example.com/x",
    }
    return VendorStatus.objects.create(dependency=cast.search_api, **values | more)


def test_the_circuit_shows_it_escaped_as_context(cast, as_):
    told(cast)
    text = as_(cast.ann).get(CIRCUIT).content.decode()

    assert "&lt;script&gt;alert(1)&lt;/script&gt; all down" in text
    assert "<script>alert(1)" not in text
    assert "context, never evidence" in text
    assert 'href="https://status.example.com/x" rel="noopener noreferrer nofollow"' in text
    assert "vendor-status" not in text, "a viewer cannot change it"


def test_what_cannot_be_read_says_since_when(cast, as_):
    told(cast, failing_since=NOON, problem="it answered 503")
    text = as_(cast.otto).get(CIRCUIT).content.decode()

    assert "could not be read since" in text
    assert "it answered 503" in text


def test_a_page_is_named_changed_and_removed(cast, reachable, as_):
    client = as_(cast.otto)
    client.post(EDITOR, {"status_address": "http://127.0.0.1:9/feed", "status_component": "Search"})

    row = VendorStatus.objects.get()
    assert (row.address, row.component, row.updated_by) == ("http://127.0.0.1:9/feed", "Search", "otto")
    assert "http://127.0.0.1:9/feed" in client.get(EDITOR).content.decode()

    client.post(EDITOR, {"status_address": ""})
    assert not VendorStatus.objects.exists()
    actions = list(AuditEntry.objects.filter(action__contains="vendor").values_list("action", flat=True))
    assert sorted(actions) == ["remove_vendor_status", "set_vendor_status"]


@pytest.mark.parametrize("address", ["nonsense", "http://10.1.2.3/feed", "javascript:alert(1)", "http://x y/"])
def test_a_wrong_address_is_named_at_its_field(cast, as_, address):
    answer = as_(cast.otto).post(EDITOR, {"status_address": address})

    assert answer.status_code == 422
    assert answer.context["form"].errors["status_address"]
    assert not VendorStatus.objects.exists()


def test_a_viewer_may_not_name_one(cast, as_):
    assert as_(cast.ann).post(EDITOR, {"status_address": "https://status.example.com"}).status_code == 403


def test_the_board_says_it_with_what_needs_a_human(cast, as_):
    fleet.opened(cast.search_api, NOON - timedelta(seconds=60))
    told(cast)
    text = as_(cast.otto).get("/?environment=prod").content.decode()

    assert "Vendor says" in text
    assert "&lt;script&gt;" in text
