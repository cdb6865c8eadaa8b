"""GET config and circuits: whole, resolved, versioned, and not sent twice."""

import asyncio
import gzip
import json
from datetime import timedelta

import psycopg
from django.db import transaction
from recloser.core.policy import CircuitPolicy, RunPolicy, from_wire

from controlplane import clock
from controlplane.delivery import documents, versions
from controlplane.edge.documents import Looks
from controlplane.models import Circuit, DocumentVersion
from controlplane.services import circuits, policies, tools
from tests.edge.harness import failing, observation


def _open(prod, slug="search-api"):
    now = clock.now()
    dependency = tools.ensure_dependency(environment=prod, slug=slug, actor="ada", now=now)
    circuits.hold_open(
        dependency_id=dependency.pk, actor="otto", reason="drill", now=now, until=now + timedelta(minutes=5)
    )
    return dependency


def test_the_config_resolves_every_policy_and_interns_it(agent, prod):
    now = clock.now()
    for slug in ("search-api", "crm-db", "mail"):
        tools.ensure_dependency(environment=prod, slug=slug, actor="ada", now=now)
    mail = tools.find_dependency(environment=prod, slug="mail")
    tools.ensure_tool(
        environment=prod, name="web_search", dependencies=["search-api"], actor="ada", now=now, side_effect="read_only"
    )
    policies.publish(
        environment=prod,
        level="dependency",
        dependency=mail,
        values={"cooldown_s": 7},
        reason="slow to mend",
        actor="petra",
        now=now,
    )

    config = agent.get("config").json()

    assert (config["format"], config["complete"]) == (1, True)
    assert (config["environment"], config["agent"]) == ("prod", "research")
    places = {slug: entry["policy"] for slug, entry in config["dependencies"].items()}
    assert places["crm-db"] == config["default_circuit_policy"]
    assert from_wire(CircuitPolicy, config["circuit_policies"][places["mail"]]).cooldown_s == 7
    tool = config["tools"]["web_search"]
    assert (tool["dependencies"], tool["side_effect"], tool["confirmed"]) == (["search-api"], "read_only", True)
    assert from_wire(RunPolicy, config["run_policies"][tool["policy"]]).consecutive_failures == 5
    assert from_wire(RunPolicy, config["run_policies"][config["default_run_policy"]]).consecutive_failures == 3
    assert len(config["circuit_policies"]) == len({json.dumps(each) for each in config["circuit_policies"]})


def test_a_document_is_not_sent_again_while_its_etag_holds(agent, prod):
    for name in ("config", "circuits"):
        first = agent.get(name)

        again = agent.get(name, **{"if-none-match": first.headers["etag"]})

        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        body = first.json()
        assert first.headers["etag"].startswith(f'"{body["epoch"]}-{body["version"]}-')


def test_a_published_policy_reaches_the_next_request(agent, prod):
    first = agent.get("config")
    policies.publish(
        environment=prod,
        level="environment",
        values={"circuit": {"min_calls": 3}, "run": {}},
        reason="small fleet",
        actor="petra",
        now=clock.now(),
    )

    second = agent.get("config", **{"if-none-match": first.headers["etag"]})

    assert second.status_code == 200
    assert second.json()["version"] > first.json()["version"]
    place = second.json()["default_circuit_policy"]
    assert second.json()["circuit_policies"][place]["min_calls"] == 3


def test_config_is_packed_for_those_who_take_it(agent):
    packed = agent.get("config", **{"accept-encoding": "gzip"})
    plain = agent.get("config", **{"accept-encoding": "identity"})

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()
    assert len(gzip.compress(plain.content)) < len(plain.content)


def test_circuits_lists_what_is_not_plainly_closed_with_the_servers_time(agent, prod):
    agent.send(observation(dependency="fine-api"))
    dependency = _open(prod)

    document = agent.get("circuits").json()

    assert list(document["circuits"]) == ["search-api"]
    entry = document["circuits"]["search-api"]
    assert (entry["state"], entry["mode"], entry["cause"]) == ("open", "forced_open", "operator")
    assert entry["delivery"] == "enforce"
    assert entry["generation"] == Circuit.objects.get(dependency=dependency).generation == 1
    assert 295 < entry["mode_expires_at"] - document["now"] <= 300
    assert document["complete"] is True


def test_a_circuit_that_closed_again_keeps_its_generation_for_new_processes(agent, prod):
    dependency = _open(prod)
    circuits.force_close(dependency_id=dependency.pk, actor="otto", reason="mended", now=clock.now())

    entry = agent.get("circuits").json()["circuits"]["search-api"]

    assert (entry["state"], entry["mode"], entry["generation"]) == ("closed", "auto", 2)


def test_the_document_moves_with_every_transition(agent, prod):
    before = agent.get("circuits")
    _open(prod)

    after = agent.get("circuits", **{"if-none-match": before.headers["etag"]})

    assert after.status_code == 200
    assert after.json()["version"] > before.json()["version"]


