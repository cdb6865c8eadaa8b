"""Everything that people do, where JavaScript is off: plain links, plain forms, and a page that tells the new truth."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from controlplane import clock
from controlplane.models import AuditEntry, Circuit, PolicyRevision, Trip
from dashboard.views.actions import DEEDS
from tests import factories
from tests.dashboard import stage

CIRCUIT = "/circuits/prod/search-api/"
WAY = (
    ("acknowledge", "Acknowledge", "open", "auto"),
    ("hand-back", "Hand back", "open", "auto"),
    ("probe-now", "Probe now", "open", "auto"),
    ("hold-open", "Hold open", "open", "forced_open"),
    ("release", "Release", "open", "auto"),
    ("force-close", "Force close", "closed", "auto"),
    ("hold-closed", "Hold closed", "closed", "forced_closed"),
    ("note", "Write a note", "closed", "forced_closed"),
)  # fmt: skip
"""Each deed by its button or link, one after the other, and how the circuit then stands."""


@pytest.fixture
def plain(opened, sign_in):
    """`plain("otto", path)`: a tab without scripts."""
    tab = opened(java_script_enabled=False).new_page()
    return lambda name, path="/": sign_in(name, path=path, on=tab)


def test_every_deed_on_a_circuit_works_by_a_plain_form(server, cast, plain):
    assert {name for name, *_ in WAY} == set(DEEDS)
    stage.probe(cast.search_api, clock.now())
    stage.opened(cast.search_api, clock.now())
    page = plain("otto", CIRCUIT)
    for name, label, state, mode in WAY:
        page.locator("main").locator("a, button").filter(has_text=re.compile(rf"^\s*{label}\s*$")).click()
        if urlsplit(page.url).path != CIRCUIT:
            page.get_by_role("textbox", name="Note" if name == "note" else "Reason").fill("the vendor says so")
            page.get_by_role("main").get_by_role("button", name=DEEDS[name].button).click()

        expect(page.get_by_role("status").filter(has_text=f"search-api {DEEDS[name].done}.")).to_be_visible()
        assert urlsplit(page.url).path == CIRCUIT
        row = Circuit.objects.get(dependency=cast.search_api)
        assert (row.state, row.mode) == (state, mode), name
    done = AuditEntry.objects.filter(actor="otto", accepted=True).values_list("action", flat=True)
    assert len(done) == len(WAY)


def test_what_is_missing_is_told_at_its_field(server, cast, plain):
    stage.opened(cast.search_api, clock.now())
    page = plain("otto", f"{CIRCUIT}force-close/")
    page.get_by_role("button", name="Close it now").click()

    expect(page.get_by_label("Reason")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("Say why: whoever is on call next reads it.")).to_be_visible()
    assert Circuit.objects.get(dependency=cast.search_api).state == "open"


def test_a_false_trip_is_marked_and_the_mark_taken_back(server, cast, plain):
    stage.opened(cast.search_api, clock.now())
    page = plain("otto", f"/trips/{Trip.objects.get().pk}/")
    page.get_by_role("link", name="Mark as a false trip").click()
    page.get_by_label("Reason").fill("a load test of ours")
    page.get_by_role("button", name="Mark it").click()
    expect(page.get_by_text("marked as false by otto")).to_be_visible()

    page.get_by_role("link", name="Take the mark back").click()
    page.get_by_role("button", name="Take it back").click()
    expect(page.get_by_text("marked as false by otto")).to_be_hidden()
    assert Trip.objects.get().false_trip_at is None


def test_a_policy_is_previewed_and_sent_for_review(server, cast, plain):
    page = plain("petra", "/tools/prod/web_search/policy/")
    page.get_by_label("Model text").fill("Answer from the documents at hand.")
    page.get_by_label("Why it changes").fill("decided with the search team")
    page.get_by_role("button", name="Preview the words").click()
    expect(page.locator("#previewed")).to_contain_text("Answer from the documents at hand.")
    page.get_by_role("button", name=re.compile("Send for review|Publish")).click()
    if page.get_by_role("button", name="Send for review").count():
        page.get_by_role("button", name="Send for review").click()

    expect(page.get_by_text("It waits for a second person")).to_be_visible()
    assert PolicyRevision.objects.get().status == "in_review"


def test_an_agent_is_added_its_key_shown_and_a_worker_quarantined(server, cast, plain):
    page = plain("ada", "/settings/?environment=prod")
    page.get_by_role("link", name="Add an agent").click()
    page.get_by_label("Short name").fill("billing")
    page.get_by_label("Name", exact=True).fill("Billing")
    page.get_by_role("button", name="Add").click()
    token = re.search(r"RECLOSER_KEY=(\S+)", page.get_by_role("main").inner_text())[1]
    assert factories.key_of(token).agent.slug == "billing"
    page.get_by_role("link", name="Done").click()

    page.get_by_role("row").filter(has_text="pod-1").get_by_role("link", name="Quarantine").click()
    page.get_by_label("Reason").fill("wrong network policy")
    page.get_by_role("button", name="Quarantine").click()
    expect(page.get_by_role("row").filter(has_text="pod-1")).to_contain_text("quarantined")


def test_searching_filtering_and_leaving(server, cast, plain):
    page = plain("otto", "/?environment=prod")
    page.get_by_role("link", name="Find").click()
    page.get_by_role("searchbox").fill("crm")
    page.get_by_role("searchbox").press("Enter")
    page.get_by_role("link", name="crm-db").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("crm-db")

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(f"{server}/")
    assert urlsplit(page.url).path == "/sign-in/"
