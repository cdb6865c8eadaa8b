"""What people do in the pages, in a real browser, against a real server."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import transaction
from playwright.sync_api import expect

from controlplane import clock
from controlplane.models import AllowedNetwork, AuditEntry, Circuit, Environment, PolicyRevision, Transition
from controlplane.services import circuits, probes, transitions
from tests import factories
from tests.dashboard import stage
from tests.e2e import places, story


@pytest.fixture
def trip(cast):
    """`trip()` opens search-api while people look on."""

    def open_it() -> None:
        row = stage.opened(cast.search_api, clock.now(), failures=17, calls=23, due_in_s=30)
        with transaction.atomic():
            transitions.announce([row])

    return open_it


def test_signing_in_by_the_form_leads_to_where_one_wanted_to_go(server, cast, page):
    page.goto(f"{server}/runs/?environment=prod")
    page.get_by_label("Name").fill("otto")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("do not match")

    page.get_by_label("Password").fill(factories.PASSWORD)
    page.get_by_role("button", name="Sign in").click()

    page.wait_for_url(f"{server}/runs/?environment=prod")
    expect(page.get_by_text("otto · On-call")).to_be_visible()


def state(cast) -> tuple[str, str]:
    row = Circuit.objects.get(dependency=cast.search_api)
    return row.state, row.mode


def test_a_trip_arrives_live_and_the_countdown_runs(server, cast, trip, page, sign_in):
    sign_in("otto")
    expect(page.get_by_role("heading", name="All quiet")).to_be_visible()
    expect(page.locator("#feed")).to_have_attribute("data-feed", "live")
    stage.probe(cast.search_api, clock.now())

    trip()

    expect(page.get_by_role("heading", name="1 circuit needs you")).to_be_visible(timeout=3000)
    need = page.get_by_role("article").filter(has_text="search-api")
    expect(need).to_contain_text("17 of 23 calls failed in 60 s, from 3 workers")
    expect(need.locator(".badge.open")).to_have_text("Open")
    first = need.locator(".countdown").inner_text()
    expect(need.locator(".countdown")).not_to_have_text(first)
    expect(need.locator(".countdown")).to_have_text(re.compile(r"in \d+ s"))


def test_force_close_with_a_reason(server, cast, trip, page, sign_in):
    trip()
    sign_in("otto")
    page.get_by_role("link", name="Force close").click()
    sheet = page.get_by_role("dialog")
    expect(sheet).to_contain_text("The counters start anew")

    sheet.get_by_role("button", name="Close it now").click()
    expect(sheet).to_contain_text("Say why")
    assert state(cast) == ("open", "auto")

    sheet.get_by_label("Reason").fill("the vendor says that it is back")
    sheet.get_by_role("button", name="Close it now").click()

    expect(sheet).to_be_hidden()
    expect(page.get_by_role("status").filter(has_text="search-api is closed")).to_be_visible()
    expect(page.get_by_role("heading", name="All quiet")).to_be_visible()
    assert state(cast) == ("closed", "auto")


def test_hold_open_until(server, cast, page, sign_in):
    sign_in("otto", path="/circuits/prod/search-api/")
    page.get_by_role("link", name="Hold open").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("For how long").select_option("240")
    sheet.get_by_label("Reason").fill("failover drill, change 4711")
    sheet.get_by_role("button", name="Hold it open").click()

    expect(sheet).to_be_hidden()
    expect(page.get_by_text("Held open by otto until")).to_be_visible()
    expect(page.locator(".plate")).to_contain_text("failover drill, change 4711")
    expect(page.locator(".plate .countdown").first).to_contain_text("h")
    row = Circuit.objects.get(dependency=cast.search_api)
    assert timedelta(hours=3, minutes=59) < row.mode_expires_at - clock.now() <= timedelta(hours=4)


def test_probe_now(server, cast, trip, page, sign_in):
    stage.probe(cast.search_api, clock.now())
    trip()
    sign_in("otto", path="/circuits/prod/search-api/")

    page.get_by_role("button", name="Probe now").click()

    expect(page.get_by_role("status").filter(has_text="is due for its test at once")).to_be_visible()
    row = Circuit.objects.get(dependency=cast.search_api)
    assert row.due_at <= clock.now()
    assert row.probe_requested_by == "otto"


@pytest.mark.case("D03")
def test_a_double_click_is_one_deed(server, cast, trip, page, sign_in):
    trip()
    sign_in("otto", path="/circuits/prod/search-api/")
    page.get_by_role("link", name="Force close").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Reason").fill("the vendor says that it is back")

    before = Transition.objects.count()
    sheet.get_by_role("button", name="Close it now").dblclick(delay=10)

    expect(sheet).to_be_hidden()
    assert Transition.objects.count() == before + 1
    assert AuditEntry.objects.filter(environment_id=cast.prod.pk, action="force_close", accepted=True).count() == 1


@pytest.mark.case("D04")
def test_a_page_older_than_the_server_reads_on_and_changes_nothing(server, cast, trip, page, sign_in):
    trip()
    sign_in("otto", path="/circuits/prod/search-api/")
    page.evaluate("document.documentElement.dataset.build = 'build-118'")
    page.get_by_role("link", name="Force close").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Reason").fill("the vendor says that it is back")
    sheet.get_by_role("button", name="Close it now").click()

    expect(page.locator("#notes")).to_contain_text("This page is older than the server")
    assert state(cast) == ("open", "auto")
    sheet.get_by_role("link", name="Cancel").click()
    notice = page.get_by_role("alert").filter(has_text="Recloser was updated")
    expect(notice).to_be_visible()

    notice.get_by_role("link").click()

    expect(notice).to_be_hidden()
    assert page.evaluate("document.documentElement.dataset.build") != "build-118"


def test_a_run_arrives_in_the_list_without_reload(server, cast, page, sign_in):
    sign_in("ann", path="/runs/?environment=prod&show=all")
    expect(page.get_by_text("No run has been reported.")).to_be_visible()

    stage.run(cast.research, clock.now(), task_kind="market brief", status="running", ended_at=None)

    expect(page.get_by_role("link", name="research · market brief")).to_be_visible(timeout=8000)


def test_from_an_undisclosed_run_to_why_and_to_the_false_trip(server, cast, page, sign_in):
    story.bad_night(cast, clock.now())
    sign_in("otto", path="/runs/?environment=prod")
    page.get_by_role("link", name="Undisclosed").click()
    page.get_by_role("link", name="research · market brief").click()
    expect(page.get_by_role("link", name="1 subagent went without a tool")).to_be_visible()
    expect(page.locator("#step-4 .twin-mark")).to_have_text("B×3")

    page.locator("#step-5").get_by_role("link", name="Why?").click()
    expect(page.get_by_text("This run's own breaker took it away: 3 failures in a row")).to_be_visible()
    page.get_by_role("link", name="The trip with all its evidence").click()
    page.get_by_role("link", name="Mark as a false trip").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Reason").fill("a load test of ours")
    sheet.get_by_role("button", name="Mark it").click()

    expect(page.get_by_text("marked as false by otto")).to_be_visible()


def test_a_policy_is_edited_and_its_figures_follow_the_typing(server, cast, page, sign_in):
    Environment.objects.filter(pk=cast.prod.pk).update(protected=False)
    sign_in("petra", path="/tools/prod/web_search/")
    page.get_by_role("link", name="Edit the policy").click()
    expect(page.locator("[data-proof=share]")).to_have_text(re.compile(r"25.%"))

    page.get_by_label("Consecutive failures", exact=True).fill("2")
    expect(page.locator("[data-proof=share]")).to_have_text("10 %")
    page.get_by_label("Model text").fill("Answer from the documents at hand.")
    page.get_by_role("button", name="Preview the words").click()
    expect(page.locator("#previewed")).to_contain_text("Answer from the documents at hand.")

    page.get_by_label("Why it changes").fill("decided with the search team")
    page.get_by_role("button", name="Publish").click()

    expect(page.get_by_role("status").filter(has_text="is published")).to_be_visible()
    assert PolicyRevision.objects.get().values["consecutive_failures"] == 2


def test_words_for_a_model_wait_for_a_second_person_who_approves_on_a_phone(server, cast, page, sign_in, opened):
    factories.person("zoe", cast.petra.role)
    sign_in("petra", path="/tools/prod/web_search/policy/")
    expect(page.get_by_text("Values marked “second person”")).to_be_visible()
    page.get_by_label("Model text").fill("Answer from the documents at hand.")
    page.get_by_label("Why it changes").fill("decided with the search team")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("alert")).to_contain_text("It needs a second person, so nothing is published yet")
    expect(page.get_by_role("alert")).to_contain_text("prod is protected")
    page.get_by_role("button", name="Send for review").click()
    expect(page.get_by_role("status").filter(has_text="waits for a second person")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)

    phone = opened(viewport={"width": 360, "height": 780}, has_touch=True)
    other = sign_in("zoe", on=phone.new_page(), path="/?environment=prod")
    other.get_by_role("link", name="Reviews 1 waiting").tap()
    other.get_by_role("link", name="web_search").tap()
    expect(other.locator(".diff ins")).to_contain_text("Answer from the documents at hand.")
    assert other.evaluate("document.documentElement.scrollWidth <= innerWidth")
    other.get_by_role("button", name="Approve").tap()

    expect(other.get_by_text("zoe approved it")).to_be_visible()
    row = PolicyRevision.objects.get()
    assert (row.status, row.created_by, row.approved_by) == ("published", "petra", "zoe")


def test_a_change_is_rejected_with_a_reason_and_nothing_happens(server, cast, page, sign_in):
    row = places.proposed(cast)
    sign_in("ada", path=f"/reviews/prod/{row.pk}/")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_text("The reason is missing")).to_be_visible()

    page.get_by_label("A word to the record").fill("four refunds in a row are too many")
    page.get_by_role("button", name="Reject").click()

    expect(page.get_by_text("ada rejected it")).to_be_visible()
    row.refresh_from_db()
    assert row.status == "rejected"


def test_a_probe_is_tried_out_from_the_editor(server, cast, page, sign_in):
    AllowedNetwork.objects.create(network="10.1.0.0/16", reason="vpc", created_at=clock.now(), created_by="ada")
    sign_in("otto", path="/circuits/prod/search-api/probe/")
    page.get_by_role("textbox", name="Address").fill("http://192.168.0.9/health")
    page.get_by_role("button", name="Test now").click()
    expect(page.locator("#probe-form .error")).to_contain_text("not an address that Recloser may reach")

    page.get_by_role("textbox", name="Address").fill("http://10.1.0.9/health")
    page.get_by_role("button", name="Test now").click()
    sheet = page.get_by_role("dialog")
    expect(sheet).to_contain_text("Trying it out")
    [test_id] = probes.claim_tests(now=clock.now(), limit=5)
    answered = {"status": 503, "took_ms": 84.0, "cause": "status",
                "conditions": [{"name": "status", "expected": "200-299", "seen": "503", "held": False}]}  # fmt: skip
    probes.finish_test(test_id=test_id, result={"answered": answered, "verdict": "bad"}, now=clock.now())

    expect(sheet).to_contain_text("The probe failed")
    expect(sheet.get_by_role("row").filter(has_text="status")).to_contain_text("fails")


def test_a_first_agent_is_waited_for(server, cast, page, sign_in):
    sign_in("ada", path="/settings/?environment=prod")
    page.get_by_role("link", name="Add an agent").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Short name").fill("billing")
    sheet.get_by_label("Name", exact=True).fill("Billing")
    sheet.get_by_role("button", name="Add").click()
    expect(sheet).to_contain_text("Waiting for the first report of billing")
    token = re.search(r"RECLOSER_KEY=(\S+)", sheet.inner_text())[1]

    factories.worker(factories.key_of(token), "pod-7", at=clock.now())

    expect(sheet).to_contain_text("billing reports, first", timeout=8000)


def test_a_refresh_takes_nothing_from_who_is_writing(server, cast, trip, page, sign_in):
    trip()
    sign_in("otto")
    page.get_by_role("link", name="Hold open").click()
    sheet = page.get_by_role("dialog")
    sheet.get_by_label("Reason").fill("half a sent")
    now = clock.now()

    circuits.hold_closed(
        dependency_id=cast.crm_db.pk, actor="ada", reason="drill", now=now, until=now + timedelta(hours=1)
    )

    expect(page.locator("article", has_text="crm-db")).to_contain_text("Held closed by ada", timeout=3000)
    expect(sheet.get_by_label("Reason")).to_have_value("half a sent")
    expect(sheet.get_by_label("Reason")).to_be_focused()


def test_on_a_phone_everything_is_within_reach(server, cast, trip, opened, sign_in):
    trip()
    context = opened(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = sign_in("otto", on=context.new_page())

    acknowledge = page.get_by_role("button", name="Acknowledge")
    box = acknowledge.bounding_box()
    assert box["y"] + box["height"] <= 740, "the first deed is not on the first screen"
    assert box["height"] >= 44
    assert page.evaluate("document.documentElement.scrollWidth") <= 360

    acknowledge.tap()
    expect(page.get_by_text("Taken by")).to_be_visible()


def is_stream(request) -> bool:
    return "/live?" in request.url


@pytest.mark.case("D02")
def test_two_tabs_share_one_stream(server, cast, trip, page, sign_in):
    sign_in("otto")
    expect(page.locator("#feed")).to_have_attribute("data-feed", "live")
    other, streams = page.context.new_page(), []
    other.on("request", lambda request: streams.append(request.url) if is_stream(request) else None)
    other.goto(f"{server}/?environment=prod")
    expect(other.locator("#feed")).to_have_attribute("data-feed", "live", timeout=15_000)

    trip()

    expect(other.get_by_role("heading", name="1 circuit needs you")).to_be_visible(timeout=3000)
    assert streams == []


@pytest.mark.case("D02")
def test_eight_tabs_all_work_over_six_connections(server, cast, trip, page, sign_in):
    """D02: HTTP/1.1 gives a host six connections; one stream serves all the tabs of a browser."""
    sign_in("otto")
    expect(page.locator("#feed")).to_have_attribute("data-feed", "live")
    tabs, streams = [page], []
    for _ in range(7):
        tab = page.context.new_page()
        tab.on("request", lambda request: streams.append(request.url) if is_stream(request) else None)
        tab.goto(f"{server}/?environment=prod", timeout=10_000)
        tabs.append(tab)
    for tab in tabs:
        expect(tab.locator("#feed")).to_have_attribute("data-feed", "live", timeout=15_000)

    trip()

    for tab in tabs:
        expect(tab.get_by_role("heading", name="1 circuit needs you")).to_be_visible(timeout=10_000)
    assert streams == [], "another tab than the first holds a stream"


HIDE = """() => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.mark.case("D02")
def test_a_hidden_tab_hands_the_stream_on(server, cast, page, sign_in):
    sign_in("otto")
    expect(page.locator("#feed")).to_have_attribute("data-feed", "live", timeout=15_000)
    other = page.context.new_page()
    other.goto(f"{server}/?environment=prod")

    with other.expect_request(is_stream, timeout=15_000):
        page.evaluate(HIDE)
    expect(other.locator("#feed")).to_have_attribute("data-feed", "live", timeout=15_000)


@pytest.mark.case("D02")
def test_a_hidden_tab_hands_the_stream_on_while_it_waits_to_ask_again(server, cast, page, sign_in):
    """Its stream has failed and its clock stands still: the wait would never end by itself."""
    page.clock.install()
    page.route("**/live?*", lambda route: route.abort())
    with page.expect_event("requestfailed", is_stream):
        sign_in("otto")
    page.clock.pause_at(clock.now() + timedelta(minutes=1))
    other = page.context.new_page()
    other.goto(f"{server}/?environment=prod")

    with other.expect_request(is_stream, timeout=15_000):
        page.evaluate(HIDE)


@pytest.mark.case("D02")
def test_a_hidden_tab_alone_holds_no_connection(server, cast, page, sign_in):
    sign_in("otto")
    expect(page.locator("#feed")).to_have_attribute("data-feed", "live", timeout=15_000)

    with page.expect_event("requestfailed", is_stream, timeout=15_000) as ended:
        page.evaluate(HIDE)

    assert "ABORTED" in ended.value.failure
