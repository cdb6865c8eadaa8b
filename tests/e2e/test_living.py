"""What happens to an open page while the world goes on: it never contradicts itself, and says when it cannot know."""

from __future__ import annotations

import re

import pytest
from django.contrib.sessions.models import Session as SignIn
from django.db import transaction
from playwright.sync_api import expect
from recloser.core.types import Cause, State

from controlplane import clock
from controlplane.models import AuditEntry, Circuit
from controlplane.services import transitions
from tests import factories
from tests.dashboard import stage

WATCH = """
() => {
  window.contradictions = [];
  window.moments = new Set();
  const look = () => {
    const count = (selector) => document.querySelectorAll(`#live ${selector}`).length;
    const told = Number(document.querySelector("#live h1").textContent.match(/^\\d+/)?.[0] ?? 0);
    const seen = [told, count(".need"), count(".fleet .cell.open")];
    window.moments.add(seen.join());
    if (new Set(seen).size > 1) window.contradictions.push(seen.join());
  };
  const all = { childList: true, subtree: true, characterData: true };
  new MutationObserver(look).observe(document.getElementById("main"), all);
  look();
}
"""


@pytest.fixture
def moved():
    """`moved(dependency, up=True)`: its circuit opens or closes while people look on."""

    def move(dependency, *, up: bool) -> None:
        now = clock.now()
        row = (
            stage.move(dependency, now, state=State.CLOSED, cause=Cause.PROBE_PASSED, opened_at=None, due_at=None,
                       tripped_by=None, closed_at=now.timestamp())
            if up else stage.opened(dependency, now, due_in_s=300)
        )  # fmt: skip
        with transaction.atomic():
            transitions.announce([row])

    return move


def is_live(page) -> None:
    expect(page.locator("#feed")).to_have_attribute("data-feed", "live", timeout=15_000)


def enter_again(page, name="otto") -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(factories.PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_no_part_of_the_board_contradicts_another_while_circuits_come_and_go(server, cast, moved, page, sign_in):
    sign_in("otto", path="/?environment=prod")
    is_live(page)
    page.evaluate(WATCH)
    for up in (False, True, False, True, False):
        for dependency in (cast.search_api, cast.crm_db, cast.payments):
            moved(dependency, up=up)

    expect(page.get_by_role("heading", name="3 circuits need you")).to_be_visible(timeout=15_000)
    expect(page.locator(".need")).to_have_count(3)
    expect(page).to_have_title(re.compile(r"^\(3\) Board"))
    assert page.evaluate("contradictions") == []
    assert page.evaluate("moments.size") > 1


@pytest.mark.case("D01")
def test_a_session_that_ends_under_a_page_leads_to_sign_in_and_back(server, cast, moved, page, sign_in):
    """Nobody clicks: the next refresh finds out."""
    sign_in("otto", path="/?environment=prod&state=open")
    is_live(page)
    SignIn.objects.all().delete()

    moved(cast.search_api, up=False)

    page.wait_for_url(re.compile(r"/sign-in/\?next=%2F%3Fenvironment%3Dprod%26state%3Dopen$"))
    enter_again(page)
    page.wait_for_url(f"{server}/?environment=prod&state=open")
    expect(page.get_by_role("heading", name="1 circuit needs you")).to_be_visible()


@pytest.mark.case("D01")
def test_a_deed_after_the_session_has_ended_changes_nothing_and_leads_back(server, cast, moved, page, sign_in):
    moved(cast.search_api, up=False)
    sign_in("otto", path="/circuits/prod/search-api/")
    page.get_by_role("link", name="Force close").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Reason").fill("the vendor says that it is back")
    SignIn.objects.all().delete()

    sheet.get_by_role("button", name="Close it now").click()

    page.wait_for_url(re.compile(r"/sign-in/\?next=%2Fcircuits%2Fprod%2Fsearch-api%2F$"))
    assert Circuit.objects.get(dependency=cast.search_api).state == "open"
    assert not AuditEntry.objects.filter(action="force_close").exists()
    enter_again(page)
    page.wait_for_url(f"{server}/circuits/prod/search-api/")


@pytest.mark.case("D04")
def test_a_page_older_than_the_server_is_told_by_its_next_refresh_and_reads_on(server, cast, moved, page, sign_in):
    """Its HTML is of another build from the beginning, as after a deployment."""
    older = re.compile(r'data-build="\w+"')

    def of_another_build(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=older.sub('data-build="build-118"', answer.text()))

    page.route("**/?environment=prod", lambda route: of_another_build(route), times=1)
    sign_in("otto", path="/?environment=prod")
    is_live(page)

    moved(cast.search_api, up=False)

    notice = page.get_by_role("alert").filter(has_text="Recloser was updated")
    expect(notice).to_be_visible()
    expect(page.get_by_role("heading", name="1 circuit needs you")).to_be_visible()
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#notes")).to_contain_text("This page is older than the server")
    assert Circuit.objects.get(dependency=cast.search_api).acknowledged_at is None

    notice.get_by_role("link", name="load it anew").click()
    expect(notice).to_be_hidden()
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_text("Taken by")).to_be_visible()


def test_a_page_that_lost_its_feed_says_since_when_and_lives_again(server, cast, moved, page, sign_in):
    page.clock.install()
    sign_in("otto", path="/?environment=prod")
    is_live(page)
    page.context.set_offline(True)
    page.clock.run_for(60_000)
    expect(page.locator("#feed")).to_contain_text("Stale since")
    expect(page.get_by_role("alert")).to_contain_text("lost its feed")
    moved(cast.search_api, up=False)
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/live?" in request.url else None)

    page.context.set_offline(False)
    for _ in range(120):
        if not asked:
            page.clock.run_for(1000)

    is_live(page)
    expect(page.get_by_role("heading", name="1 circuit needs you")).to_be_visible()
    expect(page.locator("#stale")).to_be_hidden()
