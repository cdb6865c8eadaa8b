"""POST batch: what is taken, what is answered, what follows."""

import gzip
import json
import uuid
from datetime import timedelta

import pytest

from controlplane import clock
from controlplane.models import (
    AgentKey,
    AuditEntry,
    Circuit,
    Dependency,
    LocalOverride,
    Observation,
    Run,
    Session,
    StepLog,
    Tool,
    ToolHints,
    Trip,
    Worker,
)
from controlplane.selectors.tools import proposed, told
from controlplane.services import access, catalogue, tools
from controlplane.services.ingest import Intake, caps
from tests.crowd import at_once
from tests.edge import harness
from tests.edge.harness import failing, observation


def test_a_batch_is_stored_and_acknowledged(agent, prod):
    answer = agent.send(
        observation(counts={"ok": 3, "timeout": 1}, span_s=1.9, attempts=8, latency_ms={"sum": 31.5, "hist": [0, 2]}),
        trips=[harness.trip()],
        runs=[harness.run(step_log=[{"step": 4, "tool": "web_search", "outcome": "timeout", "ms": 31000.0}])],
    )

    assert answer["ack"] == 1
    assert answer["repeat"] is False
    assert answer["flush_s"] >= 2.0
    assert answer["notes"] == []
    row = Observation.objects.get()
    assert (row.ok, row.timeout, row.attempts, row.counted) == (3, 1, 8, True)
    assert row.latency_hist == [0, 2, *[0] * 14]
    assert (row.received_at - row.at).total_seconds() == pytest.approx(0.1, abs=0.001)
    assert Trip.objects.get().evidence == {"consecutive_failures": 5}
    assert Run.objects.get().missing[0]["tool"] == "web_search"
    assert StepLog.objects.get().lines[0]["ms"] == 31000.0
    session = Session.objects.get()
    assert (session.last_seq, session.worker.instance, session.feed) == (1, "pod-1", "live")


def test_the_answer_names_the_circuit_of_every_dependency_named(agent):
    answer = agent.send(observation())

    assert answer["circuits"]["search-api"] == {
        "state": "closed",
        "mode": "auto",
        "generation": 0,
        "mode_expires_at": None,
        "delivery": "enforce",
        "cause": None,
        "opened_at": None,
        "due_at": None,
        "suspected": False,
        "operation": None,
        "tripped_by": None,
        "ramp_started_at": None,
        "probed": False,
    }
    assert answer["config"][0] == answer["circuits_version"][0]


def test_a_repeated_batch_is_acknowledged_and_changes_nothing(agent):
    batch = agent.batch(observations=[observation()], trips=[harness.trip()], runs=[harness.run()])
    first = agent.post(batch).json()

    again = agent.post(batch).json()

    assert (first["repeat"], again["repeat"]) == (False, True)
    assert again["ack"] == 1
    assert again["circuits"] == first["circuits"]
    assert (Observation.objects.count(), Trip.objects.count(), Run.objects.count()) == (1, 1, 1)


def test_the_environment_may_be_left_to_the_key(agent):
    batch = agent.batch(observations=[observation()])
    del batch["environment"]

    assert agent.post(batch).json()["ack"] == 1


def test_an_older_number_is_acknowledged_with_the_highest_and_not_taken(agent):
    older, newer = agent.batch(observations=[observation()]), agent.batch(observations=[observation()])
    agent.post(newer)

    answer = agent.post(older).json()

    assert (answer["ack"], answer["repeat"]) == (2, True)
    assert list(Observation.objects.values_list("seq", flat=True)) == [2]


@pytest.mark.case("C06")
def test_events_that_were_stored_before_a_lost_answer_are_stored_once(agent):
    """C06: 503 twice, the second one after the server had stored them, then 200: each of the 37 exactly once."""
    batch = agent.batch(trips=[harness.trip() for _ in range(37)])
    agent.post(batch)

    answer = agent.post(batch)

    assert answer.json()["ack"] == 1
    assert Trip.objects.count() == 37


