"""Alerts that are no outage: on the Board until somebody takes them, and given back."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from controlplane.models import AlertCause, AlertChannel, AlertDelivery, AuditEntry, DocumentVersion
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage

PART = {"HX-Request": "true"}


def matter(cast, kind="heartbeat_failing", dependency=None, **given):
    """What people were told of a quarter of an hour ago."""
    at = NOON - timedelta(minutes=15)
    circuit = (dependency or cast.search_api).circuit
    values = {
        "environment": cast.prod,
        "circuit": circuit,
        "kind": kind,
        "began_at": at,
        "seen_at": NOON,
        "told_at": at,
    }
    return AlertCause.objects.create(**(values | given))


def board(client, **query):
    return client.get("/", {"environment": "prod", **query})


def kinds(answer):
    return [one.kind for one in answer.context["part"].matters]


def post(client, deed, *causes, **headers):
    said = {"token": str(uuid.uuid4()), "causes": ",".join(str(one.pk) for one in causes)}
    return client.post(reverse(f"dashboard:{deed}", args=["prod"]), said, headers=headers)


def test_an_alert_that_nobody_has_taken_stands_on_the_board_and_its_circuit_is_marked(cast, as_):
    matter(cast)

    page = board(as_(cast.otto)).content.decode()

    assert "1 alert waits for somebody" in page
    assert "All quiet" not in page
    assert "Heartbeat failing" in page
    assert 'class="cell closed warned"' in page
    assert "no calls · heartbeat failing" in page


def test_taken_it_leaves_the_board_its_circuit_stays_marked_and_the_alerts_page_says_who(cast, as_):
    one, client = matter(cast), as_(cast.otto)

    answer = post(client, "acknowledge-alerts", one, **PART)

    assert "1 alert acknowledged." in answer.content.decode()
    assert answer["HX-Trigger"] == "recloser:done"
    page = board(client)
    assert kinds(page) == []
    assert "All quiet" in page.content.decode()
    assert "heartbeat failing" in page.content.decode()
    assert "otto" in client.get("/alerts/", {"environment": "prod"}).content.decode()
    assert AuditEntry.objects.get(action="acknowledge_alert").target == "heartbeat_failing search-api"


def test_the_opposite_is_offered_and_gives_it_back(cast, as_):
    one, client = matter(cast), as_(cast.otto)
    offered = f"{reverse('dashboard:hand-back-alerts', args=['prod'])}?causes={one.pk}"
    assert f'hx-get="{offered}"' in post(client, "acknowledge-alerts", one, **PART).content.decode()
    assert f'name="causes" value="{one.pk}"' in client.get(offered).content.decode()

    post(client, "hand-back-alerts", one, **PART)

    assert kinds(board(client)) == ["heartbeat_failing"]
    assert AuditEntry.objects.filter(action="hand_back_alert", actor="otto").count() == 1


def test_without_javascript_the_opposite_is_a_link_on_the_next_page(cast, as_):
    one, client = matter(cast), as_(cast.otto)

    page = post(client, "acknowledge-alerts", one)
    page = client.get(page["Location"]).content.decode()

    assert (
        f'<a href="{reverse("dashboard:hand-back-alerts", args=["prod"])}?causes={one.pk}">Hand back instead</a>'
        in page
    )


def test_twice_is_once_and_the_first_name_stays(cast, as_):
    one = matter(cast)
    for person in (cast.otto, cast.otto, cast.ada):
        post(as_(person), "acknowledge-alerts", one, **PART)

    one.refresh_from_db()
    assert one.acknowledged_by == "otto"
    assert AuditEntry.objects.filter(action="acknowledge_alert", accepted=True).count() == 1


def test_only_what_was_seen_is_taken(cast, as_):
    seen, client = matter(cast), as_(cast.otto)
    later = matter(cast, dependency=cast.crm_db)

    post(client, "acknowledge-alerts", seen, **PART)

    [left] = board(client).context["part"].matters
    assert left.causes == [later]


def test_what_is_over_or_elsewhere_cannot_be_taken(cast, as_):
    over = matter(cast, ended_at=NOON)
    elsewhere = matter(cast, environment=cast.staging, circuit=cast.staging_search_api.circuit)
    client = as_(cast.otto)

    for one in (over, elsewhere):
        answer = post(client, "acknowledge-alerts", one, **PART)
        assert answer.status_code == 422
        assert "It is over" in answer.content.decode() or "it is over" in answer.content.decode()
    elsewhere.refresh_from_db()
    assert elsewhere.acknowledged_at is None


@pytest.mark.parametrize("causes", ["", "x", "1,", "1;2", "9" * 40, ",".join(["1"] * 300)])
def test_a_form_that_names_nothing_sensible_says_so(cast, as_, causes):
    said = {"token": str(uuid.uuid4()), "causes": causes}

    answer = as_(cast.otto).post(reverse("dashboard:acknowledge-alerts", args=["prod"]), said, headers=PART)

    assert answer.status_code == 422
    assert 'role="alert"' in answer.content.decode()


def test_a_viewer_sees_it_gets_no_button_and_is_refused(cast, as_):
    one, client = matter(cast), as_(cast.ann)

    page = board(client).content.decode()

    assert "Heartbeat failing" in page
    assert reverse("dashboard:acknowledge-alerts", args=["prod"]) not in page
    assert post(client, "acknowledge-alerts", one, **PART).status_code == 403
    one.refresh_from_db()
    assert one.acknowledged_at is None


def test_a_filter_shows_its_own_alerts_and_everybodys_and_counts_the_rest(cast, as_):
    matter(cast)
    matter(cast, kind="certificate", dependency=cast.crm_db)
    matter(cast, kind="scheduler_silent", circuit=None)
    cast.search_api.owner = "search team"
    cast.search_api.save()

    answer = board(as_(cast.ann), owner="search team")

    assert kinds(answer) == ["scheduler_silent", "heartbeat_failing"]
    assert answer.context["part"].outside == 1


def test_a_worker_fault_is_told_once_and_taken_on_its_own_card(cast, as_):
    row, worker = cast.search_api.circuit, cast.workers[0]
    row.fault_worker, row.fault_seen_at = worker, NOON
    row.save()
    one, client = matter(cast, kind="worker_fault", worker=worker), as_(cast.otto)

    answer = board(client)
    assert kinds(answer) == []
    assert [fault.alert for fault in answer.context["part"].faults] == [one]

    post(client, "acknowledge-alerts", one, **PART)
    assert "Taken by otto" in board(client).content.decode()


def test_messages_that_were_given_up_within_a_day_are_told_where_delivery_is(cast, as_):
    channel = AlertChannel.objects.create(
        environment=cast.prod, kind="email", name="x", target="x@example.com", created_at=NOON, created_by="ada"
    )
    for hours, status in ((1, "dead"), (2, "dead"), (40, "dead"), (1, "sent")):
        AlertDelivery.objects.create(
            channel=channel, event="opened", incident=str(uuid.uuid4()), body={}, status=status, due_at=NOON,
            created_at=NOON - timedelta(hours=hours),
        )  # fmt: skip

    assert "2 alert messages given up" in board(as_(cast.ann)).content.decode()


def test_a_fleet_is_quiet_since_its_last_alert_ended(cast, as_):
    matter(cast, ended_at=NOON + timedelta(minutes=3))

    assert board(as_(cast.ann)).context["board"].quiet_since == NOON + timedelta(minutes=3)


def test_every_open_page_is_told(cast, as_):
    one = matter(cast)
    before = DocumentVersion.objects.get(environment=cast.prod).circuits

    post(as_(cast.otto), "acknowledge-alerts", one, **PART)

    assert DocumentVersion.objects.get(environment=cast.prod).circuits > before


def test_many_alerts_of_a_kind_are_one_line_and_cost_no_more_queries(cast, as_, django_assert_num_queries):
    client = as_(cast.otto)
    for number in range(30):
        matter(cast, kind="quorum_short", dependency=factories.dependency(cast.prod, f"s{number}"))
    stage.observed(cast.workers[0], cast.tools["web_search"], NOON, ok=1)

    with django_assert_num_queries(22):
        page = board(client)

    assert kinds(page) == ["quorum_short"]
    assert "and 26 more" in page.content.decode()


def test_a_hostile_address_of_the_form_is_text(cast, as_):
    page = as_(cast.otto).get(reverse("dashboard:hand-back-alerts", args=["prod"]), {"causes": '"><script>x'}).content

    assert b"<script>x" not in page
    assert b"&lt;script&gt;x" in page
