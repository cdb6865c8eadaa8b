"""What vendors say of themselves: read safely and calmly, shown beside a circuit, and never evidence."""

import json
from datetime import timedelta

import pytest

from controlplane.models import AuditEntry, Circuit, Outage, Transition, VendorStatus
from controlplane.services import alert_body, vendor_status
from controlplane.services.errors import Refused
from tests.factories import NOON
from tests.workers.stage import staged
from tests.workers.vendor import endless, hang, reply
from workers.scheduler import Scheduler
from workers.tasks import vendor_status as tasks
from workers.tasks.vendor_status import run_statuses

pytestmark = pytest.mark.django_db

SUMMARY = {
    "page": {"url": "https://status.example.com", "updated_at": "2026-06-01T11:58:00Z"},
    "status": {"indicator": "major", "description": "Partial System Outage"},
    "components": [{"name": "Search API", "status": "degraded_performance", "updated_at": "2026-06-01T11:57:00Z"}],
    "incidents": [{"name": "Slow answers", "shortlink": "https://stspg.io/x"}],
}
RSS = """<?xml version="1.0"?><rss version="2.0"><channel><title>Vendor</title>
<item><title>Old news</title><pubDate>Mon, 01 Jun 2026 10:00:00 GMT</pubDate></item>
<item><title>Search &lt;b&gt;down&lt;/b&gt;</title><link>https://status.example.com/2</link>
<pubDate>Mon, 01 Jun 2026 11:00:00 GMT</pubDate></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>Vendor</title><entry><title>Investigating</title>
<link href="https://status.example.com/3"/><updated>2026-06-01T11:30:00Z</updated></entry></feed>"""
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    "<rss><channel><item><title>&b;</title></item></channel></rss>"
)
DECLARES, NEITHER = "it declares a document type, which no feed needs", "it is neither Statuspage JSON nor a feed"
FILE = '<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss><channel><item><title>&x;</title></item></channel></rss>'


@pytest.fixture
def stage(frozen_clock):
    return staged()


@pytest.fixture
def read(stage, vendor):
    """`read(answer)`: the row after one reading of a page that answers so."""

    def once(answer, component=""):
        vendor.routes["/status"] = answer
        row = vendor_status.set_status(
            dependency=stage.search, address=f"{vendor.url}/status", component=component, actor="ada", now=NOON
        )
        run_statuses([row.pk])
        row.refresh_from_db()
        return row

    return once


def test_a_statuspage_is_read_as_a_whole(read):
    row = read(reply(200, json.dumps(SUMMARY)))

    assert (row.level, row.said) == ("outage", "Partial System Outage (Slow answers)")
    assert (row.link, row.said_at.isoformat()) == ("https://stspg.io/x", "2026-06-01T11:58:00+00:00")
    assert (row.problem, row.failing_since) == ("", None)
    assert row.read_at is not None


def test_one_component_of_it_is_found_by_name(read):
    row = read(reply(200, json.dumps(SUMMARY)), component="search api")

    assert (row.level, row.said) == ("degraded", "Search API: degraded performance (Slow answers)")


def test_a_component_that_is_not_there_is_told(read):
    assert read(reply(200, json.dumps(SUMMARY)), component="Mail").problem == "it names no such component"


@pytest.mark.parametrize(
    ("feed", "said", "link"),
    [(RSS, "Search down", "https://status.example.com/2"), (ATOM, "Investigating", "https://status.example.com/3")],
)
def test_the_newest_entry_of_a_feed_is_told(read, feed, said, link):
    row = read(reply(200, feed))

    assert (row.level, row.said, row.link) == ("unrated", said, link)
    assert row.said_at.hour == 11


@pytest.mark.parametrize("body", [BOMB, FILE, BOMB.encode("utf-16")])
def test_a_feed_that_declares_entities_is_refused(read, body):
    row = read(reply(200, body))

    assert row.problem in (
        "it declares a document type, which no feed needs",
        "it is neither Statuspage JSON nor a feed",
    )
    assert row.said == ""


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (reply(200, "[" * 100_000), "it is neither Statuspage JSON nor a feed"),
        (reply(200, '{"a":' * 100_000), "it is no valid JSON"),
        (reply(200, "{}"), "it has no `status`: use the address that ends in /api/v2/summary.json"),
        (reply(200, "<html><body>hi</body></html>"), "it is XML, but no RSS or Atom feed"),
        (reply(200, "<a>" * 1000), "it is nested too deep, or too long"),
        (reply(200, "<rss>"), "it is no valid XML"),
        (reply(200, "x", Content_Encoding="gzip"), "it is packed, although none was asked for"),
        (reply(503, "gone"), "it answered 503"),
        (endless, "it is over 1 MiB"),
        (reply(302, "", Location="http://169.254.169.254/latest"), "this is not an address that Recloser may reach"),
        (reply(302, "", Location="/status"), "it could not be reached, or broke off"),
        (reply(302, "", Location="file:///etc/passwd"), "it could not be reached, or broke off"),
    ],
)
def test_what_cannot_be_read_says_why_and_since_when(read, answer, problem):
    row = read(answer)

    assert (row.problem, row.said, row.read_at) == (problem, "", None)
    assert row.failing_since is not None


def test_a_page_that_hangs_is_given_up(read, monkeypatch):
    monkeypatch.setattr(tasks, "TIME_LIMIT_S", 0.2)

    assert read(hang).problem == "it did not answer within 0.2 s"