def test_a_gzipped_batch_is_unpacked(agent):
    body = gzip.compress(json.dumps(agent.batch(observations=[observation()])).encode())

    assert agent.post_raw(body, **{"content-encoding": "gzip"}).status_code == 200
    assert Observation.objects.count() == 1


def test_a_session_of_another_key_is_refused(agent, issue):
    agent.send(observation())
    other = harness.Agent(agent.server, issue()[1])
    other.session = agent.session

    answer = other.post(other.batch(observations=[observation()]))

    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "foreign_session"
    assert Observation.objects.count() == 1


def test_a_session_of_another_instance_is_refused_and_leaves_no_worker(agent, edge, key):
    agent.send(observation())
    other = harness.Agent(edge, key.token, instance="pod-2")
    other.session = agent.session

    assert other.post(other.batch(observations=[observation()])).status_code == 409
    assert list(Worker.objects.values_list("instance", flat=True)) == ["pod-1"]


def test_unknown_names_are_discovered_with_class_unknown(agent, key):
    agent.send(observation(tool="new_tool", dependency="new-api"))

    tool, dependency = Tool.objects.get(name="new_tool"), Dependency.objects.get(slug="new-api")
    assert (tool.side_effect, tool.class_confirmed, tool.discovered_by_id) == ("unknown", False, key.pk)
    assert list(tool.dependencies.all()) == [dependency]
    assert Circuit.objects.get(dependency=dependency).state == "closed"
    assert Observation.objects.get().counted


def test_a_discovery_raises_the_config_version_once(agent):
    before = agent.send()["config"][1]
    after = agent.send(observation(), observation(tool="other"))["config"][1]

    assert after == before + 1
    assert agent.send(observation(), observation(tool="other"))["config"][1] == after


def test_a_tool_that_an_operator_made_is_not_put_behind_another_dependency(agent, prod):
    behind = Dependency.objects.create(environment=prod, slug="search-api", created_at=clock.now())
    tool = Tool.objects.create(environment=prod, name="web_search", created_at=clock.now())
    tool.dependencies.add(behind)

    agent.send(observation(dependency="evil-api"))

    assert list(tool.dependencies.all()) == [behind]


@pytest.mark.parametrize(
    ("side_effect", "behind"),
    [
        ("destructive", ["new-api"]),
        ("side_effect", ["new-api"]),
        ("read_only", ["new-api", "other-api"]),
        ("unknown", ["new-api", "other-api"]),
    ],
)
def test_once_a_person_answers_for_a_class_with_effects_its_agent_says_no_more_what_stands_behind_it(
    agent, side_effect, behind
):
    agent.send(observation(tool="new_tool", dependency="new-api"))
    found = Tool.objects.filter(name="new_tool")
    catalogue.edit_tool(tool=found.get(), changes={"side_effect": side_effect, "owner": "billing"}, actor="otto")

    agent.send(observation(tool="new_tool", dependency="other-api"))
    settled = agent.send()["config"][1]
    agent.send(observation(tool="new_tool", dependency="other-api"))

    assert sorted(row.slug for row in found.get().dependencies.all()) == behind
    assert agent.send()["config"][1] == settled, "nothing is discovered twice"
    assert Dependency.objects.filter(slug="other-api").exists()


def test_beyond_the_cap_names_are_recorded_not_counted_and_said_so(agent, monkeypatch):
    monkeypatch.setattr(caps, "DISCOVERED_DEPENDENCIES", 1)

    answer = agent.send(observation(), observation(tool="b", dependency="b-api"))

    assert [note["code"] for note in answer["notes"]] == ["discovery_capped"]
    assert list(Dependency.objects.values_list("slug", flat=True)) == ["b-api"]
    left = Observation.objects.get(counted=False)
    assert left.samples[0] == {"tool": "web_search", "dependency": "search-api"}
    version = agent.send(observation())["config"]
    assert agent.send(observation())["config"] == version