def test_observe_shows_in_the_circuits_document(agent, prod):
    dependency = _open(prod)
    policies.publish(
        environment=prod,
        level="dependency",
        dependency=dependency,
        values={"delivery": "observe"},
        reason="look first",
        actor="petra",
        now=clock.now(),
    )

    assert agent.get("circuits").json()["circuits"]["search-api"]["delivery"] == "observe"
    assert agent.send(failing(1))["circuits"]["search-api"]["delivery"] == "observe"


def test_nothing_of_another_environment_is_in_a_document(agent, prod, staging):
    _open(staging, "secret-api")

    assert agent.get("circuits").json()["circuits"] == {}
    assert "secret-api" not in agent.get("config").json()["dependencies"]


def test_after_a_restore_a_new_epoch_names_every_document(agent, prod):
    before = agent.get("circuits")
    DocumentVersion.objects.update(circuits=1, config=1)
    versions.new_epoch()

    after = agent.get("circuits", **{"if-none-match": before.headers["etag"]}).json()

    assert after["epoch"] != before.json()["epoch"]
    assert agent.get("config").json()["epoch"] == after["epoch"]


def test_a_version_is_raised_only_with_its_change(prod):
    with transaction.atomic():
        first = versions.bump_circuits(prod.pk)
    with transaction.atomic():
        assert versions.bump_circuits(prod.pk) == first + 1
        transaction.set_rollback(True)
    assert versions.of(prod.pk).circuits == first


def test_one_look_serves_everyone_who_asked_before_it_and_nobody_who_asked_later(edge, agent, prod):
    looks, began = [], []

    async def crowd():
        reader = Looks(None)

        async def read(environment_id):
            looks.append(len(began))
            await asyncio.sleep(0.02)
            return ("e1", len(looks), 0, 0.0)

        reader._read = read
        first = [asyncio.create_task(reader.version(prod.pk)) for _ in range(50)]
        await asyncio.sleep(0.01)
        began.append("late")
        late = [asyncio.create_task(reader.version(prod.pk)) for _ in range(50)]
        return [version for _, version, _, _ in await asyncio.gather(*first, *late)]

    assert edge.loop.call(crowd()) == [1] * 50 + [2] * 50
    assert looks == [0, 1]


def test_a_look_that_fails_fails_for_those_who_waited_and_for_nobody_after(edge, prod):
    async def crowd():
        reader, answers = Looks(None), iter([psycopg.OperationalError("away"), ("e1", 1, 0, 0.0)])

        async def read(environment_id):
            await asyncio.sleep(0)
            if isinstance(found := next(answers), Exception):
                raise found
            return found

        reader._read = read
        failed = await asyncio.gather(*[reader.version(prod.pk) for _ in range(5)], return_exceptions=True)
        return failed, await reader.version(prod.pk)

    failed, then = edge.loop.call(crowd())
    assert [type(each) for each in failed] == [psycopg.OperationalError] * 5
    assert then == ("e1", 1, 0, 0.0)


def test_a_crowd_that_bears_one_key_costs_one_look_at_it(edge, agent, monkeypatch):
    keys, looked = edge.edge._keys, []
    real = keys._look_up

    async def look_up(text):
        looked.append(text)
        await asyncio.sleep(0.05)
        return await real(text)

    monkeypatch.setattr(keys, "_look_up", look_up)

    async def crowd():
        asked = [edge.client.get("/agent/v1/config", headers=agent.headers) for _ in range(40)]
        return [answer.status_code for answer in await asyncio.gather(*asked)]

    assert edge.loop.call(crowd()) == [200] * 40
    assert len(looked) == 1


def test_a_config_that_is_published_under_its_reader_never_has_a_version_beyond_its_content(agent, prod, monkeypatch):
    real = documents._config

    def restless(environment_id, agent_id):
        content = real(environment_id, agent_id)
        with transaction.atomic():
            versions.bump_config(environment_id)
        return content

    monkeypatch.setattr(documents, "_config", restless)
    named = agent.get("config").json()["version"]

    assert named < versions.of(prod.pk).config


def test_a_request_that_is_broken_off_takes_no_other_with_it(prod):
    async def crowd():
        reader, open_up = Looks(None), asyncio.Event()

        async def read(environment_id):
            await open_up.wait()
            return ("e1", 1, 0, 0.0)

        reader._read = read
        patient = asyncio.create_task(reader.version(prod.pk))
        gone = asyncio.create_task(reader.version(prod.pk))
        await asyncio.sleep(0)
        gone.cancel()
        open_up.set()
        return await asyncio.gather(patient, gone, return_exceptions=True)

    answered, broken_off = asyncio.run(crowd())

    assert answered == ("e1", 1, 0, 0.0)
    assert isinstance(broken_off, asyncio.CancelledError)
