"""Every list and every thing: what it shows, how it is filtered, that nothing leaks, and what it costs."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane import clock
from controlplane.models import (
    AlertChannel,
    AlertDelivery,
    Outage,
    ProbeTest,
    StepLog,
    Tool,
    ToolHints,
    Transition,
    Trip,
)
from controlplane.services import policies
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage


@pytest.fixture
def lived_in(cast):
    """Something of everything, in both environments."""
    for dependency, agent, worker in (
        (cast.search_api, cast.research, cast.workers[0]),
        (cast.staging_search_api, cast.staging_research, factories.worker(cast.staging_key, "pod-9")),
    ):
        row = stage.opened(dependency, NOON - timedelta(minutes=1))
        stage.probed(row, NOON)
        stage.probe(dependency, NOON)
        stage.degraded(agent, NOON - timedelta(seconds=50), worker=worker)
        factories.session(worker)
        channel = AlertChannel.objects.create(
            environment=dependency.environment, kind="email", name="people", target="a@example.com", created_at=NOON,
            created_by="ada",
        )  # fmt: skip
        AlertDelivery.objects.create(
            channel=channel, transition=row.transitions.first(), event="opened", incident="outage-1", body={},
            due_at=NOON, created_at=NOON, status="sent",
        )  # fmt: skip
        ProbeTest.objects.create(id=uuid.uuid4(), dependency=dependency, spec={}, asked_by="ada", asked_at=NOON)
        policies.publish(
            environment=dependency.environment, level="dependency", dependency=dependency, values={"min_calls": 7},
            reason="busy", actor="petra", now=NOON,
        )  # fmt: skip
    return cast


LISTS = {
    "list_agents": 2, "list_keys": 2, "list_workers": 3, "list_sessions": 4, "list_dependencies": 3, "list_tools": 4,
    "list_circuits": 3, "list_revisions": 1, "list_trips": 1, "list_transitions": 1, "list_outages": 1,
    "list_probe_rounds": 1, "list_runs": 1, "list_channels": 1, "list_deliveries": 1,
    "list_environment_audit_entries": 1,
}  # fmt: skip
"""Of prod, how many rows each holds once it is lived in."""


@pytest.mark.parametrize(("name", "rows"), LISTS.items())
def test_a_list_holds_its_environment_s_rows_only(lived_in, as_, name, rows):
    api = as_(lived_in.ann)

    answer = getattr(api, name)(environment="prod")

    assert answer.status == 200, answer.data
    assert len(answer.data["results"]) == rows
    assert answer.data["next"] is None
    assert answer.headers["Cache-Control"] == "no-store, private"


QUERIES = {
    "list_agents": 4, "list_keys": 4, "list_workers": 4, "list_sessions": 4, "list_dependencies": 5, "list_tools": 6,
    "list_circuits": 6, "list_revisions": 4, "list_trips": 4, "list_transitions": 4, "list_outages": 4,
    "list_probe_rounds": 5, "list_runs": 4, "list_channels": 4, "list_deliveries": 4,
    "list_environment_audit_entries": 4,
}  # fmt: skip
"""Token, its use noted, environment, rows, and what hangs on the rows; the clock is frozen and asks nothing."""


@pytest.mark.parametrize(("name", "most"), QUERIES.items())
def test_a_list_costs_the_same_however_long(lived_in, as_, name, most):
    api = as_(lived_in.ann)
    for number in range(12):
        dependency = factories.dependency(lived_in.prod, f"more-{number}")
        factories.tool(dependency, f"more_{number}")
        factories.key(lived_in.research, f"rcl_more{number}_" + "m" * 43)
        stage.opened(dependency, NOON)
        stage.degraded(lived_in.research, NOON)

    with CaptureQueriesContext(connection) as asked:
        answer = getattr(api, name)(environment="prod")

    assert answer.status == 200
    assert len(asked) == most, "\n".join(each["sql"][:150] for each in asked)


def things(cast):
    """Each thing of prod by its operation and the arguments of its address."""
    outage = Outage.objects.get(circuit__dependency=cast.search_api)
    delivery = AlertDelivery.objects.get(channel__environment=cast.prod)
    test = ProbeTest.objects.get(dependency=cast.search_api)
    run = StepLog.objects.get(run__environment=cast.prod).run
    return {
        "read_agent": {"agent": "research"},
        "read_key": {"prefix": "prodresearch"},
        "read_worker": {"worker": cast.workers[0].pk},
        "read_dependency": {"dependency": "search-api"},
        "read_tool": {"tool": "web_search"},
        "read_circuit_of_dependency": {"dependency": "search-api"},
        "read_revision": {"revision": cast.prod.policies.get().pk},
        "read_trip": {"trip": outage.trips.get().pk},
        "read_transition": {"transition": Transition.objects.get(outage=outage).pk},
        "read_outage": {"outage": outage.pk},
        "read_run": {"run": run.pk},
        "read_steps_of_run": {"run": run.pk},
        "read_channel": {"channel": delivery.channel_id},
        "read_delivery": {"delivery": delivery.pk},
        "read_probe": {"dependency": "search-api"},
        "read_probe_test": {"dependency": "search-api", "test": test.pk},
        "read_environment_policy": {},
        "read_class_policy": {"side_effect": "read_only"},
        "read_dependency_policy": {"dependency": "search-api"},
        "read_tool_policy": {"tool": "web_search"},
    }


def test_each_thing_is_read_and_has_a_version(lived_in, as_):
    api = as_(lived_in.ann)

    for name, address in things(lived_in).items():
        answer = getattr(api, name)(environment="prod", **address)
        again = api.client.get(answer_path(api, name, address), headers=known(api, answer.etag))

        assert answer.status == 200, (name, answer.data)
        assert again.status_code == 304, name
        assert not again.content


def answer_path(api, name, address):
    return api.operations[name].request({"environment": "prod", **address})[0]


def known(api, etag):
    return {"Authorization": f"Bearer {api.bearer}", "If-None-Match": f'"other", {etag}'}


def test_a_thing_of_another_environment_is_not_there(lived_in, as_):
    factories.agent(lived_in.staging, "lonely")
    api = as_(lived_in.ada)
    shared = {"read_environment_policy", "read_class_policy", "read_dependency_policy", "read_dependency",
              "read_circuit_of_dependency", "read_agent", "read_tool", "read_tool_policy", "read_probe"}  # fmt: skip

    for name, address in things(lived_in).items():
        if name not in shared:
            answer = getattr(api, name)(environment="staging", **address)
            assert (answer.status, answer.error["code"]) == (404, "not_found"), name
    assert api.read_agent(environment="prod", agent="lonely").status == 404
    assert api.read_tool(environment="staging", tool="refund").status == 404
    assert api.read_circuit_of_dependency(environment="staging", dependency="payments").status == 404


def test_an_open_circuit_tells_state_mode_evidence_and_whom_it_hits(lived_in, as_):
    answer = as_(lived_in.ann).read_circuit_of_dependency(environment="prod", dependency="search-api").data

    assert (answer["state"], answer["mode"], answer["effective"], answer["stands"]) == ("open", "auto", "open", "open")
    assert answer["tools"] == ["news_search", "web_search"]
    assert answer["trip"]["signal"] == "failure_rate"
    assert answer["trip"]["threshold"]["failure_rate"] == 0.5
    assert answer["hit"] == {"runs": 1, "running": 0, "undisclosed": 0, "agents": ["research"]}


def test_a_closed_circuit_tells_its_evidence_against_the_thresholds_in_force(lived_in, as_):
    stage.observed(lived_in.workers[0], lived_in.tools["db_lookup"], NOON - timedelta(seconds=5), ok=3, timeout=1)

    answer = as_(lived_in.ann).read_circuit_of_dependency(environment="prod", dependency="crm-db").data

    evidence = answer["evidence"]
    signals = {one["signal"]: (one["value"], one["threshold"]) for one in evidence["signals"]}
    assert (evidence["calls"], evidence["failures"], evidence["min_calls"]) == (4, 1, 20)
    assert signals["failure_rate"] == (0.25, 0.5)


def test_a_run_without_a_log_says_that_none_was_kept(cast, as_):
    run = stage.run(cast.research, NOON)

    answer = as_(cast.ann).read_steps_of_run(environment="prod", run=run.pk)

    assert (answer.status, answer.error["code"]) == (404, "not_kept")


FILTERS = [
    ("list_circuits", {"state": "open"}, 1),
    ("list_circuits", {"state": "open", "mode": "forced_open"}, 0),
    ("list_circuits", {"tool": "refund"}, 1),
    ("list_tools", {"dependency": "search-api"}, 2),
    ("list_tools", {"side_effect": "side_effect"}, 1),
    ("list_tools", {"confirmed": "false"}, 0),
    ("list_dependencies", {"tool": "refund"}, 1),
    ("list_keys", {"agent": "support"}, 1),
    ("list_keys", {"revoked": "true"}, 0),
    ("list_workers", {"instance": "pod-2"}, 1),
    ("list_workers", {"seen_since": "2026-06-01T14:00:00+02:00"}, 3),
    ("list_sessions", {"agent": "support"}, 0),
    ("list_runs", {"degraded": "true", "lacked": "search-api"}, 1),
    ("list_runs", {"lacked": "crm-db"}, 0),
    ("list_runs", {"status": "running"}, 0),
    ("list_trips", {"dependency": "search-api", "scope": "fleet"}, 1),
    ("list_trips", {"marked_false": "true"}, 0),
    ("list_trips", {"until": "2026-06-01T11:00:00Z"}, 0),
    ("list_transitions", {"to_state": "open"}, 1),
    ("list_outages", {"running": "true"}, 1),
    ("list_outages", {"running": "false"}, 0),
    ("list_probe_rounds", {"verdict": "bad"}, 1),
    ("list_revisions", {"level": "dependency", "status": "published"}, 1),
    ("list_deliveries", {"status": "dead"}, 0),
    ("list_environment_audit_entries", {"actor": "petra", "accepted": "true"}, 1),
]


@pytest.mark.parametrize(("name", "query", "rows"), FILTERS)
def test_a_filter_narrows(lived_in, as_, name, query, rows):
    answer = getattr(as_(lived_in.ann), name)(environment="prod", **query)

    assert answer.status == 200, answer.data
    assert len(answer.data["results"]) == rows


@pytest.mark.parametrize(
    ("query", "field", "mend"),
    [
        ("state=opened", "state", ""),
        ("tool=refnd", "tool", "did you mean refund?"),
        ("sate=open", "sate", "did you mean state?"),
        ("state=open&state=closed", "state", ""),
        ("ordering=dependancy", "ordering", "did you mean dependency?"),
        ("ordering=--dependency", "ordering", ""),
        ("limit=0", "limit", "use 1 to 200"),
        ("limit=201", "limit", ""),
        ("limit=ten", "limit", ""),
        ("limit=1e2", "limit", ""),
        ("limit=٣", "limit", ""),
        ("cursor=nonsense", "cursor", ""),
        ("cursor=WyJkZXBlbmRlbmN5IiwxXQ", "cursor", ""),
        ("cursor=" + "W" * 4000, "cursor", ""),
        ("owner=a%00b", "owner", "leave that out"),
        ("suspected=1", "suspected", ""),
        ("format=xml", "format", ""),
    ],
)
def test_a_filter_that_cannot_be_used_is_named(lived_in, as_, query, field, mend):
    answer = as_(lived_in.ann).send("GET", f"/api/v1/environments/prod/circuits?{query}")

    assert (answer.status, answer.error["field"]) == (422, field), answer.data
    assert mend in answer.error["mend"]


@pytest.mark.parametrize(
    "query", ["since=2026-06-01", "since=yesterday", "since=9999-12-31T23:59:59-12:00", "run=1", "worker=-1",
              "worker=" + "9" * 30, "worker=1e9", "outage=1.5"]
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_refused(lived_in, as_, query):
    answer = as_(lived_in.ann).send("GET", f"/api/v1/environments/prod/trips?{query}")

    assert (answer.status, answer.error["field"]) == (422, query.partition("=")[0]), answer.data


@pytest.mark.parametrize("ordering", ["at", "-at"])
def test_pages_join_without_gap_or_overlap_while_rows_arrive(cast, as_, ordering):
    """Several trips share a moment; a new one arrives between two pages."""
    for number in range(7):
        trip(cast, NOON - timedelta(seconds=number // 3))
    api, seen = as_(cast.ann), []

    answer = api.list_trips(environment="prod", limit=3, ordering=ordering)
    while True:
        seen += [one["id"] for one in answer.data["results"]]
        if len(seen) == 3:
            trip(cast, NOON + timedelta(seconds=5) if ordering == "-at" else NOON - timedelta(hours=1))
        if answer.data["next"] is None:
            break
        assert answer.headers["Link"] == f'<{answer.data["next"]}>; rel="next"'
        answer = api.send("GET", answer.data["next"].removeprefix("http://testserver"))
        assert answer.status == 200, answer.data

    assert len(seen) == len(set(seen)) == 7


def trip(cast, at):
    return Trip.objects.create(
        environment=cast.prod, scope="fleet", signal="failure_rate", dependency=cast.search_api, delivery="enforce",
        evidence={}, threshold={}, at=at, received_at=at,
    )  # fmt: skip


def test_a_cursor_of_another_order_is_refused(cast, as_):
    for number in range(3):
        trip(cast, NOON + timedelta(seconds=number))
    api = as_(cast.ann)

    following = api.list_trips(environment="prod", limit=1).data["next"]
    answer = api.send("GET", following.removeprefix("http://testserver") + "&ordering=at")

    assert (answer.status, answer.error["field"]) == (422, "cursor")


@pytest.mark.parametrize("name", ["list_tools", "list_dependencies", "list_circuits", "list_workers", "list_channels"])
def test_lists_by_name_page_too(lived_in, as_, name):
    api = as_(lived_in.ann)
    whole = getattr(api, name)(environment="prod", limit=200).data["results"]

    answer, seen = getattr(api, name)(environment="prod", limit=1), []
    while True:
        seen += answer.data["results"]
        if answer.data["next"] is None:
            break
        answer = api.send("GET", answer.data["next"].removeprefix("http://testserver"))

    assert seen == whole


@pytest.mark.parametrize(
    ("path", "mend"),
    [
        ("environments/prodd/tools", "did you mean prod?"),
        ("environments/prod/tools/web_serch", "did you mean web_search?"),
        ("environments/prod/circuits/search-apy", "did you mean search-api?"),
        ("environments/prod/agents/reserch", "did you mean research?"),
        ("environments/prod/policies/class/readonly", "read_only"),
        ("environments/prod/workers/" + "9" * 40, "list them"),
        ("environments/prod/tools/a%00b", "schema"),
        ("non%0Asense%0A", "schema"),
        ("environments/prod/tools/~FF", "schema"),
        ("environments/prod/tools/", "leave out the slash"),
        ("nonsense", "schema"),
    ],
)
def test_a_misspelt_address_says_what_was_perhaps_meant(cast, as_, path, mend):
    answer = as_(cast.ann).send("GET", f"/api/v1/{path}")

    assert (answer.status, answer.error["code"]) == (404, "not_found")
    assert mend in answer.error["mend"]


@pytest.mark.parametrize("name", ["https://api.example.com/v1", "a b", "100%", "~", "..", "ünï"])
def test_whatever_a_dependency_is_called_it_has_an_address(cast, as_, name):
    factories.dependency(cast.prod, name)

    answer = as_(cast.ann).read_dependency(environment="prod", dependency=name)

    assert answer.status == 200, (name, answer.data)
    assert answer.data["slug"] == name


def test_the_whole_audit_is_for_admins(cast, as_):
    as_(cast.ada).create_environment({"slug": "dev", "name": "Dev"})

    assert as_(cast.otto).list_audit_entries().status == 403
    actions = [one["action"] for one in as_(cast.ada).list_audit_entries(actor="ada").data["results"]]
    assert actions[-2:] == ["create_environment", "issue_token"]


def test_who_asks_is_told_what_they_may(cast, as_, signed_in):
    by_token, by_session = as_(cast.otto, "view").read_me(), signed_in(cast.otto).read_me()

    assert (by_token.data["name"], by_token.data["scopes"]) == ("otto", ["view"])
    assert by_token.data["token"]["scopes"] == ["view"]
    assert by_session.data["scopes"] == ["operate_circuit", "quarantine", "view"]
    assert by_session.data["token"] is None


def test_time_is_the_database_s(cast, as_):
    assert clock.now() == NOON
    assert as_(cast.ann).read_me().data["token"]["created_at"] == "2026-06-01T12:00:00Z"


def test_a_tool_has_its_claims_and_the_class_that_they_suggest_until_one_is_confirmed(cast, as_):
    tool = factories.tool(cast.crm_db, "get_rows")
    Tool.objects.filter(pk=tool.pk).update(class_confirmed=False, side_effect="unknown")
    for at in (tool, cast.tools["web_search"]):
        ToolHints.objects.create(tool=at, agent=cast.research, key=cast.research_key, destructive=True, told_at=NOON)
    api = as_(cast.ann)

    waiting = api.read_tool(environment="prod", tool="get_rows").data
    confirmed = api.read_tool(environment="prod", tool="web_search").data

    claimed = {
        "agent": "research",
        "stated": {"destructiveHint": True},
        "told_at": "2026-06-01T12:00:00Z",
        "counted": True,
    }
    assert waiting["hints"] == confirmed["hints"] == [claimed]
    assert waiting["proposal"] == {"side_effect": "destructive", "basis": "hints", "because": "destructiveHint true"}
    assert confirmed["proposal"] is None and confirmed["side_effect"] == "read_only"
    assert api.read_tool(environment="prod", tool="refund").data["hints"] == []