def test_a_tool_that_the_model_invented_is_not_discovered(agent):
    agent.send(observation(tool="imaginary", dependency="imaginary", counts={"unknown_tool": 2}))

    assert not Tool.objects.exists()
    assert Observation.objects.get().unknown_tool == 2


def test_too_many_new_workers_of_a_key_have_to_wait(agent, edge, key, monkeypatch):
    monkeypatch.setattr(caps, "NEW_WORKERS_A_MINUTE", 1)
    agent.send(observation())
    late = harness.Agent(edge, key.token, instance="pod-2")

    answer = late.post(late.batch(observations=[observation()]))

    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "capped"
    assert 0 < int(answer.headers["retry-after"]) <= 60
    assert agent.send(observation())["ack"] == 2


def test_more_calls_than_a_key_may_claim_are_not_counted(agent, monkeypatch):
    monkeypatch.setattr(caps, "CALLS_A_SECOND", 1)

    answer = agent.send(observation(counts={"ok": 10}), observation(counts={"ok": 1000}))

    assert [note["code"] for note in answer["notes"]] == ["counts_capped"]
    assert list(Observation.objects.order_by("id").values_list("ok", "counted")) == [(10, True), (1000, False)]


def test_an_explicit_wait_of_more_than_an_hour_is_an_hour(agent):
    agent.send(failing(retry_after_s=1e8))

    assert Observation.objects.get().retry_after_s == 3600


@pytest.mark.parametrize("which", ["key", "worker"])
def test_quarantine_records_without_counting_until_it_is_lifted(agent, key, which):
    agent.send(observation())
    quarantine = {"key": access.quarantine_key, "worker": access.quarantine_worker}[which]
    target = {"key": key, "worker": Worker.objects.get()}[which]
    quarantine(**{which: target}, actor="otto", reason="a broken canary", now=clock.now())

    assert [note["code"] for note in agent.send(observation())["notes"]] == [f"{which}_quarantined"]
    access.lift_quarantine(target=target, actor="otto", reason="mended", now=clock.now())
    assert agent.send(observation())["notes"] == []

    assert list(Observation.objects.order_by("id").values_list("counted", flat=True)) == [True, False, True]


def test_what_is_older_than_the_window_is_stored_and_not_counted(agent):
    agent.send(observation(age_s=59.0), observation(age_s=61.0))

    assert list(Observation.objects.order_by("id").values_list("counted", flat=True)) == [True, False]


def test_what_belongs_to_another_generation_is_stored_and_not_counted(agent):
    agent.send(observation())
    Circuit.objects.update(generation=4)

    answer = agent.send(observation(generation=3), observation(generation=4))

    assert answer["circuits"]["search-api"]["generation"] == 4
    assert list(Observation.objects.order_by("id").values_list("counted", flat=True)) == [True, False, True]


def test_of_a_run_s_reports_the_highest_revision_wins(agent):
    run_id = str(uuid.uuid4())
    agent.send(runs=[harness.run(id=run_id, revision=2, steps=12), harness.run(id=run_id, revision=1, steps=5)])
    agent.send(runs=[harness.run(id=run_id, revision=1, steps=7)])
    assert Run.objects.get().steps == 12

    agent.send(runs=[harness.run(id=run_id, revision=3, status="finished", steps=15, ended_age_s=0.0)])

    row = Run.objects.get()
    assert (row.steps, row.status, row.ended_at is not None) == (15, "finished", True)


def test_a_run_with_overlong_texts_is_kept_with_their_beginning(agent):
    agent.send(runs=[harness.run(end_cause="error:" + "x" * 90, disclosure="y" * 5000, task_kind="z" * 150)])

    row = Run.objects.get()
    assert (len(row.end_cause), len(row.disclosure), len(row.task_kind)) == (30, 1000, 100)


