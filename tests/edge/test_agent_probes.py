"""Probes that agent processes send: offered on lease to those whose code lists the host, told once, judged here."""

import subprocess
import sys
from datetime import timedelta

import pytest

from controlplane import clock
from controlplane.models import Circuit, Probe, ProbeRound, ProbeVote
from controlplane.services import access, circuits, policies, probes, tools
from controlplane.services.errors import Refused
from tests.edge import harness
from tests.workers.vendor import Vendor, reply

AGENT = """
import sys, time, recloser
with recloser.Client(sys.argv[1], sys.argv[2], instance=sys.argv[3], cache_dir=False,
                     probe_hosts=[sys.argv[4]]) as client:
    while True:
        time.sleep(60)
"""


@pytest.fixture
def vendor():
    with Vendor() as running:
        yield running


@pytest.fixture
def search(prod):
    row = tools.ensure_dependency(environment=prod, slug="search-api", actor="ada", now=clock.now())
    policies.publish(
        environment=prod, level="dependency", dependency=row, reason="quick", actor="ada", now=clock.now(),
        values={"cooldown_s": 0.2, "cooldown_max_s": 0.2, "jitter": 0.0, "probe_timeout_s": 1.5},
    )  # fmt: skip
    return row


def ask_agents(search, url, **spec):
    """Without leave to reach loopback: for the control plane this address is out of reach."""
    return probes.save_probe(
        dependency=search, operation="search", spec={"url": url, "time_limit_s": 2, **spec}, actor="ada",
        now=clock.now(), ask_from="agents",
    )  # fmt: skip


def open_and_grant(search):
    now = clock.now()
    circuits.hold_open(
        dependency_id=search.pk, actor="otto", reason="a drill", now=now, until=now + timedelta(seconds=60)
    )
    circuits.release(dependency_id=search.pk, actor="otto", reason="go on", now=clock.now())
    return circuits.claim_rounds(now=clock.now(), limit=5)[0]


def place(vendor):
    return vendor.url.removeprefix("http://")


def willing(agent, vendor, **parts):
    return agent.send(probe_hosts=[place(vendor)], **parts)["probes"]


def result(offer, **told):
    return {"id": offer["id"], "generation": offer["generation"], "took_ms": 12.0, **told}


def state(search):
    return Circuit.objects.get(dependency=search).state


@pytest.fixture
def agent(edge, key):
    return harness.Agent(edge, key.token)


def test_a_willing_process_is_offered_the_probe_and_its_vote_closes_the_circuit(agent, search, vendor):
    ask_agents(search, f"{vendor.url}/ok")
    row = open_and_grant(search)
    [offer] = willing(agent, vendor)

    assert (offer["url"], offer["method"], offer["kind"]) == (f"{vendor.url}/ok", "GET", "http")
    assert (offer["dependency"], offer["generation"]) == ("search-api", row.generation)
    assert 0 < offer["lease_s"] <= 5
    agent.send(probes=[result(offer, status=200)])
    row.refresh_from_db()
    assert (row.verdict, row.applied, state(search)) == ("good", True, "closed")
    assert row.votes.get().place == "research/pod-1"


def test_the_verdict_is_the_control_planes_own(agent, search, vendor):
    ask_agents(search, f"{vendor.url}/ok", expected_status="200", latency_ms=5)
    row = open_and_grant(search)
    [offer] = willing(agent, vendor)
    agent.send(probes=[result(offer, status=200)])

    row.refresh_from_db()
    assert (row.verdict, row.answered["cause"], state(search)) == ("bad", "latency", "open")


def test_who_does_not_list_the_host_is_offered_nothing(agent, search, vendor):
    ask_agents(search, f"{vendor.url}/ok")
    open_and_grant(search)

    assert agent.send(probe_hosts=["crm.internal:443"])["probes"] == []
    assert agent.send()["probes"] == []


