"""The list of places is whole: no page or sheet that one can open is missing from the pictures and the checks."""

from __future__ import annotations

from django.urls import resolve

from controlplane import clock
from dashboard import urls
from tests import factories
from tests.e2e import places, story

NO_PAGES = {
    "export-trips",
    "export-runs",
    "export-audit",
    "export-outages",
    "export-tools",
    "export-alerts",
    "export-workers",
    "export-keys",
    "sign-out",
    "decide",
    "decide-tool",
    "heard",
}
"""Files, what is only posted, and a fragment."""
APART = {"sign-in"}
"""Looked at without a session, by itself."""


def test_every_page_and_sheet_has_its_place(db):
    cast = factories.cast(clock.now())
    story.bad_night(cast, clock.now())

    found = {resolve(path.partition("?")[0]).url_name for path in (places.pages(cast) | places.sheets(cast)).values()}

    assert {one.name for one in urls.urlpatterns} - NO_PAGES - APART - found == set()