def test_ids_that_another_environment_has_are_told_and_change_nothing_there(agent, edge, staging):
    other = staging.agents.create(slug="research", name="Research", created_at=clock.now())
    _, token = access.issue_key(environment=staging, agent=other, label="", actor="ann", now=clock.now())
    there = harness.Agent(edge, token, environment="staging")
    run, trip = harness.run(steps=4), harness.trip(signal="no_progress")
    assert there.send(runs=[run], trips=[trip])["notes"] == []

    answer = agent.send(runs=[{**run, "revision": 9, "steps": 1}], trips=[{**trip, "signal": "oscillation"}])

    assert {note["code"] for note in answer["notes"]} == {"foreign_run", "foreign_trip"}
    assert (Run.objects.get().environment_id, Run.objects.get().steps) == (staging.pk, 4)
    assert (Trip.objects.get().environment_id, Trip.objects.get().signal) == (staging.pk, "no_progress")
    assert there.send(runs=[{**run, "revision": 2}], trips=[trip])["notes"] == []


def test_a_run_of_another_agent_is_not_overwritten(agent, edge, prod):
    mine = harness.run(revision=1)
    agent.send(runs=[mine])
    other_agent = prod.agents.create(slug="support", name="Support", created_at=clock.now())
    _, token = access.issue_key(environment=prod, agent=other_agent, label="", actor="ann", now=clock.now())
    harness.Agent(edge, token).send(runs=[{**mine, "revision": 9, "steps": 1}])

    assert Run.objects.get().steps == 9


def test_the_key_s_last_use_is_noted(agent, key):
    agent.send(observation())

    assert AgentKey.objects.get(pk=key.pk).last_used_at is not None


def test_a_process_that_remembers_rows_that_are_gone_looks_again(agent):
    agent.send(observation())
    Session.objects.all().delete()
    Worker.objects.all().delete()

    assert agent.send(observation())["repeat"] is False
    assert Worker.objects.count() == 1


def test_an_agent_without_a_config_reports_to_the_dependency_that_operators_named(agent, prod):
    """It takes the tool for its own dependency; a circuit of that name would be nobody's."""
    tools.ensure_dependency(environment=prod, slug="hotels-api", actor="otto", now=clock.now())
    tools.ensure_tool(environment=prod, name="hotels", dependencies=["hotels-api"], actor="otto", now=clock.now())

    answer = agent.send(
        observation(tool="hotels", dependency="hotels"), trips=[harness.trip(tool="hotels", dependency="hotels")]
    )

    assert list(answer["circuits"]) == ["hotels-api"]
    assert not Dependency.objects.filter(slug="hotels").exists()
    assert Observation.objects.get().dependency_id == Trip.objects.get().dependency_id
    assert Trip.objects.get().dependency.slug == "hotels-api"


def test_what_nobody_foresaw_is_answered_in_the_one_shape_and_takes_nothing(agent, monkeypatch):
    async def broken(*_):
        raise RuntimeError

    monkeypatch.setattr(Intake, "take", broken)
    batch = agent.batch(observations=[observation()])

    answer = agent.post(batch)

    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    monkeypatch.undo()
    assert agent.post(batch).json()["repeat"] is False


def test_after_a_rotation_a_worker_goes_by_the_key_it_uses(edge, agent, issue):
    agent.send(observation())
    Worker.objects.update(last_seen_at=clock.now() - timedelta(seconds=6))
    rotated, token = issue()

    harness.Agent(edge, token).send(observation())

    assert Worker.objects.get().key == rotated


def local_override(**more):
    """An entry of a batch's `overrides`."""
    told = {"tool": "web_search", "dependency": None, "mode": "forced_open", "reason": "other customers' data"}
    return {"id": str(uuid.uuid4()), "who": "dana", "age_s": 340.0, "expires_in_s": 3260.0, **told, **more}


