"""Every change: that it happens, that it is on record, and that whoever may not is refused, on record too."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from recloser.core.types import SideEffectClass

from controlplane.models import (
    Agent,
    AgentKey,
    AlertChannel,
    AlertDelivery,
    AuditEntry,
    Circuit,
    Dependency,
    DocumentVersion,
    Environment,
    Probe,
    ProbeTest,
    Tool,
    Transition,
    Trip,
)
from controlplane.models.access import Role
from controlplane.selectors import impact
from controlplane.services import egress, policies, reviews, tool_reviews
from tests import factories
from tests.conftest import NOON
from tests.dashboard import stage

URL = "http://127.0.0.1:1/health"


@pytest.fixture
def outage(cast):
    stage.probe(cast.search_api, NOON, URL)
    return stage.opened(cast.search_api, NOON - timedelta(seconds=60), due_in_s=90)


@pytest.fixture
def loopback(db):
    egress.allow_network(network="127.0.0.0/8", reason="tests", actor="ada", now=NOON)


def last_entry():
    return AuditEntry.objects.latest("id")


def recorded(action, actor, accepted=True):
    entries = AuditEntry.objects.filter(action=action, actor=actor, accepted=accepted)
    assert entries.count() == 1, list(AuditEntry.objects.values_list("action", "actor", "accepted"))
    return entries.get()


# What an operator does to a circuit


@pytest.mark.parametrize(
    ("deed", "body", "state", "mode"),
    [
        ("force_close", {"reason": "it is back"}, "closed", "auto"),
        ("hold_open", {"reason": "vendor asked", "for_s": 600}, "open", "forced_open"),
        ("hold_closed", {"reason": "false alarm", "until": "2026-06-01T13:00:00+01:00"}, None, None),
        ("hold_closed", {"reason": "false alarm", "until": "2026-06-01T15:00:00+02:00"}, "closed", "forced_closed"),
        ("acknowledge", None, "open", "auto"),
        ("probe_now", None, "open", "auto"),
        ("release", None, None, None),
        ("note", {"reason": "the vendor is on it"}, "open", "auto"),
        ("note", {"reason": " "}, None, None),
        ("hand_back", None, None, None),
    ],
)
def test_a_deed_answers_with_the_new_truth(cast, outage, as_, deed, body, state, mode):
    api = as_(cast.otto)

    answer = getattr(api, deed)(body, environment="prod", dependency="search-api")

    entry = recorded(deed, "otto", accepted=state is not None)
    assert entry.detail["through"].startswith("token ")
    row = Circuit.objects.get(dependency=cast.search_api)
    if state is None:
        assert answer.status in (409, 422)
        assert (row.state, row.mode) == ("open", "auto")
    else:
        assert (answer.status, answer.data["state"], answer.data["mode"]) == (200, state, mode)
        assert row.mode == mode


def test_a_hold_is_released_again(cast, outage, as_):
    api = as_(cast.otto)
    api.hold_open({"reason": "vendor asked", "for_s": 60}, environment="prod", dependency="search-api")

    answer = api.release({"reason": "done"}, environment="prod", dependency="search-api")

    assert (answer.data["mode"], answer.data["held_until"], answer.data["actor"]) == ("auto", None, "otto")


def test_an_acknowledgement_is_handed_back(cast, outage, as_):
    api, here = as_(cast.otto), {"environment": "prod", "dependency": "search-api"}
    assert api.acknowledge(**here).data["acknowledged_by"] == "otto"

    answer = api.hand_back(**here)

    assert (answer.data["acknowledged_at"], answer.data["acknowledged_by"]) == (None, "")
    assert api.hand_back(**here).error["code"] == "not_acknowledged"


def test_a_note_sent_again_with_its_key_is_written_once_and_stands_on_the_circuits_page(cast, outage, as_):
    api, here, key = as_(cast.otto), {"environment": "prod", "dependency": "search-api"}, str(uuid.uuid4())
    for _ in range(2):
        assert api.note({"reason": "vendor ticket 4711"}, idempotency_key=key, **here).status == 200

    row = Circuit.objects.select_related("dependency").get(dependency=cast.search_api)
    assert [(one.actor, one.reason) for one in impact.notes(row, NOON)] == [("otto", "vendor ticket 4711")]


def test_a_deed_sent_again_with_its_key_is_not_done_again(cast, outage, as_):
    api, key = as_(cast.otto), str(uuid.uuid4())
    here = {"environment": "prod", "dependency": "search-api"}

    first = api.force_close({"reason": "it is back"}, idempotency_key=key, **here)
    stage.opened(cast.search_api, NOON)
    again = api.force_close({"reason": "it is back"}, idempotency_key=key, **here)
    other = api.acknowledge(idempotency_key=key, **here)

    assert (first.data["state"], again.data["state"]) == ("closed", "open")
    assert Transition.objects.filter(cause="operator").count() == 1
    assert (other.status, other.error["code"], other.error["field"]) == (409, "token_reused", "Idempotency-Key")


@pytest.mark.parametrize(
    "hold",
    [
        {},
        {"until": "2026-06-01T13:00:00Z", "for_s": 60},
        {"for_s": 0},
        {"for_s": 90_000},
        {"for_s": "60"},
        {"until": "2026-06-01T13:00:00"},
        {"until": 1780000000},
    ],
)
def test_a_hold_without_one_clear_end_is_refused(cast, outage, as_, hold):
    answer = as_(cast.otto).hold_open({"reason": "vendor"} | hold, environment="prod", dependency="search-api")

    assert (answer.status, answer.error["code"]) == (422, "bad_field")
    assert answer.error["field"] in ("until", "for_s")
    assert Circuit.objects.get(dependency=cast.search_api).mode == "auto"


# Who may


def proposed(cast, actor, min_calls=7):
    """A change of the policy of payments that waits."""
    return reviews.propose(
        environment=cast.prod, level="dependency", dependency=cast.payments, values={"min_calls": min_calls},
        reason="x", actor=actor, now=NOON,
    )  # fmt: skip


def eased(tool, actor, side_effect):
    """A milder class of a tool that waits."""
    return tool_reviews.propose(tool=tool, wanted={"side_effect": side_effect}, reason="x", actor=actor, now=NOON)


def attempts(cast, person="ada"):
    """Every change there is: by whom it may be done, and how this person asks for it."""
    here, search = {"environment": "prod"}, {"environment": "prod", "dependency": "search-api"}
    key, worker = {**here, "prefix": "prodresearch"}, {**here, "worker": cast.workers[0].pk}
    trip = {**here, "trip": Trip.objects.get().pk}
    channel = AlertChannel.objects.create(
        environment=cast.prod, kind="email", name="people", target="a@example.com", created_at=NOON, created_by="ada"
    )
    delivery = AlertDelivery.objects.create(
        channel=channel, event="opened", incident="outage-1", body={}, due_at=NOON, created_at=NOON, status="dead"
    )
    network = egress.allow_network(network="10.1.0.0/16", reason="tests", actor="ada", now=NOON)
    mine, *theirs = (proposed(cast, actor, calls) for actor, calls in ((person, 7), ("zoe", 6), ("zoe", 5)))
    own, approved, rejected = ({**here, "review": row.pk} for row in (mine, *theirs))
    published = policies.publish(
        environment=cast.prod, level="dependency", dependency=cast.crm_db, values={"min_calls": 9}, reason="x",
        actor="zoe", now=NOON,
    )  # fmt: skip
    policies.publish(
        environment=cast.prod, level="dependency", dependency=cast.crm_db, values={"min_calls": 8}, reason="x",
        actor="zoe", now=NOON,
    )  # fmt: skip
    purge = factories.tool(cast.crm_db, "purge", side_effect=SideEffectClass.DESTRUCTIVE)
    milder = (eased(purge, who, side_effect) for who, side_effect in
              ((person, "read_only"), ("zoe", "side_effect"), ("zoe", "unknown")))  # fmt: skip
    mine, agreed, refused = milder
    own_tool, tool_approved, tool_rejected = ({**here, "review": row.pk} for row in (mine, agreed, refused))
    factories.person("eve", Role.VIEWER)
    factories.dependency(cast.prod, "unused-api")
    factories.tool(cast.crm_db, "unused")
    factories.agent(cast.prod, "unused")
    factories.environment("unused")
    why, match = {"reason": "because"}, {"if_match": "*"}
    operate, policy, admin, quarantine = {"otto", "ada"}, {"petra", "ada"}, {"ada"}, {"otto", "ada"}
    return {
        "acknowledge": (operate, {}, search),
        "hand_back": (operate, {}, search),
        "note": (operate, why, search),
        "probe_now": (operate, {}, search),
        "hold_open": (operate, {**why, "for_s": 60}, search),
        "release": (operate, {}, search),
        "hold_closed": (operate, {**why, "for_s": 60}, search),
        "force_close": (operate, why, search),
        "mark_false_trip": (operate, why, trip),
        "unmark_false_trip": (operate, None, trip),
        "resend_delivery": (operate, None, {**here, "delivery": delivery.pk}),
        "set_probe": (operate, {"operation": "web_search", "spec": {"url": URL}}, {**search, **match}),
        "test_probe": (operate, {}, search),
        "remove_probe": (operate, None, {**search, **match}),
        "set_vendor_status": (operate, {"status_address": URL}, search),
        "remove_vendor_status": (operate, None, {**search, **match}),
        "quarantine_key": (quarantine, why, key),
        "lift_key_quarantine": (quarantine, {}, key),
        "quarantine_worker": (quarantine, why, worker),
        "lift_worker_quarantine": (quarantine, {}, worker),
        "create_dependency": (policy, {"slug": "new-api"}, here),
        "edit_dependency": (policy, {"owner": "search team"}, {**search, **match}),
        "create_tool": (policy, {"name": "new_tool", "dependencies": ["search-api"]}, here),
        "edit_tool": (policy, {"costly": True}, {**here, "tool": "refund", **match}),
        "publish_environment_policy": (policy, {"values": {}, **why}, {**here, **match}),
        "publish_class_policy": (policy, {"values": {}, **why}, {**here, "side_effect": "read_only", **match}),
        "publish_dependency_policy": (policy, {"values": {"min_calls": 9}, **why}, {**search, **match}),
        "publish_tool_policy": (policy, {"values": {}, **why}, {**here, "tool": "refund", **match}),
        "roll_back_policy": (policy, why, {**here, "revision": published.pk}),
        "propose_policy": (policy, {"level": "tool", "tool": "refund", "values": {}, **why}, here),
        "edit_review": (policy, {"values": {"min_calls": 9}}, {**own, **match}),
        "submit_review": (policy, None, {**own, **match}),
        "withdraw_review": (policy, {}, {**own, **match}),
        "approve_review": (policy, {"content_hash": theirs[0].content_hash}, {**approved, **match}),
        "reject_review": (policy, why, {**rejected, **match}),
        "propose_tool_change": (policy, {"tool": "refund", "side_effect": "read_only", **why}, here),
        "edit_tool_review": (policy, {"side_effect": "idempotent_write"}, {**own_tool, **match}),
        "submit_tool_review": (policy, None, {**own_tool, **match}),
        "withdraw_tool_review": (policy, {}, {**own_tool, **match}),
        "approve_tool_review": (policy, {"content_hash": agreed.content_hash}, {**tool_approved, **match}),
        "reject_tool_review": (policy, why, {**tool_rejected, **match}),
        "remove_tool": (policy, None, {**here, "tool": "unused", **match}),
        "remove_dependency": (policy, None, {**here, "dependency": "unused-api", **match}),
        "remove_agent": (admin, None, {**here, "agent": "unused", **match}),
        "remove_environment": (admin, None, {"environment": "unused", **match}),
        "add_person": (admin, {"username": f"new-{person}", "role": "viewer"}, {}),
        "change_role": (admin, {"role": "on_call"}, {"person": "ann", **match}),
        "switch_off_person": (admin, None, {"person": "eve", **match}),
        "switch_on_person": (admin, None, {"person": "eve", **match}),
        "create_environment": (admin, {"slug": "dev", "name": "Dev"}, {}),
        "edit_environment": (admin, {"name": "P"}, {**here, **match}),
        "create_agent": (admin, {"slug": "billing", "name": "Billing"}, here),
        "edit_agent": (admin, {"owner": "x"}, {**here, "agent": "research", **match}),
        "issue_key": (admin, {"agent": "research"}, here),
        "revoke_key": (admin, {}, key),
        "create_channel": (admin, {"kind": "email", "name": "n", "target": "b@example.com"}, here),
        "edit_channel": (admin, {"enabled": False}, {**here, "channel": channel.pk, **match}),
        "remove_channel": (admin, None, {**here, "channel": channel.pk, **match}),
        "allow_network": (admin, {"network": "10.2.0.0/16", **why}, {}),
        "close_network": (admin, None, {"network": network.pk, **match}),
    }


def test_the_list_of_attempts_is_whole(cast, outage, document):
    changes = {
        said["operationId"]
        for methods in document["paths"].values()
        for method, said in methods.items()
        if method != "get"
    }

    assert changes - set(attempts(cast)) == {"issue_token", "revoke_token"}


@pytest.mark.parametrize("person", ["ann", "otto", "petra", "ada"])
def test_a_role_does_what_it_may_and_nothing_else(cast, outage, loopback, as_, person):
    api = as_(getattr(cast, person))

    for name, (who, body, address) in attempts(cast, person).items():
        before = AuditEntry.objects.count()
        answer = getattr(api, name)(body, **address)
        entries = AuditEntry.objects.filter(actor=person, accepted=person in who)

        assert (answer.status < 300) == (person in who), (name, answer.data)
        assert AuditEntry.objects.count() == before + 1, name
        assert last_entry() in entries, name
        if person not in who:
            assert (answer.status, answer.error["code"]) == (403, "forbidden")
            assert last_entry().action == name


def test_a_token_of_fewer_scopes_does_less_than_its_person(cast, outage, as_):
    answer = as_(cast.otto, "view").force_close({"reason": "x"}, environment="prod", dependency="search-api")

    assert (answer.status, answer.error["code"]) == (403, "out_of_scope")
    assert "operate_circuit" in answer.error["mend"]
    assert recorded("force_close", "otto", accepted=False).environment_id == cast.prod.pk


# What is named by hand


def test_an_environment_is_made_and_edited(cast, as_):
    api = as_(cast.ada)

    made = api.create_environment({"slug": "dev", "name": "Development", "protected": True})
    read = api.read_environment(environment="dev")
    edited = api.edit_environment({"protected": False}, environment="dev", if_match=read.etag)

    assert made.status == 201
    assert edited.data == made.data | {"protected": False}
    assert edited.etag != read.etag
    assert Environment.objects.get(slug="dev").name == "Development"


def test_what_exists_is_not_made_again(cast, as_):
    api = as_(cast.ada)

    answers = [
        api.create_environment({"slug": "prod", "name": "Again"}),
        api.create_agent({"slug": "research", "name": "Again"}, environment="prod"),
        api.create_dependency({"slug": "search-api"}, environment="prod"),
        api.create_tool({"name": "refund", "dependencies": ["search-api"]}, environment="prod"),
    ]

    assert [(one.status, one.error["code"]) for one in answers] == [(409, "exists")] * 4
    assert cast.tools["refund"].dependencies.get() == cast.payments


def test_a_tool_is_confirmed_in_its_class_and_agents_hear_of_it(cast, as_):
    api = as_(cast.petra)
    Tool.objects.filter(name="refund").update(side_effect="unknown", class_confirmed=False)
    version = DocumentVersion.objects.get(environment=cast.prod).config
    read = api.read_tool(environment="prod", tool="refund")

    edited = api.edit_tool(
        {"side_effect": "destructive", "owner": "billing", "operation": "", "dependencies": ["crm-db", "payments"]},
        environment="prod", tool="refund", if_match=read.etag,
    )  # fmt: skip

    assert (edited.data["side_effect"], edited.data["class_confirmed"]) == ("destructive", True)
    assert (edited.data["operation"], edited.data["dependencies"]) == ("", ["crm-db", "payments"])
    assert DocumentVersion.objects.get(environment=cast.prod).config > version


def test_a_name_that_is_not_there_is_an_error_and_never_a_new_object(cast, as_):
    api = as_(cast.ada)

    answers = [
        api.create_tool({"name": "t", "dependencies": ["serch-api"]}, environment="prod"),
        api.edit_tool({"dependencies": ["serch-api"]}, environment="prod", tool="refund", if_match="*"),
        api.issue_key({"agent": "reserch"}, environment="prod"),
    ]

    assert [one.status for one in answers] == [422] * 3
    assert [one.error["code"] for one in answers] == ["unknown_dependency"] * 2 + ["unknown_agent"]
    assert [one.error["mend"] for one in answers] == ["did you mean search-api?"] * 2 + ["did you mean research?"]
    assert Dependency.objects.filter(environment=cast.prod).count() == 3
    assert not Tool.objects.filter(name="t").exists()


def test_an_edit_that_changes_nothing_leaves_no_trace(cast, as_):
    api = as_(cast.petra)
    before = AuditEntry.objects.count()

    answer = api.edit_tool({"owner": ""}, environment="prod", tool="refund", if_match="*")

    assert answer.status == 200
    assert AuditEntry.objects.count() == before


# Whose word counts


def test_a_key_is_shown_once_and_works_until_it_is_revoked(cast, as_):
    api = as_(cast.ada)

    made = api.issue_key({"agent": "support", "label": "staging cluster"}, environment="prod")
    token, prefix = made.data["token"], made.data["key"]["prefix"]
    read = api.read_key(environment="prod", prefix=prefix)

    assert factories.key_of(token).agent == cast.support
    assert token not in str(read.data) + str(api.list_keys(environment="prod").data)
    assert AgentKey.objects.get(prefix=prefix).digest not in str(read.data)

    revoked = api.revoke_key({"reason": "leaked"}, environment="prod", prefix=prefix)
    again = api.revoke_key(environment="prod", prefix=prefix)

    assert revoked.data["revoked_at"] == again.data["revoked_at"] == "2026-06-01T12:00:00Z"
    assert factories.key_of(token) is None
    recorded("revoke_key", "ada")


@pytest.mark.parametrize("kind", ["key", "worker"])
def test_a_quarantine_is_set_and_lifted(cast, as_, kind):
    api = as_(cast.otto)
    address = {"prefix": "prodresearch"} if kind == "key" else {"worker": cast.workers[0].pk}

    held = getattr(api, f"quarantine_{kind}")({"reason": "lies"}, environment="prod", **address)
    listed = getattr(api, f"list_{kind}s")(environment="prod", quarantined="true")
    lifted = getattr(api, f"lift_{kind}_quarantine")(environment="prod", **address)

    assert (held.data["quarantined_by"], held.data["quarantine_reason"]) == ("otto", "lies")
    assert len(listed.data["results"]) == 1
    assert lifted.data["quarantined_at"] is None


def test_a_trip_is_marked_false_and_that_is_taken_back(cast, outage, as_):
    api, address = as_(cast.otto), {"environment": "prod", "trip": Trip.objects.get().pk}

    marked = api.mark_false_trip({"reason": "our own deploy"}, **address)
    twice = api.mark_false_trip({"reason": "again"}, **address)
    listed = api.list_trips(environment="prod", marked_false="true")
    unmarked = api.unmark_false_trip(**address)

    assert marked.data["false_trip_by"] == twice.data["false_trip_by"] == "otto"
    assert len(listed.data["results"]) == 1
    assert unmarked.data["false_trip_at"] is None
    assert recorded("mark_false_trip", "otto").reason == "our own deploy"


# Policies


def test_a_policy_is_read_with_its_origins_and_published_with_a_reason(cast, as_):
    api, here = as_(cast.petra), {"environment": "prod", "dependency": "search-api"}
    read = api.read_dependency_policy(**here)
    assert (read.data["values"], read.data["revision"], read.data["run"]) == ({}, None, None)
    assert read.data["circuit"]["min_calls"] == {"value": 20, "origin": "default"}

    said = api.publish_dependency_policy({"values": {"min_calls": 7}, "reason": "busy"}, if_match=read.etag, **here)

    assert said.data["circuit"]["min_calls"] == {"value": 7, "origin": "dependency"}
    assert (said.data["revision"]["number"], said.data["revision"]["reason"]) == (1, "busy")
    assert said.etag == api.read_dependency_policy(**here).etag
    assert api.list_revisions(environment="prod", dependency="search-api").data["results"][0]["values"] == {
        "min_calls": 7
    }


def test_layers_meet_in_the_tool(cast, as_):
    api = as_(cast.petra)
    api.publish_environment_policy(
        {"values": {"run": {"step_limit": 30}}, "reason": "long tasks"}, environment="prod", if_match="*"
    )

    tool = api.read_tool_policy(environment="prod", tool="refund").data

    assert tool["run"]["step_limit"] == {"value": 30, "origin": "environment"}
    assert tool["run"]["consecutive_failures"]["value"] == 2
    assert tool["circuit"] is None


@pytest.mark.parametrize(
    ("values", "field", "mend"),
    [
        ({"min_cals": 7}, "min_cals", "did you mean min_calls?"),
        ({"min_calls": "7"}, "min_calls", "use"),
        ({"failure_rate": 1.5}, "failure_rate", "use"),
        ({"cooldown_s": 90, "cooldown_max_s": 60}, "cooldown_max_s", "raise it"),
    ],
)
def test_a_policy_that_does_not_validate_is_refused_and_that_is_on_record(cast, as_, values, field, mend):
    answer = as_(cast.petra).publish_dependency_policy(
        {"values": values, "reason": "x"}, environment="prod", dependency="search-api", if_match="*"
    )

    assert (answer.status, answer.error["field"]) == (422, field)
    assert mend in answer.error["mend"]
    recorded("publish_policy", "petra", accepted=False)
    assert not cast.prod.policies.exists()


# Probes


def test_a_probe_s_secrets_go_in_and_never_come_out(cast, loopback, as_):
    api, here = as_(cast.otto), {"environment": "prod", "dependency": "search-api"}
    assert api.read_probe(**here).error["code"] == "no_probe"

    body = {"operation": "web_search", "spec": {"url": URL}, "secret_headers": {"Authorization": "Bearer hush-hush"}}
    made = api.set_probe(body, **here)
    edited = api.set_probe(
        {"operation": "web_search", "spec": {"url": URL, "latency_ms": 800}}, if_match=made.etag, **here
    )

    assert made.data["secret_headers"] == edited.data["secret_headers"] == {"Authorization": "********"}
    assert "hush" not in str(Probe.objects.values().get())
    assert edited.data["spec"]["latency_ms"] == 800
    assert api.set_probe(body, **here).status == 428
    assert api.set_probe(body, if_match=made.etag, **here).status == 412


def test_a_first_probe_names_no_version(cast, loopback, as_):
    body = {"operation": "web_search", "spec": {"url": URL}}

    answer = as_(cast.otto).set_probe(body, environment="prod", dependency="search-api", if_match='"abc"')

    assert (answer.status, answer.error["field"]) == (412, "If-Match")
    assert not Probe.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"spec": {"url": URL}}, "operation"),
        ({"operation": "x", "spec": {}}, "url"),
        ({"operation": "x", "spec": {"url": URL, "methode": "GET"}}, "methode"),
        ({"operation": "x", "spec": {"url": URL, "method": "DELETE"}}, "method"),
        ({"operation": "x", "spec": "GET /"}, "spec"),
        ({"operation": "x", "spec": {"url": "http://169.254.169.254/latest"}}, "url"),
        ({"operation": "x", "spec": {"url": URL}, "secret_headers": {"A": 5}}, "secret_headers.A"),
        ({"operation": "x", "spec": {"url": URL}, "secret_headers": {"A": "b\nc"}}, "secret_headers"),
        ({"operation": "x", "spec": {"url": URL}, "enabled": "yes"}, "enabled"),
    ],
)
def test_a_probe_that_cannot_be_used_is_refused(cast, loopback, as_, body, field):
    answer = as_(cast.otto).set_probe(body, environment="prod", dependency="search-api")

    assert (answer.status, answer.error["field"]) == (422, field), answer.data
    assert not Probe.objects.exists()


def test_a_probe_is_tried_without_touching_the_circuit(cast, outage, loopback, as_):
    api, here = as_(cast.otto), {"environment": "prod", "dependency": "search-api"}

    asked = api.test_probe({}, **here)
    read = api.read_probe_test(test=asked.data["id"], **here)

    assert (asked.status, read.data["state"]) == (202, "waiting")
    assert ProbeTest.objects.get().spec["url"] == URL
    assert api.test_probe({}, environment="prod", dependency="crm-db").error["field"] == "spec"


def test_a_probe_is_removed(cast, outage, as_):
    api, here = as_(cast.otto), {"environment": "prod", "dependency": "search-api"}

    assert api.remove_probe(if_match='"old"', **here).status == 412
    assert api.remove_probe(if_match=api.read_probe(**here).etag, **here).status == 204
    assert not Probe.objects.exists()


# Telling people


def test_a_channel_is_made_changed_and_removed(cast, loopback, as_):
    api, here = as_(cast.ada), {"environment": "prod"}

    made = api.create_channel({"kind": "webhook", "name": "pager", "target": URL}, **here)
    address = {**here, "channel": made.data["channel"]["id"]}
    read = api.read_channel(**address)
    edited = api.edit_channel({"enabled": False}, if_match=read.etag, **address)

    assert len(made.data["secret"]) > 30
    assert made.data["secret"] not in str(read.data) + str(AlertChannel.objects.values().get())
    assert (read.data["signed"], edited.data["signed"], edited.data["enabled"]) == (True, True, False)
    assert api.remove_channel(if_match=edited.etag, **address).status == 204
    assert not AlertChannel.objects.exists()


@pytest.mark.parametrize("secret", ["", "short", "x" * 15])
def test_a_webhook_without_a_secret_worth_the_name_is_not_made(cast, loopback, as_, secret):
    asked = {"kind": "webhook", "name": "pager", "target": URL, "secret": secret}

    refused = as_(cast.ada).create_channel(asked, environment="prod")

    assert (refused.status, refused.error["field"]) == (422, "secret")
    assert not AlertChannel.objects.exists()


def test_a_channel_to_a_private_address_is_refused(cast, as_):
    answer = as_(cast.ada).create_channel({"kind": "webhook", "name": "n", "target": URL}, environment="prod")

    assert (answer.status, answer.error["code"], answer.error["field"]) == (422, "refused_address", "target")


def test_a_message_is_sent_again_but_not_while_it_is_on_its_way(cast, as_):
    api = as_(cast.otto)
    channel = AlertChannel.objects.create(
        environment=cast.prod, kind="email", name="people", target="a@example.com", created_at=NOON, created_by="ada"
    )
    row = AlertDelivery.objects.create(
        channel=channel, event="opened", incident="outage-1", body={}, due_at=NOON, created_at=NOON, status="dead"
    )

    sent = api.resend_delivery(environment="prod", delivery=row.pk)
    again = api.resend_delivery(environment="prod", delivery=row.pk)

    assert (sent.status, sent.data["status"]) == (200, "pending")
    assert (again.status, again.error["code"]) == (409, "pending")


# Editing by version


def test_an_edit_names_what_it_edits(cast, as_):
    api, here = as_(cast.petra), {"environment": "prod", "dependency": "search-api"}
    seen = api.read_dependency(**here).etag
    api.edit_dependency({"owner": "team a"}, if_match=seen, **here)

    missing = api.send("PATCH", "/api/v1/environments/prod/dependencies/search-api", {"owner": "team b"})
    stale = api.edit_dependency({"owner": "team b"}, if_match=seen, **here)
    weak = api.edit_dependency({"owner": "team b"}, if_match=f"W/{api.read_dependency(**here).etag}", **here)

    assert (missing.status, missing.error["code"]) == (428, "precondition_required")
    assert (stale.status, stale.error["code"]) == (412, "stale")
    assert stale.etag == api.read_dependency(**here).etag
    assert weak.status == 412
    assert Dependency.objects.get(pk=cast.search_api.pk).owner == "team a"


def test_one_of_several_versions_will_do(cast, as_):
    api = as_(cast.ada)
    tag = api.read_agent(environment="prod", agent="research").etag

    answer = api.edit_agent({"owner": "x"}, environment="prod", agent="research", if_match=f'"abc", {tag}')

    assert answer.status == 200
    assert Agent.objects.get(pk=cast.research.pk).owner == "x"


def test_networks_are_opened_and_closed(cast, as_):
    api = as_(cast.ada)

    made = api.allow_network({"network": "10.1.0.0/16", "reason": "vpn"})
    bad = api.allow_network({"network": "10.1.0.1/16", "reason": "vpn"})
    closed = api.close_network(network=made.data["id"], if_match=api.read_network(network=made.data["id"]).etag)

    assert (made.status, bad.status, bad.error["field"], closed.status) == (201, 422, "network", 204)
    assert api.list_networks().data["results"] == []
