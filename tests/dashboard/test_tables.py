"""Lists in another order, page by page; and the same lists as files that no spreadsheet takes for formulas."""

from __future__ import annotations

import asyncio
import csv
import io
from datetime import timedelta

import pytest
from django.test import AsyncClient
from django.urls import reverse

from controlplane.models import AlertChannel, AlertDelivery, Outage, Run, Tool
from controlplane.selectors import keyset
from controlplane.selectors import runs as runs_selector
from controlplane.selectors import tools as tools_selector
from controlplane.services import audit
from dashboard import tables
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage
from tests.dashboard.test_trips import trip

FORMULA = '=HYPERLINK("http://bad.example","click")'


def rows(answer):
    text = b"".join(answer.streaming_content).decode()
    return list(csv.DictReader(io.StringIO(text)))


def exported(client, name, **query):
    return client.get(reverse(f"dashboard:export-{name}"), {"environment": "prod", **query})


@pytest.fixture
def many(cast):
    """Nine runs: several with as many steps as others."""
    for number in range(9):
        stage.run(cast.research, NOON - timedelta(minutes=number), steps=number // 2, cost=number / 10)


def pages(client, address, name):
    """Every row of every page, in the order of the list."""
    found = []
    while address:
        answer = client.get(address)
        found += answer.context["found"].__getattribute__(name)
        address = answer.context["next"] and address.partition("?")[0] + answer.context["next"]
    return found


@pytest.mark.parametrize("order", ["steps", "-steps", "cost", "-cost", "started_at", "-started_at", "-tokens"])
def test_runs_are_listed_in_any_order_and_its_pages_miss_none(cast, many, as_, monkeypatch, order):
    monkeypatch.setattr(runs_selector.runs, "__kwdefaults__", runs_selector.runs.__kwdefaults__ | {"limit": 4})

    found = pages(as_(cast.ann), f"/runs/?environment=prod&show=all&order={order}", "runs")

    name = order.removeprefix("-")
    values = [getattr(run, name) for run in found]
    assert values == sorted(values, reverse=order.startswith("-"))
    assert {run.pk for run in found} == set(Run.objects.values_list("pk", flat=True))


@pytest.mark.parametrize("order", ["bad", "-", "pk", "agent__environment", "--steps"])
def test_no_other_column_is_an_order(cast, many, as_, order):
    answer = as_(cast.ann).get("/runs/", {"show": "all", "order": order})

    assert answer.context["by"] == keyset.Order("started_at")


@pytest.mark.parametrize("before", ["many", "1e999", "nan", "9" * 40, "2026-06-01T12:00:00", ""])
def test_a_damaged_place_begins_at_the_start(cast, many, as_, before):
    client = as_(cast.ann)
    for order in ("steps", "cost", "started_at"):
        query = {"show": "all", "order": order, "before": before, "id": "5f4dcc3b-5aa7-4d61-9832-7deb882cf990"}
        assert client.get("/runs/", query).status_code == 200


def test_the_head_of_a_column_says_how_it_is_ordered_and_turns_round(cast, many, as_):
    page = as_(cast.ann).get("/runs/?environment=prod&show=all&order=-steps").content.decode()

    assert 'aria-sort="descending"><a href="?environment=prod&amp;show=all&amp;order=steps">' in page


def test_trips_are_ordered_by_their_signal(cast, as_):
    for signal in ("timeout", "failure_rate", "oscillation"):
        trip(cast, signal=signal)

    found = as_(cast.ann).get("/trips/", {"order": "signal"}).context["found"].trips

    assert [one.signal for one in found] == ["failure_rate", "oscillation", "timeout"]


def test_the_audit_is_read_from_its_beginning(cast, as_):
    for number in range(3):
        audit.record(actor="otto", action=f"deed_{number}", target="x", accepted=True, environment_id=cast.prod.pk)

    found = as_(cast.ann).get("/settings/audit/", {"environment": "prod", "order": "id"}).context["found"].entries

    assert [one.action for one in found] == ["deed_0", "deed_1", "deed_2"]


def test_trips_as_a_file_have_the_filters_of_the_page(cast, as_):
    kept = trip(cast, run=stage.run(cast.research, NOON).pk, step=4)
    trip(cast, scope="worker", signal="failure_rate")
    trip(cast, environment=cast.staging, tool=None, dependency=None, worker=None)

    answer = exported(as_(cast.ann), "trips", scope="run")

    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert 'filename="trips-prod.csv"' in answer["Content-Disposition"]
    [row] = rows(answer)
    assert (row["id"], row["tool"], row["step"], row["agent"]) == (str(kept.pk), "web_search", "4", "research")
    assert row["at"] == NOON.isoformat()


def test_runs_as_a_file_are_whole_however_many_pages_they_take(cast, many, as_, monkeypatch):
    monkeypatch.setattr("dashboard.views.exports.ROWS", 2)

    found = rows(exported(as_(cast.ann), "runs", show="all", order="-steps"))

    assert len(found) == 9
    assert [int(row["steps"]) for row in found] == sorted((int(row["steps"]) for row in found), reverse=True)
    assert {row["cost"] for row in found} == {str(number / 10) for number in range(9)}


def test_outages_as_a_file_of_one_dependency_and_of_all(cast, as_):
    for dependency in (cast.search_api, cast.crm_db):
        row = dependency.circuit
        Outage.objects.create(circuit=row, started_at=NOON - timedelta(minutes=9), ended_at=NOON, cause="failure_rate")

    client = as_(cast.ann)
    assert {row["dependency"] for row in rows(exported(client, "outages"))} == {"search-api", "crm-db"}
    [row] = rows(exported(client, "outages", dependency="crm-db"))
    assert (row["seconds"], row["cause"]) == ("540.0", "failure_rate")
    assert rows(exported(client, "outages", environment="staging")) == []


def test_the_audit_as_a_file_shows_what_belongs_to_no_environment_to_admins_alone(cast, as_):
    audit.record(actor="ada", action="add_person", target="zoe", accepted=True)
    audit.record(actor="otto", action="note", target="search-api", accepted=True, environment_id=cast.prod.pk)

    assert [row["action"] for row in rows(exported(as_(cast.ann), "audit"))] == ["note"]
    assert [row["action"] for row in rows(exported(as_(cast.ada), "audit"))] == ["note", "add_person"]


@pytest.mark.parametrize("name", ["trips", "runs", "audit", "outages", "tools", "alerts", "workers", "keys"])
def test_who_is_not_signed_in_gets_no_file(cast, client, name):
    assert exported(client, name).status_code == 302


@pytest.mark.parametrize("name", ["trips", "runs", "audit", "outages", "tools", "alerts", "workers", "keys"])
def test_an_unknown_environment_is_an_error_and_no_empty_file(cast, as_, name):
    assert exported(as_(cast.ann), name, environment="nowhere").status_code == 404


@pytest.mark.parametrize("hostile", [FORMULA, "+1+1", "-1", "@SUM(A1)", "\t=1", "  =1", "＝1", '"\r\n=1'])
def test_no_text_of_an_agent_is_a_formula_and_none_breaks_its_cell(cast, as_, hostile):
    stage.run(cast.research, NOON, task_kind=hostile)

    [row] = rows(exported(as_(cast.ann), "runs", show="all"))

    assert row["task_kind"].lstrip("'") == hostile
    assert not row["task_kind"].lstrip(" ").startswith(tables.FORMULA)


def test_a_number_is_a_number_even_below_zero():
    assert tables._written([[-3, 0.5, True, None, "ok"]]) == b"-3,0.5,yes,,ok\r\n"


def test_a_hostile_name_stays_in_its_own_cell(cast, as_):
    made = factories.dependency(cast.prod, 'a","=1')
    Outage.objects.create(circuit=made.circuit, started_at=NOON, cause="failure_rate")

    [row] = rows(exported(as_(cast.ann), "outages"))

    assert row["dependency"] == 'a","=1'


@pytest.mark.django_db(transaction=True)
def test_a_server_that_awaits_gets_the_same_file():
    cast = factories.cast(NOON)
    for number in range(3):
        stage.run(cast.research, NOON - timedelta(minutes=number))
    client = AsyncClient()

    async def fetch():
        await client.aforce_login(cast.ann, backend="controlplane.permissions.RoleBackend")
        answer = await client.get("/runs.csv", {"environment": "prod", "show": "all"})
        return b"".join([part async for part in answer.streaming_content])

    assert asyncio.run(fetch()).count(b"\r\n") == 4


@pytest.fixture
def tools(cast):
    """Seven more tools, three of them confirmed, several of one owner."""
    for number in range(7):
        made = factories.tool(cast.crm_db, f"t{number}", at=NOON - timedelta(minutes=number))
        made.owner, made.class_confirmed = ("", "search team")[number % 2], number % 3 == 0
        made.save()


@pytest.mark.parametrize("order", ["", "name", "-name", "owner", "-owner", "side_effect", "-created_at", "-place"])
def test_tools_are_listed_in_any_order_and_its_pages_miss_none(cast, tools, as_, monkeypatch, order):
    selector = tools_selector.tools
    monkeypatch.setattr(selector, "__kwdefaults__", selector.__kwdefaults__ | {"limit": 3})
    client, seen, address = as_(cast.ann), [], f"/tools/?environment=prod&order={order}"
    while address:
        answer = client.get(address)
        seen += [row.tool for row in answer.context["found"].tools]
        address = answer.context["next"] and "/tools/" + answer.context["next"]

    name = order.removeprefix("-") or "place"
    values = [getattr(tool, name) for tool in seen]
    assert values == sorted(values, reverse=order.startswith("-"))
    assert sorted(tool.pk for tool in seen) == sorted(
        Tool.objects.filter(environment=cast.prod).values_list("pk", flat=True)
    )


@pytest.mark.parametrize(
    "query", [{"before": "a\x00", "id": "1"}, {"before": "x", "id": "9" * 40}, {"before": "x", "id": "²"}]
)
@pytest.mark.parametrize("address", ["/tools/", "/alerts/", "/trips/"])
def test_a_hostile_place_begins_at_the_start(cast, as_, address, query):
    order = {"/alerts/": "event", "/trips/": "signal"}.get(address, "name")
    assert as_(cast.ann).get(address, {"environment": "prod", "order": order, **query}).status_code == 200


def test_tools_as_a_file_say_what_their_policies_come_to(cast, tools, as_):
    found = rows(exported(as_(cast.ann), "tools", order="name"))

    assert [row["name"] for row in found] == sorted(
        Tool.objects.filter(environment=cast.prod).values_list("name", flat=True)
    )
    [refund] = [row for row in found if row["name"] == "refund"]
    assert (refund["side_effect"], refund["dependencies"], refund["without_it"]) == (
        "side_effect",
        "payments",
        "undecided",
    )
    assert refund["consecutive_failures"] == "2"


def test_alerts_are_ordered_and_exported_with_the_filter_of_the_page(cast, as_):
    channel = AlertChannel.objects.create(
        environment=cast.prod, kind="email", name=FORMULA, target="x@example.com", created_at=NOON, created_by="ada"
    )
    for number, status in enumerate(("sent", "dead", "sent", "pending")):
        AlertDelivery.objects.create(
            channel=channel, event="opened", incident=f"outage-{number}", body={"dependency": "search-api"},
            status=status, attempts=9 - number, due_at=NOON, created_at=NOON - timedelta(minutes=number),
        )  # fmt: skip
    client = as_(cast.ann)

    page = client.get("/alerts/", {"environment": "prod", "order": "attempts"}).context["found"].deliveries
    assert [row.attempts for row in page] == [6, 7, 8, 9]
    found = rows(exported(client, "alerts", status="sent", order="attempts"))
    assert [(row["attempts"], row["status"], row["dependency"]) for row in found] == [
        ("7", "sent", "search-api"), ("9", "sent", "search-api"),
    ]  # fmt: skip
    assert found[0]["channel"] == f"'{FORMULA}"


def test_workers_and_keys_as_files_name_no_secret(cast, as_):
    client = as_(cast.ann)

    assert {row["instance"] for row in rows(exported(client, "workers"))} == {"pod-1", "pod-2", "pod-3"}
    keys = rows(exported(client, "keys"))
    assert {row["agent"] for row in keys} == {"research", "support"}
    assert not {"digest", "secret", "token"} & set(keys[0])
    assert cast.research_key.digest not in str(keys)