def test_hostile_words_are_cut_to_one_plain_line_and_links_to_web_addresses(read):
    hostile = {"name": "<script>alert(1)</script>\x00\u202e" + "x" * 9000, "shortlink": "javascript:alert(1)"}
    row = read(reply(200, json.dumps(SUMMARY | {"incidents": [hostile]})))

    assert len(row.said) == 300
    assert "<script>" not in row.said
    assert row.said.isprintable()
    assert row.link == "https://status.example.com"


def test_a_page_that_has_not_changed_is_not_sent_again(read, vendor):
    row = read(reply(200, json.dumps(SUMMARY), ETag='"v1"', Last_Modified="Mon, 01 Jun 2026 11:58:00 GMT"))
    vendor.routes["/status"] = reply(304)
    run_statuses([row.pk])

    asked = vendor.seen[-1].headers
    named = {name.casefold(): value for name, value in asked.items()}
    assert (named["if-none-match"], named["if-modified-since"]) == ('"v1"', "Mon, 01 Jun 2026 11:58:00 GMT")
    row.refresh_from_db()
    assert (row.problem, row.level) == ("", "outage")


def test_the_last_words_stay_while_a_page_cannot_be_read(read, vendor):
    row = read(reply(200, json.dumps(SUMMARY)))
    vendor.routes["/status"] = reply(500)
    run_statuses([row.pk])
    row.refresh_from_db()

    assert (row.level, row.problem) == ("outage", "it answered 500")


def test_pages_are_read_every_minute_while_out_and_every_quarter_of_an_hour_else(stage, read):
    row = read(reply(200, json.dumps(SUMMARY)))
    calm = row.due_at - row.read_at
    Circuit.objects.filter(dependency=stage.search).update(state="open")
    VendorStatus.objects.update(tried_at=NOON)

    assert timedelta(minutes=13) < calm < timedelta(minutes=17)
    assert vendor_status.claim_due(now=NOON + timedelta(seconds=30)) == []
    assert vendor_status.claim_due(now=NOON + timedelta(seconds=70)) == [row.pk]
    assert vendor_status.claim_due(now=NOON + timedelta(seconds=71)) == []
    run_statuses([row.pk])
    row.refresh_from_db()
    assert timedelta(seconds=50) < row.due_at - row.read_at < timedelta(seconds=70)


def test_the_scheduler_hands_due_pages_on(stage, read, monkeypatch):
    row = read(reply(200, json.dumps(SUMMARY)))
    VendorStatus.objects.update(due_at=NOON - timedelta(seconds=1))
    given = []
    scheduler = Scheduler()
    monkeypatch.setattr(scheduler.handoff, "give", lambda task, items, expires_s: given.append((task.name, items)))

    scheduler._statuses(NOON)

    assert given == [(run_statuses.name, [row.pk])]


def test_it_is_context_and_never_evidence(stage, read):
    before = Circuit.objects.filter(dependency=stage.search).values().get()
    read(reply(200, json.dumps(SUMMARY | {"status": {"indicator": "critical", "description": "All down"}})))

    assert Circuit.objects.filter(dependency=stage.search).values().get() == before
    assert not Transition.objects.exists()


@pytest.mark.parametrize(
    "address",
    ["", "status.example.com", "ftp://status.example.com", "http://u:p@status.example.com", "http://[", "http://a b/c"],
)
def test_an_address_that_is_none_is_refused(stage, address):
    with pytest.raises(Refused) as refused:
        vendor_status.set_status(dependency=stage.search, address=address, actor="ada", now=NOON)

    assert refused.value.field == "status_address"


def test_a_private_address_is_refused_in_the_usual_words(stage):
    with pytest.raises(Refused, match="not an address that Recloser may reach"):
        vendor_status.set_status(dependency=stage.search, address="http://10.1.2.3/x", actor="ada", now=NOON)


def test_another_page_begins_unread_and_is_on_record(stage, read, vendor):
    read(reply(200, json.dumps(SUMMARY)))
    row = vendor_status.set_status(dependency=stage.search, address=f"{vendor.url}/ok", actor="ada", now=NOON)

    assert (row.level, row.etag, row.read_at) == ("", "", None)
    vendor_status.remove_status(dependency=stage.search, actor="ada")
    told = AuditEntry.objects.filter(action__contains="vendor_status").order_by("id").values_list("action", flat=True)
    assert list(told) == ["set_vendor_status", "set_vendor_status", "remove_vendor_status"]


def test_an_alert_says_it_as_context(stage, read):
    read(reply(200, json.dumps(SUMMARY)))
    outage = Outage.objects.create(circuit=stage.circuit, started_at=NOON, cause="failure_rate")
    body = alert_body.compose(event="opened", circuit=stage.circuit, outage=outage, transition=None, now=NOON)

    assert body["vendor_status"]["level"] == "outage"
    assert body["vendor_status"]["read_at"] is not None
    assert 'Vendor\'s status page (context only): outage, "Partial System Outage (Slow answers)"' in body["text"]


def test_without_a_page_an_alert_says_nothing_of_it(stage):
    outage = Outage.objects.create(circuit=stage.circuit, started_at=NOON, cause="failure_rate")
    body = alert_body.compose(event="opened", circuit=stage.circuit, outage=outage, transition=None, now=NOON)

    assert body["vendor_status"] is None
    assert "endor" not in body["text"]