def test_a_break_glass_file_is_kept_with_its_worker_and_in_the_audit(agent):
    agent.send(overrides=[local_override()])

    row, entry = LocalOverride.objects.get(), AuditEntry.objects.get(action="break_glass")
    assert (row.worker.instance, row.tool, row.dependency, row.mode) == ("pod-1", "web_search", "", "forced_open")
    assert (row.expires_at - row.began_at).total_seconds() == pytest.approx(3600.0)
    assert (entry.actor, entry.target, entry.reason) == ("research/pod-1", "web_search", "other customers' data")
    assert (entry.detail["who"], entry.detail["mode"]) == ("dana", "forced_open")


def test_a_local_override_moves_no_circuit(agent):
    agent.send(observation())
    agent.send(overrides=[local_override(tool=None, dependency="search-api")])

    assert list(Circuit.objects.values_list("mode", "generation")) == [("auto", 0)]


def test_a_local_override_that_comes_twice_is_kept_once(agent):
    told = local_override()
    batch = agent.batch(overrides=[told, told])
    agent.post(batch)

    assert agent.post(batch).json()["repeat"] is True
    agent.send(overrides=[told])
    assert LocalOverride.objects.count() == AuditEntry.objects.filter(action="break_glass").count() == 1


def test_a_local_override_told_eight_times_at_once_is_kept_once_and_nobody_is_sent_away(agent):
    batch = agent.batch(overrides=[local_override()])

    answers = at_once(lambda: agent.post(batch), 8)

    assert [answer.status_code for answer in answers] == [200] * 8
    assert LocalOverride.objects.count() == AuditEntry.objects.filter(action="break_glass").count() == 1


def test_more_local_overrides_than_a_key_may_tell_of_are_not_kept(agent, monkeypatch):
    monkeypatch.setattr(caps, "OVERRIDES_AN_HOUR", 2)

    answer = agent.send(overrides=[local_override() for _ in range(3)])

    assert [note["code"] for note in answer["notes"]] == ["overrides_capped"]
    assert LocalOverride.objects.count() == 2


@pytest.mark.parametrize("named", [{"dependency": "search-api"}, {"tool": None}])
def test_a_local_override_forces_exactly_one_thing(agent, named):
    answer = agent.post(agent.batch(overrides=[local_override(**named)]))

    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "overrides[0].tool")


HINTS = {"tool": "web_search", "readOnlyHint": True, "destructiveHint": None, "title": "a word that nobody knows"}


def test_hints_are_kept_once_by_agent_and_of_tools_that_are_not_known_none(agent):
    agent.send(observation(), hints=[HINTS, {"tool": "never_called", "readOnlyHint": True}])
    agent.send(hints=[HINTS])

    row = ToolHints.objects.get()
    assert (row.tool.name, row.agent.slug, row.stated()) == ("web_search", "research", {"readOnlyHint": True})
    assert (row.tool.side_effect, row.tool.class_confirmed) == ("unknown", False)


def test_a_hint_that_is_no_truth_value_names_its_field(agent):
    refused = agent.post(agent.batch(hints=[{"tool": "web_search", "readOnlyHint": "yes"}]))

    assert refused.status_code == 422
    assert refused.json()["error"]["field"] == "hints[0].readOnlyHint"


def test_what_a_key_in_quarantine_claims_proposes_nothing(agent, prod):
    agent.send(observation(tool="frobnicate"))
    agent.send(hints=[{"tool": "frobnicate", "destructiveHint": True}])
    tool = Tool.objects.get(name="frobnicate")
    assert proposed(tool).side_effect == "destructive"

    key = AgentKey.objects.get(environment=prod)
    access.quarantine_key(key=key, actor="ada", reason="it lies", now=clock.now())

    tool = Tool.objects.get(name="frobnicate")
    assert proposed(tool) is None and [each.counted for each in told(tool)] == [False]