def test_one_seat_goes_to_one_process_until_its_lease_is_over(edge, key, search, vendor):
    ask_agents(search, f"{vendor.url}/ok")
    row = open_and_grant(search)
    first, second = harness.Agent(edge, key.token), harness.Agent(edge, key.token, instance="pod-2")
    [offer] = willing(first, vendor)

    assert willing(second, vendor) == []
    assert willing(first, vendor)[0]["id"] == offer["id"], "an answer that was lost is given again"
    ProbeVote.objects.update(lease_expires_at=clock.now())
    [again] = willing(second, vendor)
    first.send(probes=[result(offer, status=503)])
    assert state(search) == "half_open", "its lease was over"
    second.send(probes=[result(again, status=200)])
    row.refresh_from_db()
    assert (row.verdict, row.votes.get().place) == ("good", "research/pod-2")


@pytest.mark.parametrize("wrong", [{"generation": 99}, {"id": "00000000-0000-4000-8000-000000000001"}])
def test_a_result_of_another_generation_or_seat_has_no_say(agent, search, vendor, wrong):
    ask_agents(search, f"{vendor.url}/ok")
    open_and_grant(search)
    [offer] = willing(agent, vendor)
    agent.send(probes=[result(offer, status=200) | wrong])

    assert state(search) == "half_open"


def test_a_result_that_is_told_twice_counts_once(agent, search, vendor):
    ask_agents(search, f"{vendor.url}/ok")
    row = open_and_grant(search)
    [offer] = willing(agent, vendor)
    agent.send(probes=[result(offer, status=503)])
    agent.send(probes=[result(offer, status=200)])

    row.refresh_from_db()
    assert (row.verdict, ProbeRound.objects.count(), state(search)) == ("bad", 1, "open")


def test_a_quarantined_key_has_no_vote(agent, key, search, vendor):
    ask_agents(search, f"{vendor.url}/ok")
    open_and_grant(search)
    [offer] = willing(agent, vendor)
    access.quarantine_key(key=key, actor="ada", reason="it lies", now=clock.now())
    agent.send(probes=[result(offer, status=200)])

    assert state(search) == "half_open"
    assert willing(agent, vendor) == []


def test_secrets_and_what_an_agent_cannot_judge_are_refused_with_the_field(search, vendor):
    for more in ({"method": "POST"}, {"redirects": "any"}, {"body_condition": {"kind": "contains", "value": "ok"}}):
        with pytest.raises(Refused) as refused:
            ask_agents(search, f"{vendor.url}/ok", **more)
        assert (refused.value.code, refused.value.field) == ("not_for_agents", "ask_from")
    with pytest.raises(Refused) as refused:
        probes.save_probe(
            dependency=search, operation="search", spec={"url": vendor.url}, actor="ada", now=clock.now(),
            ask_from="agents", secret_headers={"Authorization": "Bearer s3cret"},
        )  # fmt: skip
    assert refused.value.code == "not_for_agents"
    assert not Probe.objects.exists()


def start(server, key, instance, vendor):
    return subprocess.Popen([sys.executable, "-c", AGENT, server.url, key.token, instance, place(vendor)])


@pytest.mark.e2e
def test_a_real_process_probes_for_us_and_another_takes_over_when_it_is_killed(servers, key, search, vendor):
    from tests.workers.vendor import hang

    vendor.routes["/held"] = hang
    [server] = servers(1)
    ask_agents(search, f"{vendor.url}/held")
    row = open_and_grant(search)
    first = start(server, key, "pod-1", vendor)
    try:
        harness.until(lambda: vendor.count("/held") == 1, within=20, what="the first process' probe")
        first.kill()
        first.wait(5)
        vendor.routes["/held"] = reply(200, "back")
        second = start(server, key, "pod-2", vendor)
        try:
            harness.until(lambda: state(search) == "closed", within=20, what="the second process' vote")
        finally:
            second.kill()
            second.wait(5)
    finally:
        first.kill()
    row.refresh_from_db()
    assert (row.verdict, row.votes.get().place) == ("good", "research/pod-2")
    assert all("authorization" not in seen.headers for seen in vendor.seen)
