"""The grid of a large fleet in a browser: what it has is not sent again, and it never shows two moments at once."""

from __future__ import annotations

import pytest
from django.db import transaction
from playwright.sync_api import expect

from controlplane import clock
from controlplane.services import transitions
from tests.dashboard import stage
from tests.dashboard.test_fleet import fleet

HAS = "x-recloser-fleet"


@pytest.fixture
def board(server, cast, page, sign_in):
    """The Board of 48 circuits in three parts, live."""
    fleet(cast, 45)
    sign_in("otto")
    expect(page.locator("#feed")).to_have_attribute("data-feed", "live")
    expect(page.locator(".fleet > .part")).to_have_count(3)
    return page


def trip(dependency):
    row = stage.opened(dependency, clock.now(), due_in_s=30)
    with transaction.atomic():
        transitions.announce([row])


def test_a_trip_changes_its_cell_and_leaves_the_other_parts_as_they_stand(cast, board):
    kept = board.locator(f"#cell-{cast.payments.circuit.pk}").element_handle()

    with board.expect_response(lambda answer: HAS in answer.request.headers) as answered:
        trip(cast.search_api)

    expect(board.locator(f"#cell-{cast.search_api.circuit.pk}")).to_have_class("cell open")
    assert answered.value.text().count("data-same") >= 2
    assert kept.evaluate("element => element.isConnected")
    expect(board.locator(".fleet .cell")).to_have_count(48)


def test_where_the_page_changed_since_it_asked_all_of_it_is_asked_for(cast, board):
    board.evaluate("""document.addEventListener("htmx:before:swap",
        () => (document.querySelector(".part").dataset.mark = "another"), { capture: true, once: true })""")

    with board.expect_response(
        lambda answer: "hx-request" in answer.request.headers and HAS not in answer.request.headers
    ):
        trip(cast.search_api)

    expect(board.locator(f"#cell-{cast.search_api.circuit.pk}")).to_have_class("cell open")
    expect(board.locator(".fleet .cell")).to_have_count(48)
